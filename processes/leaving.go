package processes

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"ledgerline/clock"
	"ledgerline/commands"
	"ledgerline/domain/fault"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/processes/tasks"
	"ledgerline/projections"
)

// Leaving unassigns the conversations of users who have left a workspace, so that other members see them again. The key
// of a task is a membership: organisation, workspace and user. The command checks in the ledger that it has really
// ended.
type Leaving struct {
	scheduler
	app   *commands.App
	store *projections.Store
	clock clock.Clock
}

const (
	leavingProcess = "leaving"
	// leavingPage is how many conversations a task run unassigns.
	leavingPage = 200
)

// NewLeaving makes the process.
func NewLeaving(cfg Config) (*Leaving, error) {
	l := &Leaving{app: cfg.App, store: cfg.Store, clock: cfg.Clock}
	var err error
	l.scheduler, err = newScheduler(&cfg, leavingHandlers, tasks.RunnerConfig{Process: leavingProcess, Work: l.unassign, Workers: 2})
	return l, err
}

var leavingHandlers = feed.NewHandlers(
	feed.On(func(s *schedule, e *events.RoleRevoked, r *eventstore.Recorded) {
		s.add(leavingProcess, membershipKey(r.OrganisationID, e.WorkspaceID, e.UserID), r.OccurredAt, r)
	}),
)

// Name implements feed.Consumer.
func (*Leaving) Name() string { return "process_leaving" }

// Types implements feed.Consumer.
func (*Leaving) Types() []string { return leavingHandlers.Types() }

func membershipKey(organisation, workspace, user uuid.UUID) string {
	return organisation.String() + "/" + workspace.String() + "/" + user.String()
}

func parseMembershipKey(key string) (organisation, workspace, user uuid.UUID, err error) {
	var ids [3]uuid.UUID
	parts := strings.Split(key, "/")
	if len(parts) != len(ids) {
		return uuid.Nil, uuid.Nil, uuid.Nil, fmt.Errorf("processes: %q is not the key of a membership", key)
	}
	for i, part := range parts {
		if ids[i], err = uuid.Parse(part); err != nil {
			return uuid.Nil, uuid.Nil, uuid.Nil, fmt.Errorf("processes: the key of a membership: %w", err)
		}
	}
	return ids[0], ids[1], ids[2], nil
}

func (l *Leaving) unassign(ctx context.Context, task tasks.Leased) (tasks.Result, error) {
	organisation, workspace, user, err := parseMembershipKey(task.Key)
	if err != nil {
		return tasks.Finished, err
	}
	by := commands.Request{Organisation: organisation, Workspace: workspace, Actor: events.Actor{Type: "system", ID: leavingProcess}}
	if err := l.store.WaitForPosition(ctx, task.Shard, task.Position, projections.Conversations); err != nil {
		return tasks.Finished, err
	}
	conversations, err := l.store.AssignedTo(ctx, workspace, user, leavingPage)
	if err != nil {
		return tasks.Finished, err
	}
	position, progress := task.Position, false
	for _, id := range conversations {
		r, unassigned, err := l.app.UnassignFormerMember(ctx, by, id, user)
		switch {
		case fault.Is(err, fault.NotFound): // its contact was erased
		case err != nil:
			return tasks.Finished, err
		case unassigned:
			position, progress = max(position, r.Position), true
		}
	}
	if len(conversations) < leavingPage || !progress { // without progress the user may be a member again
		return tasks.Finished, nil
	}
	// Otherwise the next run would read the same conversations.
	if err := l.store.WaitForPosition(ctx, task.Shard, position, projections.Conversations); err != nil {
		return tasks.Finished, err
	}
	return tasks.RunAgain(l.clock.Now()), nil
}
