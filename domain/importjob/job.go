// Package importjob is one import of contacts from a file: what its columns mean, what its rows say, and how far it has come
// (interface 3.4, decisions section 9).
package importjob

import (
	"time"

	"github.com/google/uuid"

	"ledgerline/events"
)

const (
	// MaxRows is how many rows a file may have (interface 4.1 rule 5).
	MaxRows = 50_000
	// MaxErrors is how many of its errors a job lists. All of them count as skipped.
	MaxErrors = 1000
)

// Stream names the stream of a job.
func Stream(id uuid.UUID) string { return events.Stream("imp", id) }

// Job is the state of one import. The zero value does not exist.
type Job struct {
	ID             uuid.UUID
	Organisation   uuid.UUID
	Workspace      uuid.UUID
	RequestedAt    time.Time
	TotalRows      int
	LabelIDs       []uuid.UUID
	ConsentSource  *string
	UpdateExisting bool
	IsTest         bool

	Started, Finished bool
	Counts
}

// Counts is how far a job has come. Imported are new contacts, Updated contacts that were changed, Skipped rows that changed
// nothing; the three make up Rows.
type Counts struct {
	Rows, Imported, Updated, Skipped int
	ListedErrors                     int // errors
}

// Apply folds one event.
func (j Job) Apply(event events.Event, in events.Envelope) Job {
	switch e := event.(type) {
	case *events.ImportRequested:
		return Job{
			ID: e.JobID, Organisation: in.Organisation, Workspace: in.Workspace, RequestedAt: in.At, TotalRows: e.TotalRows, LabelIDs: e.LabelIDs,
			ConsentSource: e.ConsentSource, UpdateExisting: e.UpdateExisting, IsTest: e.IsTest,
		}
	case *events.ImportStarted:
		j.Started = true
	case *events.ImportProgressed:
		j.Counts = Counts{e.Rows, e.Imported, e.Updated, e.Skipped, j.ListedErrors + len(e.Errors)}
	case *events.ImportCompleted, *events.ImportFailed:
		j.Finished = true
	}
	return j
}

// Exists tells whether there is such a job.
func (j Job) Exists() bool { return j.ID != uuid.Nil }

// Start tells that the job is being worked on; one that is already is no event.
func (j Job) Start() []events.Event {
	if j.Started || j.Finished {
		return nil
	}
	return []events.Event{&events.ImportStarted{JobID: j.ID}}
}

// Batch is what became of some rows in a row.
type Batch struct {
	Imported, Updated, Skipped int
	Errors                     []events.ImportError
}

// Progress counts the rows of a stretch, and ends the job with the last of them.
func (j Job) Progress(s Batch) []events.Event {
	e := &events.ImportProgressed{
		JobID: j.ID, Rows: j.Rows + s.Imported + s.Updated + s.Skipped,
		Imported: j.Imported + s.Imported, Updated: j.Updated + s.Updated, Skipped: j.Skipped + s.Skipped,
		Errors: s.Errors[:min(len(s.Errors), MaxErrors-j.ListedErrors)],
	}
	if e.Rows < j.TotalRows {
		return []events.Event{e}
	}
	completed := &events.ImportCompleted{JobID: j.ID, TotalRows: j.TotalRows, Imported: e.Imported, Updated: e.Updated, Skipped: e.Skipped}
	if e.Rows == j.Rows { // a file without rows
		return []events.Event{completed}
	}
	return []events.Event{e, completed}
}

// Fail ends a job that cannot go on; one that has ended is no event.
func (j Job) Fail(reason string) []events.Event {
	if j.Finished {
		return nil
	}
	return []events.Event{&events.ImportFailed{JobID: j.ID, Reason: reason}}
}
