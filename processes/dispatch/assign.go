package dispatch

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/fault"
	"ledgerline/domain/line"
	"ledgerline/domain/rules"
	"ledgerline/events"
	"ledgerline/processes/tasks"
)

const (
	// assignBatch is how many entries are evaluated before the capacity that was not used goes to the next ones.
	assignBatch = 64
	// assignWorkers is how many entries are evaluated at the same time.
	assignWorkers = 8
	// assignMost bounds a task run, so that its lease is not held for long; the next run goes on.
	assignMost = 2000
)

// assign gives the free capacity of a workspace's lines to the messages that wait for it, first come, first served
// (rule SND-22). It reads lines and usage once, walks the entries in the order of their ranks while some line has
// capacity for them, and appends for each the line with its reserved capacity (message.routed). The contact's task then
// begins the attempt.
//
// The plan (rules.Capacity) only decides which entries to evaluate. The command evaluates each by all rules, and the
// quotas of its append decide whether the capacity is there. Two kinds of entries get no capacity: those that now wait
// for something else, and those that another node or an earlier run has assigned already, which the consumer has not
// removed from the queue yet. The next entries of the same run get the capacity that was planned for them.
func (p *Process) assign(ctx context.Context, task tasks.Leased) (tasks.Result, error) {
	organisation, workspace, err := parseWorkspaceKey(task.Key)
	if err != nil {
		return tasks.Finished, err
	}
	groups, err := p.groups(ctx, workspace)
	if err != nil || len(groups) == 0 {
		return tasks.Finished, err
	}
	now := p.clock.Now()
	wants := make([]*events.WantedCapacity, len(groups))
	for i := range groups {
		wants[i] = groups[i].Wants
	}
	capacity, err := p.app.Sending.Capacity(ctx, engine.Request{Organisation: organisation, Workspace: workspace}, wants)
	if err != nil {
		return tasks.Finished, err
	}
	run := &assignRun{process: p, workspace: workspace, capacity: capacity}
	next := line.DayOf(now).End
	if at := capacity.NextAt(); !at.IsZero() && at.Before(next) {
		next = at
	}
	for i := range groups {
		if g := &groups[i]; g.NotBefore.After(now) {
			if g.NotBefore.Before(next) {
				next = g.NotBefore
			}
		} else {
			run.groups = append(run.groups, &groupEntries{group: g})
		}
	}
	done, err := run.assignAll(ctx)
	if err != nil {
		return tasks.Finished, err
	}
	switch hour := now.Add(time.Hour); {
	case !done:
		next = now
	case run.assigned > 0 && hour.Before(next): // the new contacts that were assigned now leave the limit of an hour
		next = hour
	}
	return tasks.RunAgain(next), nil
}

// assignRun is one run of the assign task.
type assignRun struct {
	process   *Process
	workspace uuid.UUID
	capacity  *rules.Capacity
	groups    []*groupEntries
	assigned  int // how many entries got a line
}

// groupEntries is a group with its next entries.
type groupEntries struct {
	*group
	next  []queued
	after int64 // rank of the last entry that was read
	ended bool  // no entries are left
}

// candidate is an entry that the plan has capacity for.
type candidate struct {
	queued
	wants    *events.WantedCapacity
	lineID   string
	assigned bool
}

// assignAll assigns capacity until no entry fits. It reports false when entries are left for another run.
func (r *assignRun) assignAll(ctx context.Context) (done bool, err error) {
	for evaluated := 0; evaluated < assignMost; {
		batch, err := r.pick(ctx)
		if err != nil || len(batch) == 0 {
			return true, err
		}
		if err := r.evaluate(ctx, batch); err != nil {
			return false, err
		}
		for _, c := range batch {
			if c.assigned {
				r.assigned++
			} else {
				r.capacity.Reserve(c.lineID, c.wants, -1)
			}
		}
		evaluated += len(batch)
	}
	return false, nil
}

// pick takes the entries with the lowest ranks that the plan has capacity for, and reserves it in the plan.
func (r *assignRun) pick(ctx context.Context) (batch []*candidate, err error) {
	for len(batch) < assignBatch {
		if err := r.readEntries(ctx); err != nil {
			return nil, err
		}
		var first *groupEntries
		for _, g := range r.groups {
			if len(g.next) > 0 && r.fits(g) && (first == nil || g.next[0].rank < first.next[0].rank) {
				first = g
			}
		}
		if first == nil {
			return batch, nil
		}
		entry := first.next[0]
		first.next = first.next[1:]
		lineID, _ := r.capacity.LineFor(first.Wants)
		r.capacity.Reserve(lineID, first.Wants, 1)
		batch = append(batch, &candidate{queued: entry, wants: first.Wants, lineID: lineID})
	}
	return batch, nil
}

func (r *assignRun) fits(g *groupEntries) bool {
	_, fits := r.capacity.LineFor(g.Wants)
	return fits
}

// readEntries fills the groups that the plan has capacity for and whose entries are used up.
func (r *assignRun) readEntries(ctx context.Context) error {
	var empty []*groupEntries
	for _, g := range r.groups {
		if len(g.next) == 0 && !g.ended && r.fits(g) {
			empty = append(empty, g)
		}
	}
	if len(empty) == 0 {
		return nil
	}
	page := max(2*assignBatch/len(empty), 1)
	groups, after := make([]*group, len(empty)), make([]int64, len(empty))
	for i, g := range empty {
		groups[i], after[i] = g.group, g.after
	}
	found, err := r.process.entries(ctx, r.workspace, groups, after, page)
	if err != nil {
		return err
	}
	for _, q := range found {
		g := empty[q.group]
		g.next, g.after = append(g.next, q), max(g.after, q.rank)
	}
	for _, g := range empty {
		g.ended = len(g.next) < page
	}
	return nil
}

// evaluate evaluates the entries of a batch, several at the same time: the plan has capacity for all of them.
func (r *assignRun) evaluate(ctx context.Context, batch []*candidate) error {
	var group sync.WaitGroup
	errs := make([]error, len(batch))
	slots := make(chan struct{}, assignWorkers)
	for i, c := range batch {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			q := &queueView{process: r.process, workspace: r.workspace, rank: c.rank}
			c.assigned, errs[i] = r.process.app.Sending.Assign(ctx, request(assignProcess), c.messageID, q)
		})
	}
	group.Wait()
	for i, err := range errs {
		if err := r.process.checkEvaluation(ctx, batch[i].messageID, err); err != nil {
			return err
		}
	}
	return nil
}

// checkEvaluation returns an error that concerns all entries, which ends the run. An error that concerns only this
// message is counted and logged, so that the message does not keep the others waiting.
func (p *Process) checkEvaluation(ctx context.Context, messageID string, err error) error {
	switch {
	case err == nil, fault.Is(err, fault.NotFound):
	case fault.Is(err, fault.Unavailable), ctx.Err() != nil:
		return err
	default:
		p.assignFailures.Inc()
		p.log.ErrorContext(ctx, "dispatch: a message that waits for capacity could not be evaluated", "message", messageID, "error", err)
	}
	return nil
}

func parseWorkspaceKey(key string) (organisation, workspace uuid.UUID, err error) {
	one, other, found := strings.Cut(key, "/")
	if !found {
		return organisation, workspace, fmt.Errorf("dispatch: %q is not the key of a workspace", key)
	}
	if organisation, err = uuid.Parse(one); err == nil {
		workspace, err = uuid.Parse(other)
	}
	if err != nil {
		return organisation, workspace, fmt.Errorf("dispatch: %q is not the key of a workspace: %w", key, err)
	}
	return organisation, workspace, nil
}
