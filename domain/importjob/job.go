// Package importjob holds imports of contacts from a CSV file: what its columns mean, what its rows say, and how far
// a job has come (rules CON-44 to CON-50).
package importjob

import (
	"time"

	"github.com/google/uuid"

	"ledgerline/events"
)

const (
	// MaxRows is how many rows a file may have (rule CON-44).
	MaxRows = 50_000
	// MaxErrors is how many errors a job lists (rule CON-46). Every one counts as skipped.
	MaxErrors = 1000
)

// Stream returns the name of the stream of a job.
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

// Counts are the progress of a job (rule CON-46). Rows is the sum of Imported, Updated and Skipped.
type Counts struct {
	Rows, Imported, Updated, Skipped int
	ListedErrors                     int // errors that the job lists so far
}

// Apply returns the state after one event of the job's stream.
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

// Exists reports whether the job was accepted.
func (j Job) Exists() bool { return j.ID != uuid.Nil }

// Start moves the job from queued to running; no event if it has started.
func (j Job) Start() []events.Event {
	if j.Started || j.Finished {
		return nil
	}
	return []events.Event{&events.ImportStarted{JobID: j.ID}}
}

// Batch is the result of some consecutive rows.
type Batch struct {
	Imported, Updated, Skipped int
	Errors                     []events.ImportError
}

// Progress adds the result of a batch of rows, and completes the job with the last row (rule CON-49). Errors beyond
// MaxErrors are counted and not listed.
func (j Job) Progress(b Batch) []events.Event {
	e := &events.ImportProgressed{
		JobID: j.ID, Rows: j.Rows + b.Imported + b.Updated + b.Skipped,
		Imported: j.Imported + b.Imported, Updated: j.Updated + b.Updated, Skipped: j.Skipped + b.Skipped,
		Errors: b.Errors[:min(len(b.Errors), MaxErrors-j.ListedErrors)],
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

// Fail ends a job that cannot go on; no event if it has ended.
func (j Job) Fail(reason string) []events.Event {
	if j.Finished {
		return nil
	}
	return []events.Event{&events.ImportFailed{JobID: j.ID, Reason: reason}}
}
