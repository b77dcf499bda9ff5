package workflows

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/domain/conversation"
	"ledgerline/domain/workflow"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/processes"
	"ledgerline/processes/tasks"
)

const (
	triggersSQL      = `select workflow_id, workspace_id, version_id, kind from workflow_triggers where live and workspace_id = any($1)`
	activeOfSQL      = `select workflow_id, contact_id from workflow_active_runs where contact_id = any($1)`
	upsertTriggerSQL = `insert into workflow_triggers (workflow_id, workspace_id, version_id, kind, live) values ($1, $2, $3, $4, true)
		on conflict (workflow_id) do update set version_id = excluded.version_id, kind = excluded.kind, live = true`
	pauseTriggerSQL  = `update workflow_triggers set live = false where workflow_id = $1`
	resumeTriggerSQL = `update workflow_triggers set live = true where workflow_id = $1`
	deleteTriggerSQL = `delete from workflow_triggers where workflow_id = $1`
	pausedTriggerSQL = `select version_id, kind from workflow_triggers where workflow_id = $1`

	upsertScheduleSQL = `insert into workflow_schedules (workflow_id, version_id, next_at) values ($1, $2, $3)
		on conflict (workflow_id) do update set version_id = excluded.version_id, next_at = excluded.next_at, reached_position = null`
	deleteScheduleSQL = `delete from workflow_schedules where workflow_id = $1`
	dropTasksSQL      = `select scheduled_tasks_delete($1, $2)`

	insertRunsSQL = `insert into workflow_active_runs (run_id, workflow_id, contact_id, shard, started_position, awaits_since, awaits_step, resume_at)
		select * from unnest($1::uuid[], $2::uuid[], $3::text[], $4::smallint[], $5::bigint[], $6::bigint[], $7::integer[], $8::timestamptz[]) on conflict do nothing`
	updateRunsSQL = `update workflow_active_runs a set awaits_since = u.awaits_since, awaits_step = u.awaits_step, resume_at = u.resume_at, reply_id = null, agent_ended = false
		from unnest($1::uuid[], $2::bigint[], $3::integer[], $4::timestamptz[]) u (run_id, awaits_since, awaits_step, resume_at) where a.run_id = u.run_id`
	deleteRunsSQL = `delete from workflow_active_runs where run_id = any($1)`
	// The first message after a run began to wait for a reply ends the wait.
	replySQL = `update workflow_active_runs a set reply_id = (select u.message_id from unnest($1::text[], $2::text[], $3::bigint[])
			u (contact_id, message_id, position) where u.contact_id = a.contact_id and u.position > a.awaits_since order by u.position limit 1)
		where a.contact_id = any($1) and a.awaits_since is not null and a.reply_id is null`
	// What was started before an opt-out or an erasure is cancelled.
	cancelSQL = `update workflow_active_runs a set cancel = coalesce(a.cancel, u.code) from unnest($1::text[], $2::bigint[], $3::text[]) u (contact_id, position, code)
		where a.contact_id = u.contact_id and a.started_position < u.position`
	// An agent does not handle the conversation of these contacts any more.
	agentEndedSQL = `update workflow_active_runs set agent_ended = true where contact_id = any($1)`
	wakeSQL       = `insert into scheduled_tasks as t (process, key, shard, due_at, scheduled_at_position, owner)
		select '` + runProcess + `', a.run_id::text, a.shard, %s, $3, %s from workflow_active_runs a where %s order by a.run_id::text collate "C"
		on conflict (process, key) do update set due_at = least(t.due_at, excluded.due_at),
			scheduled_at_position = greatest(t.scheduled_at_position, excluded.scheduled_at_position)`
)

var (
	wakeContactsSQL = fmt.Sprintf(wakeSQL, "$2", "(select u.owner from unnest($1::text[], $4::text[]) u (contact_id, owner) where u.contact_id = a.contact_id limit 1)",
		"a.contact_id = any($1) and (a.reply_id is not null or a.cancel is not null or a.agent_ended)")
	cancelRunsSQL = fmt.Sprintf(wakeSQL, "$2", "$4", "a.workflow_id = $1")
	resumeRunsSQL = fmt.Sprintf(wakeSQL, "case when a.reply_id is null and not a.agent_ended then coalesce(a.resume_at, $2) else $2 end", "$4", "a.workflow_id = $1")
)

// trigger is a live workflow as of the consumer's position.
type trigger struct {
	workflowID, versionID uuid.UUID
	kind                  string
}

// activeRun is what a batch does to one active run.
type activeRun struct {
	started              *events.RunStarted // nil: it was started before
	owner                string             // the organisation
	shard                int
	startedPosition      int64
	awaitsSince          *int64
	awaitsStep           *int
	resumeAt             *time.Time
	startedAt            time.Time
	finished, hasChanged bool
}

// changes is the effect of a batch of events on the tables and the scheduled tasks.
type changes struct {
	ctx  context.Context //nolint:containedctx // of the batch
	p    *Process
	live map[uuid.UUID]map[uuid.UUID]trigger // by workspace and workflow

	active map[workflowContact]bool // active runs, of contacts that wrote in this batch

	statements []statement // about workflows, in the order of the events
	runs       map[uuid.UUID]*activeRun
	replies    []reply
	cancelled  []cancellation
	agentEnded []agentEnd
	waked      []statement
	tasks      []tasks.Task
	err        error
}

// workflowContact is what has at most one active run.
type workflowContact struct {
	workflowID uuid.UUID
	contactID  string
}

type statement struct {
	sql  string
	args []any
}

type reply struct {
	contactID, messageID string
	at                   *eventstore.Recorded
}

type cancellation struct {
	contactID, code string
	at              *eventstore.Recorded
}

// agentEnd is a contact whose conversation an agent does not handle any more.
type agentEnd struct {
	contactID string
	at        *eventstore.Recorded
}

// WriteContext implements feed.ReadingConsumer. It reads the published workflows as of the checkpoint. If another node
// moves the checkpoint meanwhile, the transaction with these statements does not commit.
func (p *Process) WriteContext(ctx context.Context, b *pgx.Batch, _ int, recorded []eventstore.Recorded) error {
	if len(recorded) == 0 {
		return nil
	}
	c := &changes{ctx: ctx, p: p, runs: map[uuid.UUID]*activeRun{}}
	if err := c.readTriggers(recorded); err != nil {
		return err
	}
	handlers.Handle(c, recorded)
	if c.err != nil {
		return c.err
	}
	c.addTo(b)
	return nil
}

func (c *changes) readTriggers(recorded []eventstore.Recorded) error {
	c.live = map[uuid.UUID]map[uuid.UUID]trigger{}
	for i := range recorded {
		c.live[recorded[i].WorkspaceID] = map[uuid.UUID]trigger{}
	}
	rows, err := c.p.ledger.Pool().Query(c.ctx, triggersSQL, slices.Collect(maps.Keys(c.live)))
	if err != nil {
		return fmt.Errorf("workflows: read triggers: %w", err)
	}
	var workspace uuid.UUID
	var t trigger
	_, err = pgx.ForEachRow(rows, []any{&t.workflowID, &workspace, &t.versionID, &t.kind}, func() error {
		c.live[workspace][t.workflowID] = t
		return nil
	})
	if err != nil {
		return fmt.Errorf("workflows: read triggers: %w", err)
	}
	return c.readActive(recorded)
}

// readActive reads the active runs of the contacts that wrote in workspaces with live workflows. A message that comes
// while a run is active starts no other run of the workflow, even if it ends the run (rule WFL-22).
func (c *changes) readActive(recorded []eventstore.Recorded) error {
	c.active = map[workflowContact]bool{}
	var contacts []string
	for i := range recorded {
		if e, ok := recorded[i].Event.(*events.MessageReceived); ok && len(c.live[recorded[i].WorkspaceID]) > 0 {
			contacts = append(contacts, e.ContactID)
		}
	}
	if len(contacts) == 0 {
		return nil
	}
	rows, err := c.p.ledger.Pool().Query(c.ctx, activeOfSQL, contacts)
	if err != nil {
		return fmt.Errorf("workflows: read active runs: %w", err)
	}
	var k workflowContact
	_, err = pgx.ForEachRow(rows, []any{&k.workflowID, &k.contactID}, func() error {
		c.active[k] = true
		return nil
	})
	if err != nil {
		return fmt.Errorf("workflows: read active runs: %w", err)
	}
	return nil
}

// workspaceIndex is the index of a workspace's live workflows, and the versions that it was made of.
type workspaceIndex struct {
	versions string
	index    *workflow.Index
}

// index returns the index of the workflows of a workspace that messages start. It is made again when they change.
func (c *changes) index(workspace uuid.UUID) (*workflow.Index, error) {
	var versions []string
	for _, t := range c.live[workspace] {
		if t.kind == string(workflow.MessageReceived) {
			versions = append(versions, t.versionID.String())
		}
	}
	if len(versions) == 0 {
		return workflow.NewIndex(nil), nil
	}
	slices.Sort(versions)
	made := strings.Join(versions, " ")
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if known := c.p.indexes[workspace]; known.versions == made {
		return known.index, nil
	}
	live := make([]workflow.Live, len(versions))
	for i, text := range versions {
		v, err := c.p.app.FindVersion(c.ctx, uuid.MustParse(text))
		if err != nil {
			return nil, err
		}
		live[i] = workflow.Live{WorkflowID: v.WorkflowID, VersionID: v.ID, Trigger: v.Plan.Trigger}
	}
	x := workflow.NewIndex(live)
	c.p.indexes[workspace] = workspaceIndex{made, x}
	return x, nil
}

var handlers = feed.NewHandlers(
	feed.On(func(c *changes, e *events.WorkflowPublished, r *eventstore.Recorded) {
		c.statements = append(c.statements, statement{upsertTriggerSQL, []any{e.WorkflowID, r.WorkspaceID, e.VersionID, e.Trigger}})
		c.goLive(trigger{e.WorkflowID, e.VersionID, e.Trigger}, r)
		if e.From == string(workflow.StatusPaused) {
			c.wake(resumeRunsSQL, e.WorkflowID, r)
		}
	}),
	feed.On(func(c *changes, e *events.WorkflowPaused, r *eventstore.Recorded) {
		c.statements = append(c.statements, statement{pauseTriggerSQL, []any{e.WorkflowID}})
		c.stop(e.WorkflowID, r)
	}),
	feed.On(func(c *changes, e *events.WorkflowResumed, r *eventstore.Recorded) {
		c.statements = append(c.statements, statement{resumeTriggerSQL, []any{e.WorkflowID}})
		if t, err := c.publishedTrigger(e.WorkflowID); err != nil {
			c.err = err
		} else {
			c.goLive(t, r)
		}
		c.wake(resumeRunsSQL, e.WorkflowID, r)
	}),
	feed.On(func(c *changes, e *events.WorkflowArchived, r *eventstore.Recorded) {
		c.statements = append(c.statements, statement{deleteTriggerSQL, []any{e.WorkflowID}})
		c.stop(e.WorkflowID, r)
		c.wake(cancelRunsSQL, e.WorkflowID, r)
	}),
	feed.On(func(c *changes, e *events.MessageReceived, r *eventstore.Recorded) {
		c.replies = append(c.replies, reply{e.ContactID, e.MessageID, r})
		if e.IsTest || e.Keyword != "" {
			return
		}
		x, err := c.index(r.WorkspaceID)
		if err != nil {
			c.err = err
			return
		}
		for _, l := range x.Match(e.Content.Body, e.LineID) {
			if !c.active[workflowContact{l.WorkflowID, e.ContactID}] {
				c.schedule(startProcess, startKey(l.VersionID, byMessage, e.MessageID), r.OccurredAt, r)
			}
		}
	}),
	feed.On(func(c *changes, e *events.ContactCreated, r *eventstore.Recorded) {
		if e.IsTest {
			return
		}
		for _, t := range c.live[r.WorkspaceID] {
			if t.kind == string(workflow.ContactCreated) {
				c.schedule(startProcess, startKey(t.versionID, byContact, e.ContactID), r.OccurredAt, r)
			}
		}
	}),
	feed.On(func(c *changes, e *events.ContactOptedOut, r *eventstore.Recorded) {
		c.cancelled = append(c.cancelled, cancellation{e.ContactID, workflow.CodeOptedOut, r})
	}),
	feed.On(func(c *changes, e *events.ContactDeleted, r *eventstore.Recorded) {
		c.cancelled = append(c.cancelled, cancellation{e.ContactID, workflow.CodeContactDeleted, r})
	}),
	feed.On(func(c *changes, e *events.ConversationHandlerChanged, r *eventstore.Recorded) {
		if strings.HasPrefix(e.From, conversation.AgentPrefix) {
			c.agentEnded = append(c.agentEnded, agentEnd{e.ContactID, r})
		}
	}),
	feed.On(func(c *changes, e *events.RunStarted, r *eventstore.Recorded) {
		c.active[workflowContact{e.WorkflowID, e.ContactID}] = true
		run := c.run(e.RunID)
		run.started, run.shard, run.startedPosition, run.startedAt = e, r.Shard, r.Position, r.OccurredAt
		run.owner = r.OrganisationID.String()
	}),
	feed.On(func(c *changes, e *events.RunStepWaiting, r *eventstore.Recorded) {
		run := c.run(e.RunID)
		run.awaitsSince, run.awaitsStep, run.resumeAt, run.hasChanged = nil, nil, e.ResumeAt, true
		if e.Reply {
			run.awaitsSince, run.awaitsStep = &r.Position, &e.Number
		}
	}),
	feed.On(func(c *changes, e *events.RunStepCompleted, _ *eventstore.Recorded) {
		run := c.run(e.RunID)
		run.awaitsSince, run.awaitsStep, run.resumeAt, run.hasChanged = nil, nil, nil, true
	}),
	feed.On(func(c *changes, e *events.RunFinished, _ *eventstore.Recorded) {
		delete(c.active, workflowContact{e.WorkflowID, e.ContactID})
		c.run(e.RunID).finished = true
	}),
)

// publishedTrigger returns the trigger of a workflow that was published before this batch, or in it.
func (c *changes) publishedTrigger(id uuid.UUID) (trigger, error) {
	t := trigger{workflowID: id}
	for _, s := range slices.Backward(c.statements) {
		if s.sql == upsertTriggerSQL && s.args[0] == id {
			t.versionID, _ = s.args[2].(uuid.UUID)
			t.kind, _ = s.args[3].(string)
			return t, nil
		}
	}
	if err := c.p.ledger.Pool().QueryRow(c.ctx, pausedTriggerSQL, id).Scan(&t.versionID, &t.kind); err != nil {
		return t, fmt.Errorf("workflows: read a trigger: %w", err)
	}
	return t, nil
}

// goLive makes the events that follow fire a trigger, and finds out the next time of a schedule.
func (c *changes) goLive(t trigger, r *eventstore.Recorded) {
	c.live[r.WorkspaceID][t.workflowID] = t
	c.dropSchedule(t.workflowID)
	if t.kind != string(workflow.OnSchedule) {
		return
	}
	v, err := c.p.app.FindVersion(c.ctx, t.versionID)
	if err != nil {
		c.err = err
		return
	}
	if next, ok := v.Plan.Trigger.Schedule.Next(r.OccurredAt); ok {
		c.statements = append(c.statements, statement{upsertScheduleSQL, []any{t.workflowID, t.versionID, next}})
		c.schedule(scheduleProcess, t.workflowID.String(), next, r)
	}
}

// stop makes the events that follow fire no trigger of a workflow.
func (c *changes) stop(id uuid.UUID, r *eventstore.Recorded) {
	delete(c.live[r.WorkspaceID], id)
	c.dropSchedule(id)
}

func (c *changes) dropSchedule(id uuid.UUID) {
	key := id.String()
	c.statements = append(c.statements, statement{deleteScheduleSQL, []any{id}}, statement{dropTasksSQL, []any{scheduleProcess, []string{key}}})
	c.tasks = slices.DeleteFunc(c.tasks, func(t tasks.Task) bool { return t.Process == scheduleProcess && t.Key == key })
}

func (c *changes) wake(sql string, id any, r *eventstore.Recorded) {
	c.waked = append(c.waked, statement{sql, []any{id, r.OccurredAt, r.Position, r.OrganisationID.String()}})
	c.p.wakeups.Add(r.Shard, runProcess, r.OccurredAt)
}

func (c *changes) schedule(process, key string, due time.Time, r *eventstore.Recorded) {
	c.tasks = append(c.tasks, processes.TaskOf(process, key, due, r))
}

// run returns what the batch does to a run.
func (c *changes) run(id uuid.UUID) *activeRun {
	run := c.runs[id]
	if run == nil {
		run = &activeRun{}
		c.runs[id] = run
	}
	return run
}

// addTo adds the statements to a batch.
func (c *changes) addTo(b *pgx.Batch) {
	for _, s := range c.statements {
		b.Queue(s.sql, s.args...)
	}
	c.addRuns(b)
	c.addContacts(b)
	for _, s := range c.waked {
		b.Queue(s.sql, s.args...)
	}
	c.p.wakeups.Schedule(b, c.tasks...)
}

func (c *changes) addRuns(b *pgx.Batch) {
	var (
		started, workflows, updated, finished []uuid.UUID
		contacts, over                        []string
		shards                                []int16
		positions                             []int64
		startedSince, updatedSince            []*int64
		startedStep, updatedStep              []*int
		startedResume, updatedResume          []*time.Time
	)
	for _, id := range slices.SortedFunc(maps.Keys(c.runs), func(x, y uuid.UUID) int { return strings.Compare(x.String(), y.String()) }) {
		run := c.runs[id]
		switch {
		case run.finished && run.started != nil: // the table never knew it
			continue
		case run.finished:
			finished, over = append(finished, id), append(over, id.String())
			continue
		case run.started != nil:
			started, workflows, contacts = append(started, id), append(workflows, run.started.WorkflowID), append(contacts, run.started.ContactID)
			shards = append(shards, int16(run.shard)) //nolint:gosec // there are at most 1,024
			positions = append(positions, run.startedPosition)
			startedSince, startedStep = append(startedSince, run.awaitsSince), append(startedStep, run.awaitsStep)
			startedResume = append(startedResume, run.resumeAt)
			// The task takes all further steps of the run: it needs no other event to be scheduled again.
			c.tasks = append(c.tasks, tasks.Task{Process: runProcess, Key: id.String(), Owner: run.owner, Shard: run.shard, DueAt: run.startedAt, Position: run.startedPosition})
		case run.hasChanged:
			updated, updatedSince = append(updated, id), append(updatedSince, run.awaitsSince)
			updatedStep, updatedResume = append(updatedStep, run.awaitsStep), append(updatedResume, run.resumeAt)
		}
	}
	if len(started) > 0 {
		b.Queue(insertRunsSQL, started, workflows, contacts, shards, positions, startedSince, startedStep, startedResume)
	}
	if len(updated) > 0 {
		b.Queue(updateRunsSQL, updated, updatedSince, updatedStep, updatedResume)
	}
	if len(finished) > 0 {
		b.Queue(deleteRunsSQL, finished)
		b.Queue(dropTasksSQL, runProcess, over)
	}
}

// addContacts marks the runs of contacts that replied, opted out or were erased, or whose agent has ended.
func (c *changes) addContacts(b *pgx.Batch) {
	var contacts, owners []string
	var last *eventstore.Recorded
	if len(c.replies) > 0 {
		var ids, messages []string
		var positions []int64
		for _, one := range c.replies {
			ids, messages, positions = append(ids, one.contactID), append(messages, one.messageID), append(positions, one.at.Position)
			owners = append(owners, one.at.OrganisationID.String())
			last = one.at
		}
		b.Queue(replySQL, ids, messages, positions)
		contacts = append(contacts, ids...)
	}
	if len(c.cancelled) > 0 {
		var ids, codes []string
		var positions []int64
		for _, one := range c.cancelled {
			ids, codes, positions = append(ids, one.contactID), append(codes, one.code), append(positions, one.at.Position)
			owners = append(owners, one.at.OrganisationID.String())
			last = one.at
		}
		b.Queue(cancelSQL, ids, positions, codes)
		contacts = append(contacts, ids...)
	}
	if len(c.agentEnded) > 0 {
		var ids []string
		for _, one := range c.agentEnded {
			ids, owners, last = append(ids, one.contactID), append(owners, one.at.OrganisationID.String()), one.at
		}
		b.Queue(agentEndedSQL, ids)
		contacts = append(contacts, ids...)
	}
	if last != nil {
		b.Queue(wakeContactsSQL, contacts, last.OccurredAt, last.Position, owners)
		c.p.wakeups.Add(last.Shard, runProcess, last.OccurredAt)
	}
}
