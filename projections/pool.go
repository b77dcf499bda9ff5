package projections

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"ledgerline/domain/line"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/projections/readmodel"
)

var poolsTable = &readmodel.Table{Name: "pools", Key: []string{"id"}, Columns: []readmodel.Column{
	{Name: "id", Type: `text collate "C" not null`},
	{Name: "workspace_id", Type: "uuid not null"},
	{Name: "name", Type: "text not null"},
	{Name: "rotation", Type: "text not null"},
	{Name: "is_default", Type: "boolean not null"},
	{Name: "fallback_sms_mode", Type: "text not null"},
	{Name: "created_at", Type: "timestamptz not null"},
}}

func poolCreated(c *readmodel.Changes, e *events.PoolCreated, r *eventstore.Recorded) {
	c.Insert(poolsTable, readmodel.Row{
		"id": e.PoolID, "workspace_id": r.WorkspaceID, "name": e.Name, "rotation": e.Rotation, "is_default": e.Default,
		"fallback_sms_mode": fallbackMode(e.FallbackSMSMode), "created_at": readmodel.Stamp(r.OccurredAt),
	})
}

func poolUpdated(c *readmodel.Changes, e *events.PoolUpdated, _ *eventstore.Recorded) {
	row := readmodel.Row{"id": e.PoolID}
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
	c.Update(poolsTable, row)
}

func fallbackMode(mode string) string {
	if mode == "" {
		return string(line.FallbackOff)
	}
	return mode
}

// Pool is a pool as the API shows it (administration 2.4).
type Pool struct {
	ID              string `json:"id" doc:"pool_ id"`
	Name            string `json:"name"`
	Rotation        string `json:"rotation" enum:"sticky,round_robin"`
	FallbackSMSMode string `json:"fallback_sms_mode" enum:"off,not_chat,not_chat_or_failed"`
	LineCount       int    `json:"line_count" minimum:"0" doc:"Lines that are not retired"`
	FallbackSMS     bool   `json:"fallback_sms" deprecated:"true" doc:"true unless fallback_sms_mode is off"`
	CreatedAt       string `json:"created_at" format:"date-time"`
}

const poolSQL = `select p.id, p.name, p.rotation, p.fallback_sms_mode, p.created_at,
	(select count(*) from read.lines l where l.workspace_id = p.workspace_id and l.pool_id = p.id and l.state <> 'retired')
	from read.pools p`

func scanPool(row pgx.CollectableRow) (p Pool, err error) {
	var created time.Time
	err = row.Scan(&p.ID, &p.Name, &p.Rotation, &p.FallbackSMSMode, &created, &p.LineCount)
	p.FallbackSMS, p.CreatedAt = p.FallbackSMSMode != string(line.FallbackOff), readmodel.Stamp(created)
	return p, err
}

// PoolsNow lists the pools of a workspace, oldest first.
func (s *Store) PoolsNow(ctx context.Context, v Viewer) ([]Pool, error) {
	return readmodel.List(ctx, s.Reader, "pools", scanPool, poolSQL+` where p.workspace_id = $1 order by p.created_at, p.id`, v.Workspace)
}

// PoolNow finds one; found is false when there is none.
func (s *Store) PoolNow(ctx context.Context, v Viewer, id string) (Pool, bool, error) {
	return readmodel.One(ctx, s.Reader, "pool", scanPool, poolSQL+` where p.workspace_id = $1 and p.id = $2`, v.Workspace, id)
}
