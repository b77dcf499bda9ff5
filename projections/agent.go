package projections

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/projections/readmodel"
)

// Agent is an agent as the API shows it, and defines the columns of its table: see readmodel.TableOf.
type Agent struct {
	ID                string   `json:"id" format:"uuid" sql:"uuid not null"`
	Name              string   `json:"name" sql:"text not null"`
	Status            string   `json:"status" enum:"draft,live,paused" doc:"A live agent answers in the conversations that it handles" sql:"text not null"`
	Instructions      string   `json:"instructions" doc:"What the model is told in every conversation" sql:"text not null"`
	Model             string   `json:"model" doc:"Name of the model; empty: the one that the installation names" sql:"text not null"`
	AllowedLineIDs    []string `json:"allowed_line_ids" nullable:"false" doc:"Lines that it sends from; empty: all lines of the workspace" sql:"jsonb not null"`
	DailyLimit        *int64   `json:"daily_limit" minimum:"1" maximum:"100000" doc:"Answers a usage day; null: no limit" sql:"bigint"`
	ServiceIdentityID string   `json:"service_identity_id" format:"uuid" doc:"The identity in whose name it sends" sql:"uuid not null"`
	CreatedAt         string   `json:"created_at" format:"date-time" sql:"timestamptz not null"`
	UpdatedAt         string   `json:"updated_at" format:"date-time" sql:"timestamptz not null" merge:"latest"`
}

var agentsTable = readmodel.TableOf[Agent]("agents", []string{"id"}, readmodel.Column{Name: "workspace_id", Type: "uuid not null"})

// Agents has the agents of all workspaces.
var Agents = &readmodel.Projection{
	ID: "agents", Program: 1,
	Tables: []*readmodel.Table{agentsTable},
	Indexes: []string{
		`create index on @agents (workspace_id, created_at desc, id desc)`,
		`create index on @agents (workspace_id, status, created_at desc, id desc)`,
	},
	Handlers: feed.NewHandlers(
		feed.On(func(c *readmodel.Changes, e *events.AgentCreated, r *eventstore.Recorded) {
			at := readmodel.Stamp(r.OccurredAt)
			c.Insert(agentsTable, readmodel.Row{
				"id": e.AgentID, "workspace_id": r.WorkspaceID, "name": e.Name, "status": "draft", "instructions": e.Instructions, "model": e.Model,
				"allowed_line_ids": emptyNotNull(e.AllowedLineIDs), "daily_limit": e.DailyLimit, "service_identity_id": e.IdentityID,
				"created_at": at, "updated_at": at,
			})
		}),
		feed.On(func(c *readmodel.Changes, e *events.AgentUpdated, r *eventstore.Recorded) {
			updateAgent(c, r, e.AgentID, readmodel.Row{
				"name": e.Name, "instructions": e.Instructions, "model": e.Model, "allowed_line_ids": emptyNotNull(e.AllowedLineIDs), "daily_limit": e.DailyLimit,
			})
		}),
		feed.On(func(c *readmodel.Changes, e *events.AgentActivated, r *eventstore.Recorded) {
			updateAgent(c, r, e.AgentID, readmodel.Row{"status": "live"})
		}),
		feed.On(func(c *readmodel.Changes, e *events.AgentPaused, r *eventstore.Recorded) {
			updateAgent(c, r, e.AgentID, readmodel.Row{"status": "paused"})
		}),
	),
}

func updateAgent(c *readmodel.Changes, r *eventstore.Recorded, id uuid.UUID, row readmodel.Row) {
	row["id"], row["updated_at"] = id, readmodel.Stamp(r.OccurredAt)
	c.Update(agentsTable, row)
}

var (
	agentFields = readmodel.Select[Agent](agentsTable, "a", nil)
	agentSQL    = `select ` + agentFields.SQL + ` from read.agents a`
)

// Agents lists the agents of a workspace, newest first. An empty status lists all.
func (s *Store) Agents(ctx context.Context, v Viewer, status string, after *readmodel.Cursor, limit int) (readmodel.Page[Agent], error) {
	f := &readmodel.Filter{}
	f.Add("a.workspace_id = %s", v.Workspace)
	f.Equal("a.status", status)
	f.After(after, "a.created_at", "a.id", "uuid")
	key := func(a *Agent) readmodel.Cursor { return readmodel.Cursor{At: a.CreatedAt, ID: a.ID} }
	return readmodel.ReadPage(ctx, s.Reader, "agents", limit, agentFields.Scan, key,
		agentSQL+f.Where()+` order by a.created_at desc, a.id desc limit `+f.Arg(limit+1), f.Args...)
}

// Agent finds an agent of a workspace; found is false when there is none.
func (s *Store) Agent(ctx context.Context, v Viewer, id uuid.UUID) (a Agent, found bool, err error) {
	return readmodel.One(ctx, s.Reader, "agent", agentFields.Scan, agentSQL+` where a.workspace_id = $1 and a.id = $2`, v.Workspace, id)
}
