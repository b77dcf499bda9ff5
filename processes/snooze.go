package processes

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"ledgerline/clock"
	"ledgerline/commands"
	"ledgerline/domain/fault"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/processes/tasks"
)

// Snooze wakes conversations when their time has come. A conversation is the key. Whether it still sleeps, and until
// when, is asked of the conversation itself: one that was opened, closed or put off meanwhile is left alone or waited for.
type Snooze struct {
	single
	app *commands.App
}

const snoozeProcess = "snooze"

// SnoozeConfig says what the process needs.
type SnoozeConfig struct {
	App    *commands.App
	Ledger *eventstore.Ledger
	Clock  clock.Clock
	Lease  time.Duration // of a conversation that is being woken, see tasks.RunnerConfig
	Logger *slog.Logger
}

// NewSnooze prepares the process. Run it beside a feed that carries its Consumer.
func NewSnooze(cfg SnoozeConfig) (*Snooze, error) {
	s := &Snooze{app: cfg.App}
	var err error
	s.single, err = newSingle(tasks.RunnerConfig{
		Pool: cfg.Ledger.Pool(), Clock: cfg.Clock, Process: snoozeProcess, Work: s.work, Workers: 8, Lease: cfg.Lease, Logger: cfg.Logger,
	})
	return s, err
}

// Name implements feed.Consumer.
func (s *Snooze) Name() string { return "process_snooze" }

// Types implements feed.Consumer.
func (s *Snooze) Types() []string { return events.NamesOf((*events.ConversationSnoozed)(nil)) }

// Write implements feed.Consumer.
func (s *Snooze) Write(b *pgx.Batch, _ int, recorded []eventstore.Recorded) error {
	var asks []tasks.Task
	for i := range recorded {
		r := &recorded[i]
		if e, ok := r.Event.(*events.ConversationSnoozed); ok {
			asks = append(asks, tasks.Task{Process: snoozeProcess, Key: e.ConversationID, Shard: r.Shard, DueAt: e.Until, Position: r.Position})
		}
	}
	s.wakeups.Schedule(b, asks...)
	return nil
}

func (s *Snooze) work(ctx context.Context, task tasks.Leased) (tasks.Result, error) {
	until, err := s.app.WakeConversation(ctx, commands.Request{Actor: events.Actor{Type: "system", ID: snoozeProcess}}, task.Key)
	switch {
	case fault.Is(err, fault.NotFound): // its contact was erased
		return tasks.Finished, nil
	case err != nil:
		return tasks.Finished, err
	case until != nil:
		return tasks.RunAgain(*until), nil
	}
	return tasks.Finished, nil
}
