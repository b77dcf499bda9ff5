package commands

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/csvfile"
	"ledgerline/domain/fault"
	"ledgerline/domain/importjob"
	"ledgerline/domain/label"
	"ledgerline/events"
	"ledgerline/eventstore"
)

// ImportContacts is a CSV file of contacts and what its columns mean (rule CON-44).
type ImportContacts struct {
	CSV            string
	Mapping        map[string]string // CSV header to target
	Labels         []string          // names of labels for every contact; labels that do not exist are created
	ConsentSource  *string
	UpdateExisting bool
	// Answer, when not nil, renders the answer so that it commits with the idempotency record.
	Answer func(AcceptedImport) ([]byte, error)
}

// AcceptedImport is a new import job.
type AcceptedImport struct {
	Result
	Event events.ImportRequested
}

// ImportContacts accepts a file; Ref is the id of its job, which ContinueImport works on. The file is checked as a
// whole before it is accepted; what is wrong with a single row becomes an error of the job (rule CON-45). Refusals:
// validation_failed with all that is wrong.
func (a *App) ImportContacts(ctx context.Context, req Request, in ImportContacts) (AcceptedImport, error) {
	rows, issues := CheckImport(&in)
	if len(issues) > 0 {
		return AcceptedImport{}, fault.Invalids(issues...)
	}
	id := a.engine.IDs.UUID()
	req.Correlation = id
	// The file is stored before the job is accepted, since it is too large for an event.
	if err := a.storeImportFile(ctx, id, &importFile{
		CSV: in.CSV, Mapping: in.Mapping, ActorType: req.Actor.Type, ActorID: req.Actor.ID,
		RequestID: req.RequestID, IP: req.IP, UserAgent: req.UserAgent,
	}); err != nil {
		return AcceptedImport{}, err
	}
	var accepted AcceptedImport
	result, err := a.run(ctx, req, func(ctx context.Context, u *unit) error {
		labelIDs, labelIssues, err := u.findOrCreateLabels(ctx, in.Labels, "/labels")
		if err != nil {
			return err
		}
		if err := labelIssues.fault(); err != nil {
			return err
		}
		accepted = AcceptedImport{Result{At: u.Now}, events.ImportRequested{
			JobID: id, TotalRows: rows, LabelIDs: labelIDs, ConsentSource: in.ConsentSource, UpdateExisting: in.UpdateExisting, IsTest: req.Test,
		}}
		engine.Begin(u.Unit, a.engine.Imports, importjob.Stream(id)).Record(&accepted.Event)
		u.Ref = id.String()
		return renderAnswer(u, accepted, in.Answer)
	})
	exists := (*eventstore.IdempotencyRecordExists)(nil)
	if fault.Of(err) != nil || errors.As(err, &exists) || errors.Is(err, ErrCredentialChanged) {
		// The job was not accepted. After any other error that is unknown, and DeleteAbandonedImportFiles finds out later.
		a.deleteImportFile(ctx, id)
	}
	accepted.Result = result
	return accepted, err
}

// CheckImport returns what is wrong with a file as a whole, and the number of its rows.
func CheckImport(in *ImportContacts) (rows int, issues []fault.Issue) {
	var found issueList
	for i, name := range in.Labels {
		if f := fault.Of(label.Check(name, fmt.Sprintf("/labels/%d", i))); f != nil {
			found = append(found, f.Issues...)
		}
	}
	file, err := csvfile.NewReader(in.CSV)
	if err == nil {
		if _, wrong := importjob.NewMapping(file.Header(), in.Mapping); wrong != nil {
			found = append(found, fault.Of(wrong).Issues...)
		}
	}
	for err == nil {
		if _, err = file.Next(); err == nil {
			rows++
		}
	}
	if problem := (*csvfile.Error)(nil); errors.As(err, &problem) {
		found.add("/csv", problem.Problem, problem.MessageWithRow())
	} else if rows > importjob.MaxRows {
		found.add("/csv", "too_many_rows", fmt.Sprintf("The file has more than %d rows.", importjob.MaxRows))
	}
	return rows, found
}

// FindImport reads an import job from the ledger; not_found when there is none.
func (a *App) FindImport(ctx context.Context, id uuid.UUID) (importjob.Job, error) {
	found, err := a.engine.Imports.Find(ctx, importjob.Stream(id), true)
	if err == nil && !found.Exists() {
		err = engine.NotFound("import job")
	}
	return found, err
}
