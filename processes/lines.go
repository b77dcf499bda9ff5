package processes

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"ledgerline/clock"
	"ledgerline/commands"
	"ledgerline/domain/fault"
	"ledgerline/domain/line"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/processes/tasks"
	"ledgerline/projections"
)

// Lines looks after the lines: it ends warm-ups, scores health, and counts contacts that do not answer. A line is looked at
// when something happens on it that can change its state, and when a usage day begins.
type Lines struct {
	app     *commands.App
	store   *projections.Store
	clock   clock.Clock
	judge   *tasks.Runner
	silent  *tasks.Runner
	wakeups *tasks.Wakeups
}

const (
	linesProcess  = "lines"
	silentProcess = "unanswered" // one key for each first message of a line that may go without an answer
	// silentAfter is when a first message that was delivered counts as unanswered (decisions, section 8).
	silentAfter = 24 * time.Hour
)

// LinesConfig says what the process needs.
type LinesConfig struct {
	App    *commands.App
	Ledger *eventstore.Ledger
	Store  *projections.Store
	Clock  clock.Clock
	Lease  time.Duration
	Logger *slog.Logger
}

// NewLines prepares the process. Run it beside a feed that carries its Consumer.
func NewLines(cfg LinesConfig) (*Lines, error) {
	l := &Lines{app: cfg.App, store: cfg.Store, clock: cfg.Clock}
	var err error
	l.judge, err = tasks.NewRunner(tasks.RunnerConfig{
		Pool: cfg.Ledger.Pool(), Clock: cfg.Clock, Process: linesProcess, Work: l.look, Workers: 2, Lease: cfg.Lease, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	l.silent, err = tasks.NewRunner(tasks.RunnerConfig{
		Pool: cfg.Ledger.Pool(), Clock: cfg.Clock, Process: silentProcess, Work: l.unanswered, Workers: 4, Lease: cfg.Lease, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	l.wakeups = tasks.NewWakeups(l.judge, l.silent)
	return l, nil
}

// Run works until ctx ends.
func (l *Lines) Run(ctx context.Context) error { return runAll(ctx, l.judge, l.silent) }

// Name implements feed.Consumer.
func (l *Lines) Name() string { return "process_lines" }

// Types implements feed.Consumer.
func (l *Lines) Types() []string {
	return events.NamesOf((*events.LineProvisioned)(nil), (*events.LineStateChanged)(nil), (*events.MessageRouted)(nil), (*events.MessageFailed)(nil),
		(*events.MessageDelivered)(nil), (*events.ContactOptedOut)(nil), (*events.ContactReplied)(nil))
}

// Committed implements feed.Consumer.
func (l *Lines) Committed(b *feed.Batch) { l.wakeups.Send(b.Shard) }

// Write implements feed.Consumer.
func (l *Lines) Write(b *pgx.Batch, _ int, recorded []eventstore.Recorded) error {
	var asks []tasks.Task
	for i := range recorded {
		r := &recorded[i]
		for _, lineID := range touched(r) {
			asks = append(asks, tasks.Task{Process: linesProcess, Key: lineID, Shard: r.Shard, DueAt: r.OccurredAt, Position: r.Position})
		}
		if e, ok := r.Event.(*events.MessageDelivered); ok && e.LineID != "" {
			asks = append(asks, tasks.Task{Process: silentProcess, Key: e.MessageID, Shard: r.Shard, DueAt: r.OccurredAt.Add(silentAfter), Position: r.Position})
		}
	}
	l.wakeups.Schedule(b, asks...)
	return nil
}

// touched are the lines whose health or state an event may change.
func touched(r *eventstore.Recorded) []string {
	switch e := r.Event.(type) {
	case *events.LineProvisioned:
		return []string{e.LineID}
	case *events.LineStateChanged:
		return []string{e.LineID}
	case *events.MessageRouted:
		if e.NewContact {
			return []string{e.LineID}
		}
	case *events.MessageFailed:
		if e.LineID != nil && !e.IsTest && projections.FailedOnLine(e.Code) {
			return []string{*e.LineID}
		}
	case *events.ContactOptedOut:
		if e.LineID != nil && !e.Register {
			return []string{*e.LineID}
		}
	case *events.ContactReplied:
		lines := make([]string, len(e.Answers))
		for i, a := range e.Answers {
			lines[i] = a.LineID
		}
		return lines
	}
	return nil
}

func (l *Lines) request() commands.Request {
	return commands.Request{Actor: events.Actor{Type: "system", ID: linesProcess}}
}

// look judges a line by everything that was counted until it was asked for.
func (l *Lines) look(ctx context.Context, task tasks.Leased) (tasks.Result, error) {
	if err := l.store.Reached(ctx, task.Shard, task.Position, projections.Usage); err != nil {
		return tasks.Finished, err
	}
	now := l.clock.Now()
	facts, err := l.store.LineFacts(ctx, task.Key, now)
	if err != nil {
		return tasks.Finished, err
	}
	alive, err := l.app.JudgeLine(ctx, l.request(), task.Key, facts)
	if err != nil || !alive {
		return tasks.Finished, err
	}
	return tasks.RunAgain(line.DayOf(now).End), nil
}

// unanswered counts a first message that had no answer in time.
func (l *Lines) unanswered(ctx context.Context, task tasks.Leased) (tasks.Result, error) {
	if l.clock.Now().Before(task.DueAt) {
		return tasks.RunAgain(task.DueAt), nil
	}
	_, err := l.app.Sending.ContactUnanswered(ctx, l.request(), task.Key)
	if fault.Is(err, fault.NotFound) {
		err = nil
	}
	return tasks.Finished, err
}
