package projections

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/events"
	"ledgerline/eventstore"
)

var linesTable = &Table{Name: "lines", Key: []string{"id"}, Columns: []Column{
	{Name: "id", Type: `text collate "C" not null`},
	{Name: "workspace_id", Type: "uuid not null"},
	{Name: "phone", Type: "text not null"},
	{Name: "display_name", Type: "text"},
	{Name: "pool_id", Type: `text collate "C"`},
	{Name: "is_sandbox", Type: "boolean not null"},
	{Name: "carrier", Type: "text not null"},
	{Name: "state", Type: "text not null"},
	{Name: "state_reason", Type: "text"},
	{Name: "state_changed_at", Type: "timestamptz"},
	{Name: "created_at", Type: "timestamptz not null"},
}}

var poolsTable = &Table{Name: "pools", Key: []string{"id"}, Columns: []Column{
	{Name: "id", Type: `text collate "C" not null`},
	{Name: "workspace_id", Type: "uuid not null"},
	{Name: "name", Type: "text not null"},
	{Name: "rotation", Type: "text not null"},
	{Name: "is_default", Type: "boolean not null"},
	{Name: "created_at", Type: "timestamptz not null"},
}}

// Lines are the lines and pools of the workspaces as they are now.
var Lines = &Projection{
	ID: "lines", Program: 2,
	Tables:  []*Table{linesTable, poolsTable},
	Indexes: []string{`create index on @lines (workspace_id)`, `create index on @pools (workspace_id)`},
	Wants:   events.NamesOf((*events.PoolCreated)(nil), (*events.LineProvisioned)(nil), (*events.LineStateChanged)(nil), (*events.LineCarrierConfigured)(nil)),
	Project: func(r *eventstore.Recorded, c *Changes) {
		at := stamp(r.OccurredAt)
		switch e := r.Event.(type) {
		case *events.PoolCreated:
			c.Insert(poolsTable, Row{"id": e.PoolID, "workspace_id": r.WorkspaceID, "name": e.Name, "rotation": e.Rotation, "is_default": e.Default, "created_at": at})
		case *events.LineProvisioned:
			c.Insert(linesTable, Row{
				"id": e.LineID, "workspace_id": r.WorkspaceID, "phone": e.Phone, "display_name": e.DisplayName, "pool_id": e.PoolID,
				"is_sandbox": e.IsSandbox, "carrier": e.Carrier, "state": e.State, "created_at": at,
			})
		case *events.LineCarrierConfigured:
			c.Update(linesTable, Row{"id": e.LineID, "carrier": e.Carrier})
		case *events.LineStateChanged:
			c.Update(linesTable, Row{"id": e.LineID, "state": e.To, "state_reason": e.Reason, "state_changed_at": at})
		}
	},
}

// LineIDs lists the lines of a workspace that are in service, oldest first: the live ones, or the sandbox line. What
// they can do is the ledger's to say.
func (s *Store) LineIDs(ctx context.Context, workspace uuid.UUID, sandbox bool) ([]string, error) {
	return list(ctx, s, "line ids", pgx.RowTo[string],
		`select id from read.lines where workspace_id = $1 and is_sandbox = $2 and state not in ('provisioning', 'retired') order by created_at, id`, workspace, sandbox)
}

// LinesOf lists the lines that a carrier serves, in all workspaces, except those that are retired.
func (s *Store) LinesOf(ctx context.Context, carrier string) ([]string, error) {
	return list(ctx, s, "lines of a carrier", pgx.RowTo[string], `select id from read.lines where carrier = $1 and state <> 'retired' order by id`, carrier)
}
