package processes

import (
	"context"

	"ledgerline/commands"
	"ledgerline/domain/fault"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/processes/tasks"
)

// Snooze opens snoozed conversations when their snooze ends. The key of a task is the conversation. A task run reads
// the conversation from the ledger: one that was opened or closed meanwhile stays as it is, and one that was snoozed
// for longer is due later.
type Snooze struct {
	scheduler
	app *commands.App
}

const snoozeProcess = "snooze"

// NewSnooze makes the process.
func NewSnooze(cfg Config) (*Snooze, error) {
	s := &Snooze{app: cfg.App}
	var err error
	s.scheduler, err = newScheduler(&cfg, snoozeHandlers, tasks.RunnerConfig{Process: snoozeProcess, Work: s.endSnooze, Workers: 8})
	return s, err
}

var snoozeHandlers = feed.NewHandlers(
	feed.On(func(s *schedule, e *events.ConversationSnoozed, r *eventstore.Recorded) {
		s.add(snoozeProcess, e.ConversationID, e.Until, r)
	}),
)

// Name implements feed.Consumer.
func (*Snooze) Name() string { return "process_snooze" }

// Types implements feed.Consumer.
func (*Snooze) Types() []string { return snoozeHandlers.Types() }

// endSnooze opens the conversation of a task, or runs the task again when the snooze was extended.
func (s *Snooze) endSnooze(ctx context.Context, task tasks.Leased) (tasks.Result, error) {
	until, err := s.app.EndSnooze(ctx, commands.Request{Actor: events.Actor{Type: "system", ID: snoozeProcess}}, task.Key)
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
