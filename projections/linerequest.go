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

var lineRequestsTable = &readmodel.Table{Name: "line_requests", Key: []string{"id"}, Columns: []readmodel.Column{
	{Name: "id", Type: "uuid not null"},
	{Name: "organisation_id", Type: "uuid not null"},
	{Name: "workspace_id", Type: "uuid not null"},
	{Name: "wanted", Type: "integer not null"},
	{Name: "area_codes", Type: "jsonb not null"},
	{Name: "note", Type: "text"},
	{Name: "pool_id", Type: `text collate "C"`},
	{Name: "status", Type: "text not null"},
	{Name: "created_at", Type: "timestamptz not null"},
}}

// LineRequests are what workspaces asked the operator for.
var LineRequests = &readmodel.Projection{
	ID: "line_requests", Program: 1,
	Tables:  []*readmodel.Table{lineRequestsTable},
	Indexes: []string{`create index on @line_requests (workspace_id, created_at desc, id desc)`, `create index on @line_requests (created_at) where status in ('pending', 'in_progress')`},
	Handlers: feed.NewHandlers(
		feed.On(func(c *readmodel.Changes, e *events.LineRequestMade, r *eventstore.Recorded) {
			codes := e.AreaCodes
			if codes == nil {
				codes = []string{}
			}
			c.Insert(lineRequestsTable, readmodel.Row{
				"id": e.RequestID, "organisation_id": r.OrganisationID, "workspace_id": r.WorkspaceID, "wanted": e.Count, "area_codes": codes,
				"note": e.Note, "pool_id": e.PoolID, "status": "pending", "created_at": readmodel.Stamp(r.OccurredAt),
			})
		}),
		feed.On(func(c *readmodel.Changes, e *events.LineRequestStarted, _ *eventstore.Recorded) {
			c.Update(lineRequestsTable, readmodel.Row{"id": e.RequestID, "status": "in_progress"})
		}),
		feed.On(func(c *readmodel.Changes, e *events.LineRequestFulfilled, _ *eventstore.Recorded) {
			c.Update(lineRequestsTable, readmodel.Row{"id": e.RequestID, "status": "fulfilled"})
		}),
		feed.On(func(c *readmodel.Changes, e *events.LineRequestCancelled, _ *eventstore.Recorded) {
			c.Update(lineRequestsTable, readmodel.Row{"id": e.RequestID, "status": "cancelled"})
		}),
	),
}

// LineRequest is a request for lines as the API shows it (administration 2.4).
type LineRequest struct {
	ID        string   `json:"id" format:"uuid"`
	Count     int      `json:"count" minimum:"1"`
	AreaCodes []string `json:"area_codes" nullable:"false"`
	Note      *string  `json:"note"`
	PoolID    *string  `json:"pool_id" doc:"pool_ id"`
	Status    string   `json:"status" enum:"pending,in_progress,fulfilled,cancelled"`
	CreatedAt string   `json:"created_at" format:"date-time"`
}

const lineRequestColumns = `r.id::text, r.wanted, r.area_codes, r.note, r.pool_id, r.status, r.created_at`

func scanLineRequest(row pgx.CollectableRow) (r LineRequest, err error) {
	var created time.Time
	err = row.Scan(&r.ID, &r.Count, &r.AreaCodes, &r.Note, &r.PoolID, &r.Status, &created)
	r.CreatedAt = readmodel.Stamp(created)
	return r, err
}

// LineRequests lists the requests of a workspace, newest first.
func (s *Store) LineRequests(ctx context.Context, v Viewer, after *readmodel.Cursor, limit int) (readmodel.Page[LineRequest], error) {
	f := &readmodel.Filter{}
	f.Add("r.workspace_id = %s", v.Workspace)
	if after != nil {
		f.Add("(r.created_at, r.id) < (%s::timestamptz, "+f.Arg(after.ID)+"::uuid)", after.At)
	}
	found, err := readmodel.List(ctx, s.Reader, "line requests", scanLineRequest,
		`select `+lineRequestColumns+` from read.line_requests r`+f.Where()+` order by r.created_at desc, r.id desc limit `+f.Arg(limit+1), f.Args...)
	if err != nil {
		return readmodel.Page[LineRequest]{}, err
	}
	return readmodel.PageOf(found, limit, func(r *LineRequest) readmodel.Cursor { return readmodel.Cursor{At: r.CreatedAt, ID: r.ID} }), nil
}

// LineRequest finds one; found is false when there is none.
func (s *Store) LineRequest(ctx context.Context, v Viewer, id uuid.UUID) (LineRequest, bool, error) {
	return readmodel.One(ctx, s.Reader, "line request", scanLineRequest,
		`select `+lineRequestColumns+` from read.line_requests r where r.workspace_id = $1 and r.id = $2`, v.Workspace, id)
}

// OpenLineRequest is a request as the operator sees it.
type OpenLineRequest struct {
	OrganisationID uuid.UUID `json:"organisation_id"`
	WorkspaceID    uuid.UUID `json:"workspace_id"`
	LineRequest
}

func scanOpenLineRequest(row pgx.CollectableRow) (r OpenLineRequest, err error) {
	var created time.Time
	err = row.Scan(&r.OrganisationID, &r.WorkspaceID, &r.ID, &r.Count, &r.AreaCodes, &r.Note, &r.PoolID, &r.Status, &created)
	r.CreatedAt = readmodel.Stamp(created)
	return r, err
}

const openLineRequestSQL = `select r.organisation_id, r.workspace_id, ` + lineRequestColumns + ` from read.line_requests r`

// OpenLineRequests lists the open requests of all workspaces, oldest first.
func (s *Store) OpenLineRequests(ctx context.Context) ([]OpenLineRequest, error) {
	return readmodel.List(ctx, s.Reader, "open line requests", scanOpenLineRequest, openLineRequestSQL+` where r.status in ('pending', 'in_progress') order by r.created_at, r.id`)
}

// AnyLineRequest finds a request of whatever workspace, also one that is closed.
func (s *Store) AnyLineRequest(ctx context.Context, id uuid.UUID) (OpenLineRequest, bool, error) {
	return readmodel.One(ctx, s.Reader, "line request", scanOpenLineRequest, openLineRequestSQL+` where r.id = $1`, id)
}
