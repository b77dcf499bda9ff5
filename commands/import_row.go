package commands

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/consent"
	"ledgerline/domain/contact"
	"ledgerline/domain/fault"
	"ledgerline/domain/importjob"
	"ledgerline/domain/label"
	"ledgerline/domain/number"
	"ledgerline/events"
)

// importBatch is the unit of work of some rows of a job. The embedded Batch is their result.
type importBatch struct {
	*unit
	job         *importjob.Job
	jobLabelIDs []uuid.UUID          // labels of the job that have not been deleted
	labelIDs    map[string]uuid.UUID // labels of rows by the key of their claim, so that a new label is created once
	importjob.Batch
}

// load reads the numbers of the rows and their contacts in a few round trips.
func (b *importBatch) load(ctx context.Context, rows []importjob.Row) error {
	var numbers, contacts []string
	for i := range rows {
		if rows[i].Problem == "" {
			numbers = append(numbers, number.Stream(b.Engine.Ledger.NumberHash(b.Request.Organisation, rows[i].Phone)))
		}
	}
	if err := engine.LoadMany(ctx, b.Unit, b.Engine.Numbers, numbers); err != nil {
		return err
	}
	if b.job.UpdateExisting {
		for _, stream := range numbers {
			num, err := engine.Load(ctx, b.Unit, b.Engine.Numbers, stream)
			if err != nil {
				return err
			}
			if id, found := num.State.ContactIn(b.Request.Workspace); found {
				contacts = append(contacts, id)
			}
		}
		if err := engine.LoadMany(ctx, b.Unit, b.Engine.Contacts, contacts); err != nil {
			return err
		}
	}
	var err error
	b.jobLabelIDs, err = b.existingLabels(ctx, b.job.LabelIDs)
	return err
}

// importRow creates or updates the contact of one row, or skips the row.
func (b *importBatch) importRow(ctx context.Context, row *importjob.Row) error {
	if row.Problem != "" {
		b.skip(row, row.Problem)
		return nil
	}
	num, err := b.Number(ctx, row.Phone)
	if err != nil {
		return err
	}
	_, found := num.State.ContactIn(b.Request.Workspace)
	switch {
	case !found && num.State.UnlinkedAfter(b.Request.Workspace, b.job.RequestedAt): // rule CON-50
		b.skip(row, "The contact with this phone number was deleted, or got another number, after the file was sent.")
		return nil
	case !found:
		return b.createFromRow(ctx, row, num)
	case !b.job.UpdateExisting:
		b.skip(row, "A contact with this phone number exists, and update_existing is not set.")
		return nil
	}
	c, err := b.findContact(ctx, num)
	if err != nil {
		return err
	}
	return b.updateFromRow(ctx, row, num, c)
}

// skip counts a row as skipped. problem is listed as its error, unless it is "".
func (b *importBatch) skip(row *importjob.Row, problem string) {
	b.Skipped++
	if problem != "" {
		b.Errors = append(b.Errors, events.ImportError{Row: row.Number, Message: problem})
	}
}

// firstProblem is the message of the first issue of validation_failed; "" for nil.
func firstProblem(err error) string {
	if f := fault.Of(err); f != nil {
		return f.Issues[0].Message
	}
	return ""
}

const consentSourceMissing = "A contact is opted in only with a consent_source, which the import does not give."

// evidence is the evidence for changes of consent by the job.
func (b *importBatch) evidence() consent.Evidence {
	return consent.Evidence{Source: b.job.ConsentSource, IP: b.Request.IP, UserAgent: b.Request.UserAgent}
}

// optOut opts a contact out because of a row. Without a consent_source the source is "import".
func (b *importBatch) optOut(ctx context.Context, c *engine.Aggregate[contact.Contact], num engine.Number) error {
	ev := b.evidence()
	if ev.Source == nil {
		source := "import"
		ev.Source = &source
	}
	return b.changeConsent(ctx, c, num, consent.OptedOut, ev)
}

// createFromRow creates the contact of a row. The register of opt-outs takes precedence over what the row says about
// consent.
func (b *importBatch) createFromRow(ctx context.Context, row *importjob.Row, num engine.Number) error {
	n := contact.NewContact{IsTest: b.Request.Test, Origin: "import", Evidence: b.evidence()}
	if row.Consent == consent.OptedIn && !num.State.OptedOut {
		if b.job.ConsentSource == nil {
			b.skip(row, consentSourceMissing)
			return nil
		}
		n.Consent = consent.OptedIn
	}
	if problem := firstProblem(contact.CheckFields(row.Fields, "")); problem != "" {
		b.skip(row, problem)
		return nil
	}
	var err error
	if n.LabelIDs, err = b.labelsOf(ctx, row); err != nil {
		return err
	}
	n.Person.Phone, n.Person.Fields = row.Phone, row.Fields
	n.Person.FirstName, n.Person.LastName, n.Person.Company, n.Person.Email = row.Trimmed()
	c, err := b.recordNewContact(num, n)
	if err != nil {
		return err
	}
	if row.Consent == consent.OptedOut && c.State.Consent != consent.OptedOut {
		if err := b.optOut(ctx, c, num); err != nil {
			return err
		}
	}
	b.Imported++
	return nil
}

// updateFromRow changes the contact of a row. A row opts in only a contact whose consent is unknown, and never sets it
// to unknown (rule CON-48).
func (b *importBatch) updateFromRow(ctx context.Context, row *importjob.Row, num engine.Number, c *engine.Aggregate[contact.Contact]) error {
	optIn := row.Consent == consent.OptedIn && c.State.Consent == consent.Unknown && !num.State.OptedOut
	if optIn && b.job.ConsentSource == nil {
		b.skip(row, consentSourceMissing)
		return nil
	}
	patch := row.Patch(c.State)
	if problem := firstProblem(contact.CheckFields(patch.Fields, "")); problem != "" {
		b.skip(row, problem)
		return nil
	}
	labelIDs, err := b.labelsOf(ctx, row)
	if err != nil {
		return err
	}
	labelsChanged, refused := c.State.ChangeLabels(labelIDs, nil, "")
	if problem := firstProblem(refused); problem != "" {
		b.skip(row, problem)
		return nil
	}
	before := c.Recorded()
	c.Record(c.State.Update(patch)...)
	c.Record(labelsChanged...)
	switch {
	case optIn:
		err = b.changeConsent(ctx, c, num, consent.OptedIn, b.evidence())
	case row.Consent == consent.OptedOut && c.State.Consent != consent.OptedOut:
		err = b.optOut(ctx, c, num)
	}
	if err != nil {
		return err
	}
	if c.Recorded() == before {
		b.skip(row, "")
		return nil
	}
	b.Updated++
	return nil
}

// labelsOf returns the labels of the job and of a row. Labels that do not exist are created.
func (b *importBatch) labelsOf(ctx context.Context, row *importjob.Row) ([]uuid.UUID, error) {
	ids := slices.Clone(b.jobLabelIDs)
	for _, name := range row.Labels {
		_, key := label.Claim(b.Request.Workspace, name)
		id, known := b.labelIDs[key]
		if !known {
			found, _, err := b.findOrCreateLabels(ctx, []string{name}, "")
			if err != nil {
				return nil, err
			}
			id = found[0]
			b.labelIDs[key] = id
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
