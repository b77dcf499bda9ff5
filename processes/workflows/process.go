// Package workflows runs the workflows of workspaces (rules WFL-17 to WFL-28).
//
// The consumer of the feed decides which triggers an event fires, in the order of the ledger. It keeps its own tables
// of published workflows and of active runs as of its checkpoint, and schedules tasks:
//
//   - workflow_starts: a version and a cause (a message, a contact). The task starts the run.
//   - workflow_schedules: a workflow with a schedule. The task starts a run for each contact of the segment.
//   - workflow_runs: a run. The task takes the steps that are due.
//
// Every task decides by the ledger. A run starts once, because its id depends on its cause; a step happens once,
// because it is appended to the run's stream together with what it does.
package workflows

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/clock"
	"ledgerline/commands"
	"ledgerline/domain/fault"
	"ledgerline/domain/segment"
	"ledgerline/domain/workflow"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/processes"
	"ledgerline/processes/tasks"
	"ledgerline/projections"
)

// The processes by which tasks are named.
const (
	startProcess    = "workflow_starts"
	scheduleProcess = "workflow_schedules"
	runProcess      = "workflow_runs"
)

// Process implements processes.Process.
type Process struct {
	app     *commands.App
	store   *projections.Store
	ledger  *eventstore.Ledger
	clock   clock.Clock
	log     *slog.Logger
	runners []*tasks.Runner
	wakeups *tasks.Wakeups

	mu      sync.Mutex
	indexes map[uuid.UUID]workspaceIndex // by workspace
}

var _ processes.Process = (*Process)(nil)

// New makes the process.
func New(cfg processes.Config) (*Process, error) {
	p := &Process{
		app: cfg.App, store: cfg.Store, ledger: cfg.Ledger, clock: cfg.Clock, log: cfg.Logger, indexes: map[uuid.UUID]workspaceIndex{},
	}
	var err error
	p.runners, p.wakeups, err = cfg.NewRunners(
		tasks.RunnerConfig{Process: startProcess, Work: p.start, Workers: 32},
		tasks.RunnerConfig{Process: scheduleProcess, Work: p.fire, Workers: 4},
		tasks.RunnerConfig{Process: runProcess, Work: p.advance, Workers: 64},
	)
	return p, err
}

// Name implements feed.Consumer.
func (*Process) Name() string { return "process_workflows" }

// Types implements feed.Consumer.
func (*Process) Types() []string { return handlers.Types() }

// Write implements feed.Consumer. The feed calls WriteContext.
func (*Process) Write(*pgx.Batch, int, []eventstore.Recorded) error {
	return errors.New("workflows: Write is not used, WriteContext is")
}

// Committed implements feed.Consumer.
func (p *Process) Committed(b *feed.Batch) { p.wakeups.Send(b.Shard) }

// Run implements processes.Process.
func (p *Process) Run(ctx context.Context) error { return tasks.RunAll(ctx, p.runners...) }

// times returns what a command asks for the times of contacts: the read model, once it shows a position.
func (p *Process) times(shard int, position int64) commands.ContactTimes {
	return func(ctx context.Context, contactID string, into *segment.Contact) error {
		if err := p.store.WaitForPosition(ctx, shard, position, projections.Contacts); err != nil {
			return err
		}
		return p.store.ContactTimes(ctx, contactID, into)
	}
}

// The kinds of causes in the keys of start tasks.
const (
	byMessage = "m"
	byContact = "c"
)

func startKey(versionID uuid.UUID, kind, id string) string {
	return versionID.String() + "/" + kind + "/" + id
}

// start starts the run of a version for a message or a new contact.
func (p *Process) start(ctx context.Context, task tasks.Leased) (tasks.Result, error) {
	parts := strings.Split(task.Key, "/")
	if len(parts) != 3 {
		return tasks.Finished, fmt.Errorf("workflows: %q is not the key of a start", task.Key)
	}
	versionID, err := uuid.Parse(parts[0])
	if err != nil {
		return tasks.Finished, fmt.Errorf("workflows: the key of a start: %w", err)
	}
	v, err := p.app.FindVersion(ctx, versionID)
	if err != nil {
		return tasks.Finished, err
	}
	in := commands.StartRun{VersionID: versionID, ContactID: parts[2]}
	if parts[1] == byMessage {
		m, err := p.app.FindMessage(ctx, parts[2])
		if err != nil {
			return tasks.Finished, err
		}
		in.ContactID, in.MessageID = m.ContactID, &m.MessageID
	}
	in.RunID = workflow.RunID(v.WorkflowID, parts[2], task.DueAt)
	_, err = p.app.StartRun(ctx, in, p.times(task.Shard, task.Position))
	return tasks.Finished, err
}

const activeRunSQL = `select coalesce(reply_id, ''), coalesce(awaits_step, 0), coalesce(cancel, '') from workflow_active_runs where run_id = $1`

// advance takes the steps of a run that are due.
func (p *Process) advance(ctx context.Context, task tasks.Leased) (tasks.Result, error) {
	id, err := uuid.Parse(task.Key)
	if err != nil {
		return tasks.Finished, fmt.Errorf("workflows: the key of a run: %w", err)
	}
	var in commands.AdvanceRun
	var reply workflow.Reply
	err = p.ledger.Pool().QueryRow(ctx, activeRunSQL, id).Scan(&reply.MessageID, &reply.Step, &in.Cancel)
	if errors.Is(err, pgx.ErrNoRows) {
		return tasks.Finished, nil
	}
	if err != nil {
		return tasks.Finished, fmt.Errorf("workflows: read a run: %w", err)
	}
	if reply.MessageID != "" {
		in.Reply = &reply
	}
	for {
		run, err := p.app.AdvanceRun(ctx, id, in, p.times(task.Shard, task.Position))
		switch {
		case err != nil:
			return tasks.Finished, err
		case !run.Active, run.Held: // a workflow that resumes schedules its runs again
			return tasks.Finished, nil
		case run.ResumeAt != nil:
			return tasks.RunAgain(*run.ResumeAt), nil
		}
	}
}

// schedulePage is how many contacts of a segment a task run starts runs for.
const schedulePage = 500

// startsAtOnce is how many of these runs are started at the same time.
const startsAtOnce = 32

const (
	scheduleSQL = `select version_id, next_at, reached_position from workflow_schedules where workflow_id = $1`
	reachedSQL  = `update workflow_schedules set reached_position = $4 where workflow_id = $1 and version_id = $2 and next_at = $3`
	moveOnSQL   = `update workflow_schedules set next_at = $4, reached_position = null where workflow_id = $1 and version_id = $2 and next_at = $3`
	endSQL      = `delete from workflow_schedules where workflow_id = $1 and version_id = $2 and next_at = $3`
)

// fire starts the runs of a schedule whose time has come, page by page, and finds out the next time. Times that passed
// meanwhile are one (rule WFL-20).
func (p *Process) fire(ctx context.Context, task tasks.Leased) (tasks.Result, error) {
	id, err := uuid.Parse(task.Key)
	if err != nil {
		return tasks.Finished, fmt.Errorf("workflows: the key of a schedule: %w", err)
	}
	var versionID uuid.UUID
	var next time.Time
	var reached *int64
	pool, now := p.ledger.Pool(), p.clock.Now()
	err = pool.QueryRow(ctx, scheduleSQL, id).Scan(&versionID, &next, &reached)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return tasks.Finished, nil
	case err != nil:
		return tasks.Finished, fmt.Errorf("workflows: read a schedule: %w", err)
	case now.Before(next):
		return tasks.RunAgain(next), nil
	}
	v, err := p.app.FindVersion(ctx, versionID)
	if err != nil {
		return tasks.Finished, err
	}
	last, err := p.startPage(ctx, task.Shard, &v, next, reached)
	if err != nil {
		return tasks.Finished, err
	}
	if last > 0 {
		if _, err := pool.Exec(ctx, reachedSQL, id, versionID, next, last); err != nil {
			return tasks.Finished, fmt.Errorf("workflows: record a schedule: %w", err)
		}
		return tasks.RunAgain(now), nil
	}
	after, again := v.Plan.Trigger.Schedule.Next(now)
	if !again {
		if _, err := pool.Exec(ctx, endSQL, id, versionID, next); err != nil {
			return tasks.Finished, fmt.Errorf("workflows: end a schedule: %w", err)
		}
		return tasks.Finished, nil
	}
	if _, err := pool.Exec(ctx, moveOnSQL, id, versionID, next, after); err != nil {
		return tasks.Finished, fmt.Errorf("workflows: record a schedule: %w", err)
	}
	return tasks.RunAgain(after), nil
}

// startPage starts the runs of the next contacts of a schedule's segment. It returns the position of the last contact;
// 0 when there are no more.
func (p *Process) startPage(ctx context.Context, shard int, v *workflow.Version, at time.Time, reached *int64) (int64, error) {
	if err := p.store.WaitForHead(ctx, shard, projections.Contacts, projections.Segments); err != nil {
		return 0, err
	}
	head, err := p.ledger.Head(ctx, shard)
	if err != nil {
		return 0, err
	}
	contacts, err := p.store.SegmentPage(ctx, projections.Viewer{Workspace: v.Workspace, Shard: shard}, v.Plan.Trigger.SegmentID.String(), reached, schedulePage)
	if err != nil || len(contacts) == 0 {
		return 0, err
	}
	errs := make([]error, startsAtOnce)
	queue := make(chan string)
	var starting sync.WaitGroup
	for i := range errs {
		starting.Go(func() {
			for contactID := range queue {
				_, err := p.app.StartRun(ctx, commands.StartRun{
					RunID: workflow.RunID(v.WorkflowID, at.UTC().Format(time.RFC3339Nano)+contactID, at), VersionID: v.ID, ContactID: contactID,
				}, p.times(shard, head))
				if err != nil && !fault.Is(err, fault.NotFound) {
					errs[i] = err
				}
			}
		})
	}
	for _, c := range contacts {
		queue <- c.ID
	}
	close(queue)
	starting.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	if len(contacts) < schedulePage {
		return 0, nil
	}
	return contacts[len(contacts)-1].Position, nil
}
