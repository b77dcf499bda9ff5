package projections

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/domain/line"
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

var poolsTable = &Table{Name: "pools", Key: []string{"id"}, Columns: []Column{
	{Name: "id", Type: `text collate "C" not null`},
	{Name: "workspace_id", Type: "uuid not null"},
	{Name: "name", Type: "text not null"},
	{Name: "rotation", Type: "text not null"},
	{Name: "is_default", Type: "boolean not null"},
	{Name: "fallback_sms_mode", Type: "text not null"},
	{Name: "created_at", Type: "timestamptz not null"},
}}

var sendingLimitsTable = &Table{Name: "sending_limits", Key: []string{"organisation_id"}, Columns: []Column{
	{Name: "organisation_id", Type: "uuid not null"},
	{Name: "limits", Type: "jsonb not null"},
}}

// Lines are the lines and pools of the workspaces as they are now.
var Lines = &Projection{
	ID: "lines", Program: 4,
	Tables:  []*Table{linesTable, poolsTable, sendingLimitsTable},
	Indexes: []string{`create index on @lines (workspace_id)`, `create index on @pools (workspace_id)`},
	Wants: events.NamesOf((*events.PoolCreated)(nil), (*events.PoolUpdated)(nil), (*events.LineUpdated)(nil), (*events.LineProvisioned)(nil), (*events.LineStateChanged)(nil),
		(*events.LineHealthScored)(nil), (*events.LineCarrierConfigured)(nil), (*events.SendingLimitsSet)(nil)),
	Project: projectLine,
}

func projectLine(r *eventstore.Recorded, c *Changes) {
	at := stamp(r.OccurredAt)
	switch e := r.Event.(type) {
	case *events.PoolCreated:
		c.Insert(poolsTable, Row{"id": e.PoolID, "workspace_id": r.WorkspaceID, "name": e.Name, "rotation": e.Rotation, "is_default": e.Default,
			"fallback_sms_mode": fallbackMode(e.FallbackSMSMode), "created_at": at})
	case *events.PoolUpdated:
		c.Update(poolsTable, poolRow(e))
	case *events.LineProvisioned:
		c.Insert(linesTable, Row{
			"id": e.LineID, "workspace_id": r.WorkspaceID, "phone": e.Phone, "display_name": e.DisplayName, "pool_id": e.PoolID,
			"is_sandbox": e.IsSandbox, "carrier": e.Carrier, "state": e.State, "health_score": 100, "created_at": at,
			"warming_since": warmingSince(line.State(e.State), r),
		})
	case *events.LineUpdated:
		c.Update(linesTable, lineRow(e))
	case *events.LineCarrierConfigured:
		c.Update(linesTable, Row{"id": e.LineID, "carrier": e.Carrier})
	case *events.LineStateChanged:
		c.Update(linesTable, movedRow(r, e))
	case *events.LineHealthScored:
		c.Update(linesTable, Row{"id": e.LineID, "health_score": e.Score})
	case *events.SendingLimitsSet:
		c.Insert(sendingLimitsTable, Row{"organisation_id": r.OrganisationID, "limits": e.Limits})
	}
}

func poolRow(e *events.PoolUpdated) Row {
	row := Row{"id": e.PoolID}
	for _, field := range e.Changed {
		switch field {
		case "name":
			row["name"] = e.Name
		case "rotation":
			row["rotation"] = e.Rotation
		case "fallback_sms_mode":
			row["fallback_sms_mode"] = fallbackMode(e.FallbackSMSMode)
		}
	}
	return row
}

func lineRow(e *events.LineUpdated) Row {
	row := Row{"id": e.LineID}
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
	return row
}

func fallbackMode(mode string) string {
	if mode == "" {
		return string(line.FallbackOff)
	}
	return mode
}

func warmingSince(to line.State, r *eventstore.Recorded) any {
	if to != line.Warming {
		return nil
	}
	return line.DayOf(r.OccurredAt).Date
}

// movedRow is what a move changes, as the line's own fold has it.
func movedRow(r *eventstore.Recorded, e *events.LineStateChanged) Row {
	row := Row{"id": e.LineID, "state": e.To, "state_reason": e.Reason, "state_changed_at": stamp(r.OccurredAt)}
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
	return row
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
