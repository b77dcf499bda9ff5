package projections

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/domain/line"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/projections/readmodel"
)

var linesTable = &readmodel.Table{Name: "lines", Key: []string{"id"}, Columns: []readmodel.Column{
	{Name: "id", Type: `text collate "C" not null`},
	{Name: "workspace_id", Type: "uuid not null"},
	{Name: "phone", Type: "text not null"},
	{Name: "display_name", Type: "text"},
	{Name: "pool_id", Type: `text collate "C"`},
	{Name: "is_sandbox", Type: "boolean not null"},
	{Name: "carrier", Type: "text not null"},
	{Name: "state", Type: "text not null"},
	{Name: "paused_from", Type: "text"},
	{Name: "throttled_from", Type: "text"},
	{Name: "warming_since", Type: "date"},
	{Name: "health_score", Type: "integer not null"},
	{Name: "state_reason", Type: "text"},
	{Name: "state_changed_at", Type: "timestamptz"},
	{Name: "card_name", Type: "text"},
	{Name: "card_image_url", Type: "text"},
	{Name: "created_at", Type: "timestamptz not null"},
}}

var sendingLimitsTable = &readmodel.Table{Name: "sending_limits", Key: []string{"organisation_id"}, Columns: []readmodel.Column{
	{Name: "organisation_id", Type: "uuid not null"},
	{Name: "limits", Type: "jsonb not null"},
}}

// Lines are the lines and pools of the workspaces as they are now.
var Lines = &readmodel.Projection{
	ID: "lines", Program: 4,
	Tables:  []*readmodel.Table{linesTable, poolsTable, sendingLimitsTable},
	Indexes: []string{`create index on @lines (workspace_id)`, `create index on @pools (workspace_id)`},
	Handlers: feed.NewHandlers(
		feed.On(poolCreated), feed.On(poolUpdated),
		feed.On(func(c *readmodel.Changes, e *events.LineProvisioned, r *eventstore.Recorded) {
			c.Insert(linesTable, readmodel.Row{
				"id": e.LineID, "workspace_id": r.WorkspaceID, "phone": e.Phone, "display_name": e.DisplayName, "pool_id": e.PoolID,
				"is_sandbox": e.IsSandbox, "carrier": e.Carrier, "state": e.State, "health_score": 100, "created_at": readmodel.Stamp(r.OccurredAt),
				"warming_since": warmingSince(line.State(e.State), r),
			})
		}),
		feed.On(lineUpdated),
		feed.On(func(c *readmodel.Changes, e *events.LineCarrierConfigured, _ *eventstore.Recorded) {
			c.Update(linesTable, readmodel.Row{"id": e.LineID, "carrier": e.Carrier})
		}),
		feed.On(lineStateChanged),
		feed.On(func(c *readmodel.Changes, e *events.LineHealthScored, _ *eventstore.Recorded) {
			c.Update(linesTable, readmodel.Row{"id": e.LineID, "health_score": e.Score})
		}),
		feed.On(func(c *readmodel.Changes, e *events.SendingLimitsSet, r *eventstore.Recorded) {
			c.Insert(sendingLimitsTable, readmodel.Row{"organisation_id": r.OrganisationID, "limits": e.Limits})
		}),
	),
}

func lineUpdated(c *readmodel.Changes, e *events.LineUpdated, _ *eventstore.Recorded) {
	row := readmodel.Row{"id": e.LineID}
	for _, field := range e.Changed {
		switch field {
		case "display_name":
			row["display_name"] = e.DisplayName
		case "pool_id":
			row["pool_id"] = e.PoolID
		case "contact_card":
			row["card_name"], row["card_image_url"] = e.ContactCard.Name, e.ContactCard.ImageURL
		}
	}
	c.Update(linesTable, row)
}

func warmingSince(to line.State, r *eventstore.Recorded) any {
	if to != line.Warming {
		return nil
	}
	return line.DayOf(r.OccurredAt).Date
}

// lineStateChanged follows the same rules as the aggregate in domain/line.
func lineStateChanged(c *readmodel.Changes, e *events.LineStateChanged, r *eventstore.Recorded) {
	row := readmodel.Row{"id": e.LineID, "state": e.To, "state_reason": e.Reason, "state_changed_at": readmodel.Stamp(r.OccurredAt)}
	from, to := line.State(e.From), line.State(e.To)
	switch {
	case to == line.Paused:
		row["paused_from"] = e.From
	case to == line.Throttled && from != line.Paused:
		row["throttled_from"] = e.From
	case to == line.Ready:
		row["warming_since"] = nil
	case to == line.Warming && from == line.Ready:
		row["warming_since"] = warmingSince(to, r)
	}
	c.Update(linesTable, row)
}

// LineIDs lists the lines of a workspace that are in service, oldest first: the live ones, or the sandbox line. What
// they can do is the ledger's to say.
func (s *Store) LineIDs(ctx context.Context, workspace uuid.UUID, sandbox bool) ([]string, error) {
	return readmodel.List(ctx, s.Reader, "line ids", pgx.RowTo[string],
		`select id from read.lines where workspace_id = $1 and is_sandbox = $2 and state not in ('provisioning', 'retired') order by created_at, id`, workspace, sandbox)
}

// LinesOf lists the lines that a carrier serves, in all workspaces, except those that are retired.
func (s *Store) LinesOf(ctx context.Context, carrier string) ([]string, error) {
	return readmodel.List(ctx, s.Reader, "lines of a carrier", pgx.RowTo[string], `select id from read.lines where carrier = $1 and state <> 'retired' order by id`, carrier)
}
