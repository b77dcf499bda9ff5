package projections

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/projections/readmodel"
)

var importsTable = &readmodel.Table{Name: "imports", Key: []string{"id"}, Columns: []readmodel.Column{
	{Name: "id", Type: "uuid not null"},
	{Name: "workspace_id", Type: "uuid not null"},
	{Name: "status", Type: "text not null"},
	{Name: "total_rows", Type: "integer not null"},
	{Name: "imported", Type: "integer not null"},
	{Name: "skipped", Type: "integer not null"},
	{Name: "updated", Type: "integer not null"},
	{Name: "created_at", Type: "timestamptz not null"},
}}

var importErrorsTable = &readmodel.Table{Name: "import_errors", Key: []string{"job_id", "row_number"}, Columns: []readmodel.Column{
	{Name: "job_id", Type: "uuid not null"},
	{Name: "row_number", Type: "integer not null"},
	{Name: "message", Type: "text not null"},
}}

// Imports is how far imports of contacts have come.
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

// ImportJob is an import as the API shows it (interface 2.3).
type ImportJob struct {
	ID        string        `json:"id" format:"uuid"`
	Status    string        `json:"status" enum:"queued,running,completed,failed"`
	TotalRows *int          `json:"total_rows" minimum:"0"`
	Imported  int           `json:"imported" doc:"Rows that made a contact"`
	Skipped   int           `json:"skipped" doc:"Rows that changed nothing: those with an error, and those that say what is known already"`
	Updated   int           `json:"updated" doc:"Rows that changed a contact"`
	Errors    []ImportError `json:"errors" nullable:"false" doc:"The first 1,000"`
	CreatedAt string        `json:"created_at" format:"date-time"`
}

// QueuedImport is a job as it was when it was accepted, whatever has become of it since.
func QueuedImport(e *events.ImportRequested, at time.Time) ImportJob {
	return ImportJob{ID: e.JobID.String(), Status: "queued", TotalRows: &e.TotalRows, Errors: []ImportError{}, CreatedAt: readmodel.Stamp(at)}
}

// ImportError says why a row was skipped.
type ImportError struct {
	Row     int    `json:"row" doc:"As a spreadsheet numbers it: the header is row 1"`
	Message string `json:"message"`
}

const importSQL = `select i.id::text, i.status, i.total_rows, i.imported, i.skipped, i.updated,
		(select coalesce(json_agg(json_build_object('row', e.row_number, 'message', e.message) order by e.row_number), '[]')
			from read.import_errors e where e.job_id = i.id), i.created_at
	from read.imports i where i.workspace_id = $1 and i.id = $2`

func scanImport(row pgx.CollectableRow) (j ImportJob, err error) {
	var at time.Time
	err = row.Scan(&j.ID, &j.Status, &j.TotalRows, &j.Imported, &j.Skipped, &j.Updated, &j.Errors, &at)
	j.CreatedAt = readmodel.Stamp(at)
	return j, err
}

// Import finds a job of the viewer's workspace; found is false when there is none.
func (s *Store) Import(ctx context.Context, v Viewer, id uuid.UUID) (j ImportJob, found bool, err error) {
	return readmodel.One(ctx, s.Reader, "import", scanImport, importSQL, v.Workspace, id)
}
