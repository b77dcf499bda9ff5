package projections

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/domain/workflow"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/projections/readmodel"
)

// WorkflowGraph is the graph of a workflow as the API shows it.
type WorkflowGraph struct {
	Nodes []WorkflowNode `json:"nodes" maxItems:"200" nullable:"false" doc:"The steps"`
	Edges []WorkflowEdge `json:"edges" maxItems:"400" nullable:"false" doc:"The order of the steps"`
}

// WorkflowNode is one step of a graph.
type WorkflowNode struct {
	ID       string         `json:"id" maxLength:"64" doc:"Unique in the graph"`
	Type     string         `json:"type" enum:"trigger,condition,wait,send,assign,label,webhook,ai" doc:"What the step does"`
	Config   map[string]any `json:"config" doc:"Depends on the type"`
	Position map[string]any `json:"position,omitempty" doc:"Where an editor draws the node"`
}

// WorkflowEdge leads from one node to the next.
type WorkflowEdge struct {
	From  string `json:"from" maxLength:"64" doc:"Id of a node"`
	To    string `json:"to" maxLength:"64" doc:"Id of a node"`
	Label string `json:"label,omitempty" maxLength:"40" doc:"With which result of the node it is taken: true, false, replied, timeout, done or handoff"`
}

// Workflow is a workflow as the API shows it, and defines the columns of its table: see readmodel.TableOf.
type Workflow struct {
	ID                 string         `json:"id" format:"uuid" sql:"uuid not null"`
	Name               string         `json:"name" sql:"text not null"`
	Status             string         `json:"status" enum:"draft,live,paused,archived" doc:"draft until it is published" sql:"text not null"`
	Trigger            string         `json:"trigger" enum:"message.received,contact.created,schedule,webhook" doc:"What starts runs" sql:"text not null"`
	TriggerConfig      map[string]any `json:"trigger_config" doc:"Depends on the trigger. That of a webhook shows the token, once the workflow was published" sql:"jsonb not null"`
	Graph              WorkflowGraph  `json:"graph" doc:"The draft where there is one, else the live version" sql:"jsonb not null"`
	HasDraft           bool           `json:"has_draft" doc:"There are edits that are not published" sql:"boolean not null"`
	PublishedVersion   *int           `json:"published_version" minimum:"1" doc:"Number of the live version; null before the first publication" sql:"integer"`
	PublishedVersionID *string        `json:"published_version_id" format:"uuid" doc:"The live version" sql:"uuid"`
	Runs30d            WorkflowRuns   `json:"runs_30d" doc:"Runs that started in the last 30 times 24 hours"`
	CreatedAt          string         `json:"created_at" format:"date-time" sql:"timestamptz not null"`
	UpdatedAt          string         `json:"updated_at" format:"date-time" sql:"timestamptz not null" merge:"latest"`

	HasToken bool `json:"-" column:"has_token" sql:"boolean not null"` // it was published with a webhook trigger
}

// WorkflowRuns counts the runs of a workflow.
type WorkflowRuns struct {
	Completed int64 `json:"completed" minimum:"0" doc:"Those that completed"`
	Failed    int64 `json:"failed" minimum:"0" doc:"Those that failed"`
	Total     int64 `json:"total" minimum:"0" doc:"All of them"`
}

// WorkflowVersion is a published version as the API shows it.
type WorkflowVersion struct {
	ID          string        `json:"id" format:"uuid" sql:"uuid not null"`
	WorkflowID  string        `json:"workflow_id" format:"uuid" doc:"Its workflow" sql:"uuid not null"`
	Version     int           `json:"version" minimum:"1" doc:"Its number, from 1" sql:"integer not null"`
	Graph       WorkflowGraph `json:"graph" doc:"As it was published" sql:"jsonb not null"`
	PublishedAt *string       `json:"published_at" format:"date-time" doc:"When it became the live version" sql:"timestamptz not null"`
	CreatedAt   string        `json:"created_at" format:"date-time" doc:"When its draft was begun" sql:"timestamptz not null"`
}

var (
	workflowsTable = readmodel.TableOf[Workflow]("workflows", []string{"id"}, readmodel.Column{Name: "workspace_id", Type: "uuid not null"})
	versionsTable  = readmodel.TableOf[WorkflowVersion]("workflow_versions", []string{"id"},
		readmodel.Column{Name: "workspace_id", Type: "uuid not null"})
)

// Workflows has the workflows of all workspaces and their versions.
var Workflows = &readmodel.Projection{
	ID: "workflows", Program: 1,
	Tables: []*readmodel.Table{workflowsTable, versionsTable},
	Indexes: []string{
		`create index on @workflows (workspace_id, updated_at desc, id desc)`,
		`create index on @workflows (workspace_id, status, updated_at desc, id desc)`,
		`create index on @workflow_versions (workflow_id, version desc)`,
	},
	Handlers: feed.NewHandlers(
		feed.On(func(c *readmodel.Changes, e *events.WorkflowCreated, r *eventstore.Recorded) {
			at := readmodel.Stamp(r.OccurredAt)
			c.Insert(workflowsTable, readmodel.Row{
				"id": e.WorkflowID, "workspace_id": r.WorkspaceID, "name": e.Name, "status": "draft", "trigger": e.Trigger,
				"trigger_config": configOf(e.TriggerConfig), "graph": e.Graph, "has_draft": true, "has_token": false, "created_at": at, "updated_at": at,
			})
		}),
		feed.On(func(c *readmodel.Changes, e *events.WorkflowEdited, r *eventstore.Recorded) {
			values, row := readmodel.ValuesOf(e), readmodel.Row{"has_draft": true}
			for _, name := range e.Changed {
				switch name {
				case "name", "trigger", "graph":
					row[name] = values[name]
				case "trigger_config":
					row[name] = configOf(e.TriggerConfig)
				}
			}
			updateWorkflow(c, r, e.WorkflowID, row)
		}),
		feed.On(func(c *readmodel.Changes, e *events.WorkflowPublished, r *eventstore.Recorded) {
			row := readmodel.Row{"status": "live", "has_draft": false, "published_version": e.Version, "published_version_id": e.VersionID}
			if e.Trigger == string(workflow.OnWebhook) {
				row["has_token"] = true
			}
			updateWorkflow(c, r, e.WorkflowID, row)
		}),
		feed.On(func(c *readmodel.Changes, e *events.WorkflowPaused, r *eventstore.Recorded) {
			updateWorkflow(c, r, e.WorkflowID, readmodel.Row{"status": "paused"})
		}),
		feed.On(func(c *readmodel.Changes, e *events.WorkflowResumed, r *eventstore.Recorded) {
			updateWorkflow(c, r, e.WorkflowID, readmodel.Row{"status": "live"})
		}),
		feed.On(func(c *readmodel.Changes, e *events.WorkflowArchived, r *eventstore.Recorded) {
			updateWorkflow(c, r, e.WorkflowID, readmodel.Row{"status": "archived"})
		}),
		feed.On(func(c *readmodel.Changes, e *events.WorkflowVersionCreated, r *eventstore.Recorded) {
			c.Insert(versionsTable, readmodel.Row{
				"id": e.VersionID, "workflow_id": e.WorkflowID, "workspace_id": r.WorkspaceID, "version": e.Version, "graph": e.Graph,
				"published_at": readmodel.Stamp(r.OccurredAt), "created_at": readmodel.Stamp(e.DraftedAt),
			})
		}),
	),
}

// configOf is a config as it is stored. Events leave out one that was changed to nothing.
func configOf(config map[string]any) map[string]any {
	if config == nil {
		return map[string]any{}
	}
	return config
}

func updateWorkflow(c *readmodel.Changes, r *eventstore.Recorded, id uuid.UUID, row readmodel.Row) {
	row["id"], row["updated_at"] = id, readmodel.Stamp(r.OccurredAt)
	c.Update(workflowsTable, row)
}

var (
	workflowFields = readmodel.Select[Workflow](workflowsTable, "w", map[string]string{"runs_30d": readmodel.SetAfterScan})
	workflowSQL    = `select ` + workflowFields.SQL + ` from read.workflows w`
	versionFields  = readmodel.Select[WorkflowVersion](versionsTable, "v", nil)
	versionsSQL    = `select ` + versionFields.SQL + ` from read.workflow_versions v
		where v.workspace_id = $1 and v.workflow_id = $2 order by v.version desc`
)

// withToken shows the token of a webhook trigger.
func (s *Store) withToken(w *Workflow) {
	if w.HasToken && w.Trigger == string(workflow.OnWebhook) {
		w.TriggerConfig["token"] = workflow.NewToken(uuid.MustParse(w.ID), s.Ledger().Keyring().DeriveKey(workflow.TokenKey))
	}
}

// Workflows lists the workflows of a workspace, the most recently changed first. An empty status lists all.
func (s *Store) Workflows(ctx context.Context, v Viewer, status string, after *readmodel.Cursor, limit int) (readmodel.Page[Workflow], error) {
	f := &readmodel.Filter{}
	f.Add("w.workspace_id = %s", v.Workspace)
	f.Equal("w.status", status)
	f.After(after, "w.updated_at", "w.id", "uuid")
	key := func(w *Workflow) readmodel.Cursor { return readmodel.Cursor{At: w.UpdatedAt, ID: w.ID} }
	page, err := readmodel.ReadPage(ctx, s.Reader, "workflows", limit, workflowFields.Scan, key,
		workflowSQL+f.Where()+` order by w.updated_at desc, w.id desc limit `+f.Arg(limit+1), f.Args...)
	if err != nil {
		return page, err
	}
	for i := range page.Rows {
		s.withToken(&page.Rows[i])
	}
	return page, s.countRuns(ctx, page.Rows)
}

// Workflow finds a workflow of a workspace; found is false when there is none.
func (s *Store) Workflow(ctx context.Context, v Viewer, id uuid.UUID) (w Workflow, found bool, err error) {
	w, found, err = readmodel.One(ctx, s.Reader, "workflow", workflowFields.Scan, workflowSQL+` where w.workspace_id = $1 and w.id = $2`, v.Workspace, id)
	if err != nil || !found {
		return w, found, err
	}
	s.withToken(&w)
	list := []Workflow{w}
	err = s.countRuns(ctx, list)
	return list[0], true, err
}

// WorkflowVersions lists the published versions of a workflow of the workspace, newest first.
func (s *Store) WorkflowVersions(ctx context.Context, v Viewer, id uuid.UUID) ([]WorkflowVersion, error) {
	return readmodel.List(ctx, s.Reader, "versions of a workflow", versionFields.Scan, versionsSQL, v.Workspace, id)
}
