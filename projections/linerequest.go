package projections

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/projections/readmodel"
)

// LineRequest is a request for lines as the API shows it, and defines the columns of its table: see readmodel.TableOf.
type LineRequest struct {
	ID        string   `json:"id" format:"uuid" sql:"uuid not null"`
	Count     int      `json:"count" minimum:"1" column:"wanted" sql:"integer not null"`
	AreaCodes []string `json:"area_codes" nullable:"false" sql:"jsonb not null"`
	Note      *string  `json:"note" sql:"text"`
	PoolID    *string  `json:"pool_id" doc:"pool_ id" sql:"text collate \"C\""`
	Status    string   `json:"status" enum:"pending,in_progress,fulfilled,cancelled" sql:"text not null"`
	CreatedAt string   `json:"created_at" format:"date-time" sql:"timestamptz not null"`
}

var lineRequestsTable = readmodel.TableOf[LineRequest]("line_requests", []string{"id"},
	readmodel.Column{Name: "organisation_id", Type: "uuid not null"},
	readmodel.Column{Name: "workspace_id", Type: "uuid not null"},
)

// LineRequests are the requests for lines that workspaces made to the operator.
var LineRequests = &readmodel.Projection{
	ID: "line_requests", Program: 1,
	Tables: []*readmodel.Table{lineRequestsTable},
	Indexes: []string{
		`create index on @line_requests (workspace_id, created_at desc, id desc)`,
		`create index on @line_requests (created_at) where status in ('pending', 'in_progress')`,
	},
	Handlers: feed.NewHandlers(
		feed.On(func(c *readmodel.Changes, e *events.LineRequestMade, r *eventstore.Recorded) {
			c.Insert(lineRequestsTable, readmodel.Row{
				"id": e.RequestID, "organisation_id": r.OrganisationID, "workspace_id": r.WorkspaceID, "wanted": e.Count, "area_codes": emptyNotNull(e.AreaCodes),
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

var (
	lineRequestFields = readmodel.Select[LineRequest](lineRequestsTable, "r", nil)
	lineRequestSQL    = `select ` + lineRequestFields.SQL + ` from read.line_requests r`
)

// LineRequests lists the requests of a workspace, newest first.
func (s *Store) LineRequests(ctx context.Context, v Viewer, after *readmodel.Cursor, limit int) (readmodel.Page[LineRequest], error) {
	f := &readmodel.Filter{}
	f.Add("r.workspace_id = %s", v.Workspace)
	f.After(after, "r.created_at", "r.id", "uuid")
	key := func(r *LineRequest) readmodel.Cursor { return readmodel.Cursor{At: r.CreatedAt, ID: r.ID} }
	return readmodel.ReadPage(ctx, s.Reader, "line requests", limit, lineRequestFields.Scan, key,
		lineRequestSQL+f.Where()+` order by r.created_at desc, r.id desc limit `+f.Arg(limit+1), f.Args...)
}

// LineRequest finds a request of a workspace; found is false when there is none.
func (s *Store) LineRequest(ctx context.Context, v Viewer, id uuid.UUID) (r LineRequest, found bool, err error) {
	return readmodel.One(ctx, s.Reader, "line request", lineRequestFields.Scan, lineRequestSQL+` where r.workspace_id = $1 and r.id = $2`, v.Workspace, id)
}

// OpenLineRequest is a request as the operator sees it.
type OpenLineRequest struct {
	OrganisationID uuid.UUID `json:"organisation_id"`
	WorkspaceID    uuid.UUID `json:"workspace_id"`
	LineRequest
}

var (
	openLineRequestFields = readmodel.Select[OpenLineRequest](lineRequestsTable, "r", nil)
	openLineRequestSQL    = `select ` + openLineRequestFields.SQL + ` from read.line_requests r`
)

// OpenLineRequests lists the requests of all workspaces that are pending or in progress, oldest first.
func (s *Store) OpenLineRequests(ctx context.Context) ([]OpenLineRequest, error) {
	return readmodel.List(ctx, s.Reader, "open line requests", openLineRequestFields.Scan,
		openLineRequestSQL+` where r.status in ('pending', 'in_progress') order by r.created_at, r.id`)
}

// AnyLineRequest finds a request of any workspace, whatever its status; found is false when there is none.
func (s *Store) AnyLineRequest(ctx context.Context, id uuid.UUID) (r OpenLineRequest, found bool, err error) {
	return readmodel.One(ctx, s.Reader, "line request", openLineRequestFields.Scan, openLineRequestSQL+` where r.id = $1`, id)
}
