package projections

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/domain/segment"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/projections/readmodel"
)

// WorkflowRun is a run as the API shows it, and defines the columns of its table: see readmodel.TableOf.
type WorkflowRun struct {
	ID                string    `json:"id" format:"uuid" sql:"uuid not null"`
	WorkflowID        string    `json:"workflow_id" format:"uuid" doc:"Its workflow" sql:"uuid not null"`
	WorkflowVersionID string    `json:"workflow_version_id" format:"uuid" doc:"The version that it follows" sql:"uuid not null"`
	Version           int       `json:"version" minimum:"1" doc:"Number of that version" sql:"integer not null"`
	ContactID         *string   `json:"contact_id" doc:"ctc_ id; null once the contact was erased" sql:"text collate \"C\""`
	Status            string    `json:"status" enum:"running,waiting,completed,failed,cancelled" doc:"running and waiting runs are active" sql:"text not null"`
	ErrorCode         *string   `json:"error_code" doc:"Why it failed or was cancelled" sql:"text"`
	StartedAt         string    `json:"started_at" format:"date-time" doc:"When the trigger fired" sql:"timestamptz not null"`
	FinishedAt        *string   `json:"finished_at" format:"date-time" doc:"null while it is active" sql:"timestamptz"`
	ResumeAt          *string   `json:"resume_at" format:"date-time" doc:"While it waits: when it goes on by itself" sql:"timestamptz"`
	Steps             []RunStep `json:"steps" nullable:"false" doc:"In the order in which they happened"`
}

// RunStep is one step of a run.
type RunStep struct {
	NodeID string         `json:"node_id" doc:"Id of the node in the version's graph"`
	Status string         `json:"status" enum:"completed,skipped,failed,waiting" doc:"skipped: it had nothing to change"`
	At     string         `json:"at" format:"date-time" doc:"When it began to wait, or ended"`
	Detail map[string]any `json:"detail" doc:"Depends on the type of the node"`
}

var (
	runsTable  = readmodel.TableOf[WorkflowRun]("workflow_runs", []string{"id"}, readmodel.Column{Name: "workspace_id", Type: "uuid not null"})
	stepsTable = &readmodel.Table{Name: "workflow_steps", Key: []string{"run_id", "node_id"}, Columns: []readmodel.Column{
		{Name: "run_id", Type: "uuid not null"},
		{Name: "node_id", Type: `text collate "C" not null`},
		{Name: "number", Type: "integer not null"}, // in the run, from 1
		{Name: "status", Type: "text not null"},
		{Name: "at", Type: "text not null"}, // as readmodel.Stamp formats it
		{Name: "detail", Type: "jsonb not null"},
	}}
)

// Runs has the runs of all workflows with their steps.
var Runs = &readmodel.Projection{
	ID: "workflow_runs", Program: 1,
	Tables: []*readmodel.Table{runsTable, stepsTable},
	Indexes: []string{
		`create index on @workflow_runs (workspace_id, started_at desc, id desc)`,
		`create index on @workflow_runs (workspace_id, status, started_at desc, id desc)`,
		`create index on @workflow_runs (workflow_id, started_at desc, id desc) include (status)`,
		`create index on @workflow_runs (contact_id, started_at desc, id desc)`,
	},
	Handlers: feed.NewHandlers(
		feed.On(func(c *readmodel.Changes, e *events.RunStarted, r *eventstore.Recorded) {
			c.Insert(runsTable, readmodel.Row{
				"id": e.RunID, "workspace_id": r.WorkspaceID, "workflow_id": e.WorkflowID, "workflow_version_id": e.VersionID, "version": e.Version,
				"contact_id": e.ContactID, "status": "running", "started_at": readmodel.Stamp(r.OccurredAt),
			})
		}),
		feed.On(func(c *readmodel.Changes, e *events.RunStepWaiting, r *eventstore.Recorded) {
			resume := readmodel.StampOrNull(e.ResumeAt)
			c.Update(runsTable, readmodel.Row{"id": e.RunID, "status": "waiting", "resume_at": resume})
			insertStep(c, e.RunID, e.NodeID, e.Number, "waiting", map[string]any{"resume_at": resume, "outcome": nil}, r)
		}),
		feed.On(func(c *readmodel.Changes, e *events.RunStepCompleted, r *eventstore.Recorded) {
			c.Update(runsTable, readmodel.Row{"id": e.RunID, "status": "running", "resume_at": nil})
			insertStep(c, e.RunID, e.NodeID, e.Number, e.Status, configOf(e.Detail), r)
		}),
		feed.On(func(c *readmodel.Changes, e *events.RunFinished, r *eventstore.Recorded) {
			c.Update(runsTable, readmodel.Row{
				"id": e.RunID, "status": e.Status, "error_code": e.Code, "finished_at": readmodel.Stamp(r.OccurredAt), "resume_at": nil,
			})
		}),
		feed.On(func(c *readmodel.Changes, e *events.ContactDeleted, _ *eventstore.Recorded) {
			c.BlankWhere(runsTable, "contact_id", e.ContactID, "contact_id")
		}),
	),
}

func insertStep(c *readmodel.Changes, run uuid.UUID, node string, number int, status string, detail map[string]any, r *eventstore.Recorded) {
	c.Insert(stepsTable, readmodel.Row{
		"run_id": run, "node_id": node, "number": number, "status": status, "at": readmodel.Stamp(r.OccurredAt), "detail": detail,
	})
}

var (
	runFields = readmodel.Select[WorkflowRun](runsTable, "r", map[string]string{"steps": `coalesce((select
		json_agg(json_build_object('node_id', s.node_id, 'status', s.status, 'at', s.at, 'detail', s.detail) order by s.number)
		from read.workflow_steps s where s.run_id = r.id), '[]')`})
	runSQL      = `select ` + runFields.SQL + ` from read.workflow_runs r`
	runsByIDSQL = runSQL + ` where r.id = any($1::uuid[])`
)

// RunFilter has the filters of the list of runs; empty ones do not apply.
type RunFilter struct{ WorkflowID, Status, ContactID string }

// WorkflowRuns lists the runs of a workspace, newest first.
func (s *Store) WorkflowRuns(ctx context.Context, v Viewer, by RunFilter, after *readmodel.Cursor, limit int) (readmodel.Page[WorkflowRun], error) {
	f := &readmodel.Filter{}
	f.Add("r.workspace_id = %s", v.Workspace)
	if by.WorkflowID != "" {
		f.Add("r.workflow_id = %s::text::uuid", by.WorkflowID)
	}
	f.Equal("r.status", by.Status)
	f.Equal("r.contact_id", by.ContactID)
	f.After(after, "r.started_at", "r.id", "uuid")
	key := func(r *WorkflowRun) readmodel.Cursor { return readmodel.Cursor{At: r.StartedAt, ID: r.ID} }
	return readmodel.ReadPage(ctx, s.Reader, "workflow runs", limit, runFields.Scan, key,
		runSQL+f.Where()+` order by r.started_at desc, r.id desc limit `+f.Arg(limit+1), f.Args...)
}

// WorkflowRun finds a run of a workspace; found is false when there is none.
func (s *Store) WorkflowRun(ctx context.Context, v Viewer, id uuid.UUID) (r WorkflowRun, found bool, err error) {
	return readmodel.One(ctx, s.Reader, "workflow run", runFields.Scan, runSQL+` where r.workspace_id = $1 and r.id = $2`, v.Workspace, id)
}

// WorkflowRunsByID finds runs of any workspace in no order; ids that do not exist are left out.
func (s *Store) WorkflowRunsByID(ctx context.Context, ids []string) ([]WorkflowRun, error) {
	return readmodel.List(ctx, s.Reader, "workflow runs by id", runFields.Scan, runsByIDSQL, ids)
}

// runsPeriod is the period of the counts of runs.
const runsPeriod = 30 * 24 * time.Hour

const countRunsSQL = `select r.workflow_id::text, count(*) filter (where r.status = 'completed'), count(*) filter (where r.status = 'failed'), count(*)
	from read.workflow_runs r where r.workflow_id = any($1::uuid[]) and r.started_at > $2 group by r.workflow_id`

// countRuns sets the counts of the runs of workflows.
func (s *Store) countRuns(ctx context.Context, list []Workflow) error {
	if len(list) == 0 {
		return nil
	}
	ids, byID := make([]string, len(list)), make(map[string]*Workflow, len(list))
	for i := range list {
		ids[i], byID[list[i].ID] = list[i].ID, &list[i]
	}
	rows, err := s.DB(ctx).Query(ctx, countRunsSQL, ids, s.Ledger().Now().Add(-runsPeriod))
	if err != nil {
		return fmt.Errorf("projections: count runs: %w", err)
	}
	var id string
	var runs WorkflowRuns
	_, err = pgx.ForEachRow(rows, []any{&id, &runs.Completed, &runs.Failed, &runs.Total}, func() error {
		byID[id].Runs30d = runs
		return nil
	})
	if err != nil {
		return fmt.Errorf("projections: count runs: %w", err)
	}
	return nil
}

const contactTimesSQL = `select c.created_at, c.last_inbound_at, c.last_outbound_at, c.first_reply_at, c.chat_capable from read.contacts c where c.id = $1`

// ContactTimes reads the times of a contact of any workspace, and whether it is on chat. For a contact that does not
// exist it sets nothing.
func (s *Store) ContactTimes(ctx context.Context, contactID string, into *segment.Contact) error {
	rows, err := s.DB(ctx).Query(ctx, contactTimesSQL, contactID)
	if err != nil {
		return fmt.Errorf("projections: times of a contact: %w", err)
	}
	_, err = pgx.ForEachRow(rows, []any{&into.CreatedAt, &into.LastInboundAt, &into.LastOutboundAt, &into.FirstReply, &into.ChatCapable},
		func() error { return nil })
	if err != nil {
		return fmt.Errorf("projections: times of a contact: %w", err)
	}
	return nil
}

// SegmentMember is a contact of a segment with its position in the order of contacts.
type SegmentMember struct {
	ID       string
	Position int64
}

// SegmentPage lists contacts of a segment of the workspace, newest first: those before a position, or the first ones
// when it is nil. A segment that does not exist has none.
func (s *Store) SegmentPage(ctx context.Context, v Viewer, segmentID string, before *int64, limit int) ([]SegmentMember, error) {
	node, found, err := s.SegmentDefinition(ctx, v, segmentID)
	if err != nil || !found {
		return nil, err
	}
	f := &readmodel.Filter{}
	f.Add("c.workspace_id = %s", v.Workspace)
	f.Require(segmentSQL(node, f, s.Ledger().Now()))
	if before != nil {
		f.Add("c.position < %s", *before)
	}
	return readmodel.List(ctx, s.Reader, "contacts of a segment", pgx.RowToStructByPos[SegmentMember],
		`select c.id, c.position from read.contacts c`+f.Where()+` order by c.position desc limit `+f.Arg(limit), f.Args...)
}
