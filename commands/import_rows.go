package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/csvfile"
	"ledgerline/domain/consent"
	"ledgerline/domain/contact"
	"ledgerline/domain/fault"
	"ledgerline/domain/importjob"
	"ledgerline/domain/label"
	"ledgerline/domain/number"
	"ledgerline/events"
)

const (
	// importStretch is how many rows one append carries out: enough that the round trips do not count, few enough that
	// sends do not wait long behind it.
	importStretch = 100
	// importTurn is how many rows are carried out before somebody else may have a turn, or the node may stop.
	importTurn = 5000
)

// errMoved says that somebody else works on the job too: the lease on it was lost.
var errMoved = errors.New("commands: the import has been worked on by somebody else")

// ContinueImport carries out the next rows of a job's file, and tells whether that was all. Each stretch of rows is one
// append, with the progress it makes: whenever it is broken off, the next call goes on behind the last one that was
// written, and no row is carried out or counted twice.
func (a *App) ContinueImport(ctx context.Context, id uuid.UUID) (done bool, err error) {
	job, err := a.FindImport(ctx, id)
	if err != nil {
		return false, err
	}
	if job.Finished {
		a.dropFile(ctx, id)
		return true, nil
	}
	file, err := a.openFile(ctx, id)
	if err != nil && !errors.Is(err, errFileGone) {
		return false, err
	}
	if err == nil {
		im := &importing{app: a, id: id, file: file, done: job.Rows, total: job.TotalRows}
		im.req = Request{
			Organisation: job.Organisation, Workspace: job.Workspace, Actor: events.Actor{Type: file.ActorType, ID: file.ActorID}, RequestID: file.RequestID,
			IP: file.IP, UserAgent: file.UserAgent, Test: job.IsTest, Correlation: id,
		}
		done, err = im.turn(ctx)
	}
	if errors.Is(err, errFileGone) {
		a.engine.Log.ErrorContext(ctx, "an import cannot go on", "job", importjob.Stream(id), "error", err)
		done, err = true, a.failImport(ctx, &job, "file_unreadable")
	}
	if err != nil {
		return false, err
	}
	if done {
		a.dropFile(ctx, id)
	}
	return done, nil
}

func (a *App) failImport(ctx context.Context, job *importjob.Job, reason string) error {
	req := Request{Organisation: job.Organisation, Workspace: job.Workspace, Actor: events.Actor{Type: "system", ID: "import"}, Correlation: job.ID}
	_, err := a.run(ctx, req, func(ctx context.Context, u *unit) error {
		j, err := engine.Load(ctx, u.Unit, a.engine.Imports, importjob.Stream(job.ID))
		if err == nil {
			j.Record(j.State.Fail(reason)...)
		}
		return err
	})
	return err
}

// importing is a turn at a job.
type importing struct {
	app     *App
	id      uuid.UUID
	req     Request
	file    *importFile
	reader  *csvfile.Reader
	mapping importjob.Mapping
	done    int // rows that were carried out
	total   int
}

// turn works on the job for a while.
func (im *importing) turn(ctx context.Context) (done bool, err error) {
	if err := im.open(); err != nil { // it could be read when the job was accepted, perhaps by another version of the program
		return false, fmt.Errorf("%w: %w", errFileGone, err)
	}
	if err := im.start(ctx); err != nil {
		return false, err
	}
	for range importTurn / importStretch {
		if done, err = im.stretch(ctx); err != nil || done {
			break
		}
	}
	return done, err
}

// open goes to the first row that is not done.
func (im *importing) open() (err error) {
	if im.reader, err = csvfile.NewReader(im.file.CSV); err != nil {
		return err
	}
	if im.mapping, err = importjob.NewMapping(im.reader.Header(), im.file.Mapping); err != nil {
		return err
	}
	for range im.done {
		if _, err := im.reader.Next(); err != nil {
			return err
		}
	}
	return nil
}

func (im *importing) start(ctx context.Context) error {
	_, err := im.app.run(ctx, im.req, func(ctx context.Context, u *unit) error {
		j, err := engine.Load(ctx, u.Unit, im.app.engine.Imports, importjob.Stream(im.id))
		if err == nil {
			j.Record(j.State.Start()...)
		}
		return err
	})
	return err
}

// stretch carries out the next rows.
func (im *importing) stretch(ctx context.Context) (ended bool, err error) {
	rows := make([]importjob.Row, 0, importStretch)
	for len(rows) < importStretch {
		row, err := im.reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return false, fmt.Errorf("%w: %w", errFileGone, err)
		}
		rows = append(rows, im.mapping.Read(row.Number, row.Cells, row.Width))
	}
	if len(rows) == 0 && im.done < im.total {
		return false, fmt.Errorf("%w: it has fewer rows than it had", errFileGone)
	}
	ended, err = im.carryOut(ctx, rows)
	if err == nil || ctx.Err() != nil || fault.Is(err, fault.Unavailable) || errors.Is(err, errMoved) {
		return ended, err
	}
	// Something about one of the rows cannot be written. Nobody thought of it, and it must not hold up the others.
	im.app.engine.Log.ErrorContext(ctx, "a stretch of an import was refused", "job", importjob.Stream(im.id), "error", err)
	for _, row := range rows {
		if ended, err = im.carryOut(ctx, []importjob.Row{row}); err == nil {
			continue
		}
		if ctx.Err() != nil || fault.Is(err, fault.Unavailable) || errors.Is(err, errMoved) {
			return false, err
		}
		if ended, err = im.carryOut(ctx, []importjob.Row{{Number: row.Number, Problem: "The row could not be stored."}}); err != nil {
			return false, err
		}
	}
	return ended, nil
}

// carryOut appends what the rows change, together with the progress.
func (im *importing) carryOut(ctx context.Context, rows []importjob.Row) (ended bool, err error) {
	_, err = im.app.run(ctx, im.req, func(ctx context.Context, u *unit) error {
		u.SkipCache = true
		j, err := engine.Load(ctx, u.Unit, im.app.engine.Imports, importjob.Stream(im.id))
		if err != nil {
			return err
		}
		if j.State.Rows != im.done || j.State.Finished {
			if !u.Fresh {
				return engine.ErrInconsistent
			}
			return errMoved
		}
		s := &stretch{unit: u, job: &j.State, labels: map[string]uuid.UUID{}}
		if err := s.look(ctx, rows); err != nil {
			return err
		}
		for i := range rows {
			if err := s.row(ctx, &rows[i]); err != nil {
				return err
			}
		}
		j.Record(j.State.Progress(s.Batch)...)
		ended = j.State.Finished
		return nil
	})
	if err != nil { // what was decided was not written, as far as is known
		return false, err
	}
	im.done += len(rows)
	return ended, nil
}

// stretch is some rows of a job within one append.
type stretch struct {
	*unit
	job    *importjob.Job
	given  []uuid.UUID          // labels of the job that exist
	labels map[string]uuid.UUID // by the key of their claim; a label that is made here is made once
	importjob.Batch
}

// look loads in a few round trips what the rows are about: their numbers, and the contacts that have them.
func (s *stretch) look(ctx context.Context, rows []importjob.Row) error {
	var numbers, contacts []string
	for i := range rows {
		if rows[i].Problem == "" {
			numbers = append(numbers, number.Stream(s.Engine.Ledger.NumberHash(s.Request.Organisation, rows[i].Phone)))
		}
	}
	if err := engine.LoadMany(ctx, s.unit.Unit, s.Engine.Numbers, numbers); err != nil {
		return err
	}
	if s.job.UpdateExisting {
		for _, stream := range numbers {
			num, err := engine.Load(ctx, s.unit.Unit, s.Engine.Numbers, stream)
			if err != nil {
				return err
			}
			if id, found := num.State.ContactIn(s.Request.Workspace); found {
				contacts = append(contacts, id)
			}
		}
		if err := engine.LoadMany(ctx, s.unit.Unit, s.Engine.Contacts, contacts); err != nil {
			return err
		}
	}
	var err error
	s.given, err = s.existingLabels(ctx, s.job.LabelIDs)
	return err
}

// row carries one row out.
func (s *stretch) row(ctx context.Context, row *importjob.Row) error {
	if row.Problem != "" {
		s.skip(row, row.Problem)
		return nil
	}
	num, err := s.Number(ctx, row.Phone)
	if err != nil {
		return err
	}
	id, found := num.State.ContactIn(s.Request.Workspace)
	switch {
	case !found && num.State.UnlinkedAfter(s.Request.Workspace, s.job.RequestedAt):
		// The file is older than that: it must not bring back who was erased meanwhile.
		s.skip(row, "The contact with this phone number was deleted, or got another number, after the file was sent.")
		return nil
	case !found:
		return s.create(ctx, row, num)
	case !s.job.UpdateExisting:
		s.skip(row, "A contact with this phone number exists, and update_existing is not set.")
		return nil
	}
	c, err := engine.Load(ctx, s.unit.Unit, s.Engine.Contacts, id)
	if err != nil {
		return err
	}
	if !c.State.Exists() {
		return engine.ErrInconsistent // deleted between the two looks
	}
	return s.update(ctx, row, num, c)
}

func (s *stretch) skip(row *importjob.Row, problem string) {
	s.Skipped++
	if problem != "" {
		s.Errors = append(s.Errors, events.ImportError{Row: row.Number, Message: problem})
	}
}

// problemOf is what a validation fault says.
func problemOf(err error) string {
	if f := fault.Of(err); f != nil {
		return f.Issues[0].Message
	}
	return ""
}

const needsSource = "A contact is opted in only with a consent_source, which the import does not give."

func (s *stretch) evidence() consent.Evidence {
	return consent.Evidence{Source: s.job.ConsentSource, IP: s.Request.IP, UserAgent: s.Request.UserAgent}
}

// optOutSource is the source of opt-outs that a file tells without one.
const optOutSource = "import"

func (s *stretch) optOut(ctx context.Context, c *engine.Aggregate[contact.Contact], num engine.Number) error {
	ev := s.evidence()
	if ev.Source == nil {
		source := optOutSource
		ev.Source = &source
	}
	return s.changeConsent(ctx, c, num, consent.OptedOut, ev)
}

// create makes a contact of a row. The register decides first; then an opt-out of the file is one of the number's.
func (s *stretch) create(ctx context.Context, row *importjob.Row, num engine.Number) error {
	n := contact.NewContact{IsTest: s.Request.Test, Origin: "import", Evidence: s.evidence()}
	if row.Consent == consent.OptedIn && !num.State.OptedOut {
		if s.job.ConsentSource == nil {
			s.skip(row, needsSource)
			return nil
		}
		n.Consent = consent.OptedIn
	}
	if problem := problemOf(contact.CheckFields(row.Fields, "")); problem != "" {
		s.skip(row, problem)
		return nil
	}
	labels, err := s.labelled(ctx, row)
	if err != nil {
		return err
	}
	n.LabelIDs = labels
	n.Person.Phone, n.Person.Fields = row.Phone, row.Fields
	n.Person.FirstName, n.Person.LastName, n.Person.Company, n.Person.Email = row.Trimmed()
	c, err := s.newContact(num, n)
	if err != nil {
		return err
	}
	if row.Consent == consent.OptedOut && c.State.Consent != consent.OptedOut {
		if err := s.optOut(ctx, c, num); err != nil {
			return err
		}
	}
	s.Imported++
	return nil
}

// update changes a contact as a row says. Who is opted out stays so, and nobody becomes unknown again: a file tells what
// somebody agreed to once, not that they agree again.
func (s *stretch) update(ctx context.Context, row *importjob.Row, num engine.Number, c *engine.Aggregate[contact.Contact]) error {
	optIn := row.Consent == consent.OptedIn && c.State.Consent == consent.Unknown && !num.State.OptedOut
	if optIn && s.job.ConsentSource == nil {
		s.skip(row, needsSource)
		return nil
	}
	patch := row.Patch(c.State)
	if problem := problemOf(contact.CheckFields(patch.Fields, "")); problem != "" {
		s.skip(row, problem)
		return nil
	}
	labels, err := s.labelled(ctx, row)
	if err != nil {
		return err
	}
	relabelled, refused := c.State.ChangeLabels(labels, nil, "")
	if problem := problemOf(refused); problem != "" {
		s.skip(row, problem)
		return nil
	}
	before := c.Recorded()
	c.Record(c.State.Update(patch)...)
	c.Record(relabelled...)
	switch {
	case optIn:
		err = s.changeConsent(ctx, c, num, consent.OptedIn, s.evidence())
	case row.Consent == consent.OptedOut && c.State.Consent != consent.OptedOut:
		err = s.optOut(ctx, c, num)
	}
	if err != nil {
		return err
	}
	if c.Recorded() == before {
		s.skip(row, "")
		return nil
	}
	s.Updated++
	return nil
}

// labelled gives the labels of a row, those that the job gives included. Unknown names make the label.
func (s *stretch) labelled(ctx context.Context, row *importjob.Row) ([]uuid.UUID, error) {
	ids := append([]uuid.UUID(nil), s.given...)
	for _, name := range row.Labels {
		_, key := label.Claim(s.Request.Workspace, name)
		id, known := s.labels[key]
		if !known {
			named, _, err := s.findOrCreateLabels(ctx, []string{name}, "")
			if err != nil {
				return nil, err
			}
			id = named[0]
			s.labels[key] = id
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
