package projections

import (
	"context"
	"time"

	"github.com/google/uuid"

	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/projections/readmodel"
)

// ImportJob is an import of contacts as the API shows it, and defines the columns of its table: see readmodel.TableOf.
type ImportJob struct {
	ID        string        `json:"id" format:"uuid" sql:"uuid not null"`
	Status    string        `json:"status" enum:"queued,running,completed,failed" sql:"text not null"`
	TotalRows *int          `json:"total_rows" minimum:"0" sql:"integer not null"`
	Imported  int           `json:"imported" doc:"Rows that made a contact" sql:"integer not null"`
	Skipped   int           `json:"skipped" doc:"Rows that changed nothing: those with an error, and those whose values the contact has already" sql:"integer not null"`
	Updated   int           `json:"updated" doc:"Rows that changed a contact" sql:"integer not null"`
	Errors    []ImportError `json:"errors" nullable:"false" doc:"The first 1,000"`
	CreatedAt string        `json:"created_at" format:"date-time" sql:"timestamptz not null"`
}

// ImportError says why a row was skipped.
type ImportError struct {
	Row     int    `json:"row" doc:"As a spreadsheet numbers it: the header is row 1"`
	Message string `json:"message"`
}

var importsTable = readmodel.TableOf[ImportJob]("imports", []string{"id"}, readmodel.Column{Name: "workspace_id", Type: "uuid not null"})

var importErrorsTable = &readmodel.Table{Name: "import_errors", Key: []string{"job_id", "row_number"}, Columns: []readmodel.Column{
	{Name: "job_id", Type: "uuid not null"},
	{Name: "row_number", Type: "integer not null"},
	{Name: "message", Type: "text not null"},
}}

// Imports is the progress of all imports of contacts.
var Imports = &readmodel.Projection{
	ID: "imports", Program: 1,
	Tables: []*readmodel.Table{importsTable, importErrorsTable},
	Handlers: feed.NewHandlers(
		feed.On(func(c *readmodel.Changes, e *events.ImportRequested, r *eventstore.Recorded) {
			c.Insert(importsTable, readmodel.Row{
				"id": e.JobID, "workspace_id": r.WorkspaceID, "status": "queued", "total_rows": e.TotalRows, "imported": 0, "skipped": 0, "updated": 0,
				"created_at": readmodel.Stamp(r.OccurredAt),
			})
		}),
		feed.On(func(c *readmodel.Changes, e *events.ImportStarted, _ *eventstore.Recorded) {
			c.Update(importsTable, readmodel.Row{"id": e.JobID, "status": "running"})
		}),
		feed.On(func(c *readmodel.Changes, e *events.ImportProgressed, _ *eventstore.Recorded) {
			c.Update(importsTable, readmodel.Row{"id": e.JobID, "imported": e.Imported, "skipped": e.Skipped, "updated": e.Updated})
			for _, wrong := range e.Errors {
				c.Insert(importErrorsTable, readmodel.Row{"job_id": e.JobID, "row_number": wrong.Row, "message": wrong.Message})
			}
		}),
		feed.On(func(c *readmodel.Changes, e *events.ImportCompleted, _ *eventstore.Recorded) {
			c.Update(importsTable, readmodel.Row{"id": e.JobID, "status": "completed"})
		}),
		feed.On(func(c *readmodel.Changes, e *events.ImportFailed, _ *eventstore.Recorded) {
			c.Update(importsTable, readmodel.Row{"id": e.JobID, "status": "failed"})
		}),
	),
}

// QueuedImport is a job as it was when the API accepted it.
func QueuedImport(e *events.ImportRequested, at time.Time) ImportJob {
	return ImportJob{ID: e.JobID.String(), Status: "queued", TotalRows: &e.TotalRows, Errors: []ImportError{}, CreatedAt: readmodel.Stamp(at)}
}

var (
	importFields = readmodel.Select[ImportJob](importsTable, "i", map[string]string{
		"errors": `(select coalesce(json_agg(json_build_object('row', e.row_number, 'message', e.message) order by e.row_number), '[]')
			from read.import_errors e where e.job_id = i.id)`,
	})
	importSQL = `select ` + importFields.SQL + ` from read.imports i where i.workspace_id = $1 and i.id = $2`
)

// Import finds a job of the workspace; found is false when there is none.
func (s *Store) Import(ctx context.Context, v Viewer, id uuid.UUID) (j ImportJob, found bool, err error) {
	return readmodel.One(ctx, s.Reader, "import", importFields.Scan, importSQL, v.Workspace, id)
}
