package projections

import (
	"context"

	"ledgerline/domain/line"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/projections/readmodel"
)

// Pool is a pool as the API shows it, and defines the columns of its table: see readmodel.TableOf.
type Pool struct {
	ID              string `json:"id" doc:"pool_ id" sql:"text collate \"C\" not null"`
	Name            string `json:"name" sql:"text not null"`
	Rotation        string `json:"rotation" enum:"sticky,round_robin" sql:"text not null"`
	FallbackSMSMode string `json:"fallback_sms_mode" enum:"off,not_chat,not_chat_or_failed" sql:"text not null"`
	LineCount       int    `json:"line_count" minimum:"0" doc:"Lines that are not retired"`
	FallbackSMS     bool   `json:"fallback_sms" deprecated:"true" doc:"true unless fallback_sms_mode is off"`
	CreatedAt       string `json:"created_at" format:"date-time" sql:"timestamptz not null"`
}

var poolsTable = readmodel.TableOf[Pool]("pools", []string{"id"},
	readmodel.Column{Name: "workspace_id", Type: "uuid not null"},
	readmodel.Column{Name: "is_default", Type: "boolean not null"},
)

var poolFields = readmodel.Select[Pool](poolsTable, "p", map[string]string{
	"line_count":   `(select count(*) from read.lines l where l.workspace_id = p.workspace_id and l.pool_id = p.id and l.state <> 'retired')`,
	"fallback_sms": "p.fallback_sms_mode <> '" + string(line.FallbackOff) + "'",
})

func poolCreated(c *readmodel.Changes, e *events.PoolCreated, r *eventstore.Recorded) {
	c.Insert(poolsTable, readmodel.Row{
		"id": e.PoolID, "workspace_id": r.WorkspaceID, "name": e.Name, "rotation": e.Rotation, "is_default": e.Default,
		"fallback_sms_mode": fallbackMode(e.FallbackSMSMode), "created_at": readmodel.Stamp(r.OccurredAt),
	})
}

func poolUpdated(c *readmodel.Changes, e *events.PoolUpdated, _ *eventstore.Recorded) {
	row := poolsTable.ChangedValues(e, e.Changed)
	row["id"] = e.PoolID
	c.Update(poolsTable, row)
}

func fallbackMode(mode string) string {
	if mode == "" {
		return string(line.FallbackOff)
	}
	return mode
}

var poolSQL = `select ` + poolFields.SQL + ` from read.pools p where p.workspace_id = $1`

// Pools lists the pools of a workspace, oldest first.
func (s *Store) Pools(ctx context.Context, v Viewer) ([]Pool, error) {
	return readmodel.List(ctx, s.Reader, "pools", poolFields.Scan, poolSQL+` order by p.created_at, p.id`, v.Workspace)
}

// Pool finds a pool of a workspace; found is false when there is none.
func (s *Store) Pool(ctx context.Context, v Viewer, id string) (p Pool, found bool, err error) {
	return readmodel.One(ctx, s.Reader, "pool", poolFields.Scan, poolSQL+` and p.id = $2`, v.Workspace, id)
}
