package processes

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/clock"
	"ledgerline/commands"
	"ledgerline/domain/fault"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/processes/tasks"
	"ledgerline/projections"
)

// Leaving takes the conversations of somebody who is no member of a workspace any more from them, so that others see them
// again. The key is the user in the workspace; whether the membership has really ended is asked of the user.
type Leaving struct {
	single
	app   *commands.App
	store *projections.Store
	clock clock.Clock
}

const (
	leavingProcess = "leaving"
	// leavingPage is how many conversations are taken away in one turn.
	leavingPage = 200
)

// LeavingConfig says what the process needs.
type LeavingConfig struct {
	App    *commands.App
	Ledger *eventstore.Ledger
	Store  *projections.Store
	Clock  clock.Clock
	Lease  time.Duration // see tasks.RunnerConfig
	Logger *slog.Logger
}

// NewLeaving prepares the process. Run it beside a feed that carries its Consumer.
func NewLeaving(cfg LeavingConfig) (*Leaving, error) {
	l := &Leaving{app: cfg.App, store: cfg.Store, clock: cfg.Clock}
	var err error
	l.single, err = newSingle(tasks.RunnerConfig{
		Pool: cfg.Ledger.Pool(), Clock: cfg.Clock, Process: leavingProcess, Work: l.work, Workers: 2, Lease: cfg.Lease, Logger: cfg.Logger,
	})
	return l, err
}

// Name implements feed.Consumer.
func (l *Leaving) Name() string { return "process_leaving" }

// Types implements feed.Consumer.
func (l *Leaving) Types() []string { return events.NamesOf((*events.RoleRevoked)(nil)) }

// Write implements feed.Consumer.
func (l *Leaving) Write(b *pgx.Batch, _ int, recorded []eventstore.Recorded) error {
	var asks []tasks.Task
	for i := range recorded {
		r := &recorded[i]
		if e, ok := r.Event.(*events.RoleRevoked); ok {
			key := r.OrganisationID.String() + "/" + e.WorkspaceID.String() + "/" + e.UserID.String()
			asks = append(asks, tasks.Task{Process: leavingProcess, Key: key, Shard: r.Shard, DueAt: r.OccurredAt, Position: r.Position})
		}
	}
	l.wakeups.Schedule(b, asks...)
	return nil
}

func (l *Leaving) work(ctx context.Context, task tasks.Leased) (tasks.Result, error) {
	var ids [3]uuid.UUID // organisation, workspace, user
	parts := strings.Split(task.Key, "/")
	if len(parts) != len(ids) {
		return tasks.Finished, fmt.Errorf("processes: %q is not the key of a membership", task.Key)
	}
	for i, part := range parts {
		var err error
		if ids[i], err = uuid.Parse(part); err != nil {
			return tasks.Finished, fmt.Errorf("processes: the key of a membership: %w", err)
		}
	}
	by := commands.Request{Organisation: ids[0], Workspace: ids[1], Actor: events.Actor{Type: "system", ID: leavingProcess}}
	if err := l.store.Reached(ctx, task.Shard, task.Position, projections.Conversations); err != nil {
		return tasks.Finished, err
	}
	theirs, err := l.store.AssignedTo(ctx, ids[1], ids[2], leavingPage)
	if err != nil {
		return tasks.Finished, err
	}
	reached, progress := task.Position, false
	for _, id := range theirs {
		r, taken, err := l.app.UnassignFormer(ctx, by, id, ids[2])
		switch {
		case fault.Is(err, fault.NotFound): // its contact was erased
		case err != nil:
			return tasks.Finished, err
		case taken:
			reached, progress = max(reached, r.Position), true
		}
	}
	if len(theirs) < leavingPage || !progress { // a member again, perhaps
		return tasks.Finished, nil
	}
	if err := l.store.Reached(ctx, task.Shard, reached, projections.Conversations); err != nil { // or they would be found again
		return tasks.Finished, err
	}
	return tasks.RunAgain(l.clock.Now()), nil
}
