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

// ImportContacts is a file of contacts and what its columns mean (interface 4.1, decisions section 9).
type ImportContacts struct {
	CSV            string
	Mapping        map[string]string // header name to target
	Labels         []string          // names, put on every contact; unknown ones make the label
	ConsentSource  *string
	UpdateExisting bool
	// Answer writes down how the request is answered, to be kept with its receipt; nil without one.
	Answer func(AcceptedImport) ([]byte, error)
}

// AcceptedImport is a job that was just made.
type AcceptedImport struct {
	Result
	Event events.ImportRequested
}

// ImportContacts accepts a file; Ref is the id of its job, which ContinueImport works on. Header, mapping and the form of the
// whole file are checked first, and all that is wrong with them is told together; what is wrong with a single row is told by
// the job.
func (a *App) ImportContacts(ctx context.Context, req Request, in ImportContacts) (AcceptedImport, error) {
	rows, issues := CheckImport(&in)
	if len(issues) > 0 {
		return AcceptedImport{}, fault.Invalids(issues...)
	}
	id := a.engine.IDs.UUID()
	req.Correlation = id
	file := &importFile{
		CSV: in.CSV, Mapping: in.Mapping, ActorType: req.Actor.Type, ActorID: req.Actor.ID, RequestID: req.RequestID, IP: req.IP, UserAgent: req.UserAgent,
	}
	if err := a.stageFile(ctx, id, file); err != nil {
		return AcceptedImport{}, err
	}
	var accepted AcceptedImport
	result, err := a.run(ctx, req, func(ctx context.Context, u *unit) error {
		labels, issues, err := u.findOrCreateLabels(ctx, in.Labels, "/labels")
		if err != nil {
			return err
		}
		if len(issues) > 0 {
			return fault.Invalids(issues...)
		}
		accepted = AcceptedImport{Result{At: u.Now}, events.ImportRequested{
			JobID: id, TotalRows: rows, LabelIDs: labels, ConsentSource: in.ConsentSource, UpdateExisting: in.UpdateExisting, IsTest: req.Test,
		}}
		engine.Begin(u.Unit, a.engine.Imports, importjob.Stream(id)).Record(&accepted.Event)
		u.Ref = id.String()
		if in.Answer != nil {
			u.Body, err = in.Answer(accepted)
		}
		return err
	})
	if exists := (*eventstore.IdempotencyRecordExists)(nil); fault.Of(err) != nil || errors.As(err, &exists) || errors.Is(err, ErrCredentialChanged) {
		a.dropFile(ctx, id) // nothing was written; after another error that is not known, and the housekeeping finds out
	}
	accepted.Result = result
	return accepted, err
}

// CheckImport tells what is wrong with a file as a whole, and counts its rows.
func CheckImport(in *ImportContacts) (rows int, issues []fault.Issue) {
	for i, name := range in.Labels {
		if f := fault.Of(label.Check(name, fmt.Sprintf("/labels/%d", i))); f != nil {
			issues = append(issues, f.Issues...)
		}
	}
	file, err := csvfile.NewReader(in.CSV)
	if err == nil {
		if _, wrong := importjob.NewMapping(file.Header(), in.Mapping); wrong != nil {
			issues = append(issues, fault.Of(wrong).Issues...)
		}
	}
	for err == nil {
		if _, err = file.Next(); err == nil {
			rows++
		}
	}
	if problem := (*csvfile.Error)(nil); errors.As(err, &problem) {
		issues = append(issues, fault.Issue{Location: "body", Path: "/csv", Code: problem.Problem, Message: problem.MessageWithRow()})
	} else if rows > importjob.MaxRows {
		issues = append(issues, fault.Issue{Location: "body", Path: "/csv", Code: "too_many_rows", Message: fmt.Sprintf("The file has more than %d rows.", importjob.MaxRows)})
	}
	return rows, issues
}

// FindImport reads a job from the ledger; not_found when there is none.
func (a *App) FindImport(ctx context.Context, id uuid.UUID) (importjob.Job, error) {
	found, err := a.engine.Imports.Find(ctx, importjob.Stream(id), true)
	if err == nil && !found.Exists() {
		err = engine.NotFound("import job")
	}
	return found, err
}
