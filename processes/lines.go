package processes

import (
	"context"
	"time"

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

// Lines ends the warm-up of lines, scores their health, and counts contacts that do not answer (rules LIN-14 to
// LIN-22). A line is evaluated when an event on it can change its health or state, and when a usage day begins.
type Lines struct {
	scheduler
	app   *commands.App
	store *projections.Store
	clock clock.Clock
}

const (
	linesProcess      = "lines"      // one task for each line that can still change by itself
	unansweredProcess = "unanswered" // one task for each first message to a contact, by its message id
	// unansweredAfter is when a delivered first message counts as unanswered (rule LIN-15).
	unansweredAfter = 24 * time.Hour
)

// NewLines makes the process.
func NewLines(cfg Config) (*Lines, error) {
	l := &Lines{app: cfg.App, store: cfg.Store, clock: cfg.Clock}
	var err error
	l.scheduler, err = newScheduler(&cfg, lineHandlers,
		tasks.RunnerConfig{Process: linesProcess, Work: l.evaluate, Workers: 2},
		tasks.RunnerConfig{Process: unansweredProcess, Work: l.countUnanswered, Workers: 4},
	)
	return l, err
}

var lineHandlers = feed.NewHandlers(
	feed.On(func(s *schedule, e *events.LineProvisioned, r *eventstore.Recorded) { s.evaluateLine(e.LineID, r) }),
	feed.On(func(s *schedule, e *events.LineStateChanged, r *eventstore.Recorded) { s.evaluateLine(e.LineID, r) }),
	feed.On(func(s *schedule, e *events.MessageRouted, r *eventstore.Recorded) {
		if e.NewContact {
			s.evaluateLine(e.LineID, r)
		}
	}),
	feed.On(func(s *schedule, e *events.MessageFailed, r *eventstore.Recorded) {
		if e.LineID != nil && !e.IsTest && projections.FailedOnLine(e.Code) {
			s.evaluateLine(*e.LineID, r)
		}
	}),
	feed.On(func(s *schedule, e *events.MessageDelivered, r *eventstore.Recorded) {
		if e.LineID != "" {
			s.add(unansweredProcess, e.MessageID, r.OccurredAt.Add(unansweredAfter), r)
		}
	}),
	feed.On(func(s *schedule, e *events.ContactOptedOut, r *eventstore.Recorded) {
		if e.LineID != nil && !e.Register {
			s.evaluateLine(*e.LineID, r)
		}
	}),
	feed.On(func(s *schedule, e *events.ContactReplied, r *eventstore.Recorded) {
		for _, answer := range e.Answers {
			s.evaluateLine(answer.LineID, r)
		}
	}),
)

func (s *schedule) evaluateLine(lineID string, r *eventstore.Recorded) {
	s.add(linesProcess, lineID, r.OccurredAt, r)
}

// Name implements feed.Consumer.
func (*Lines) Name() string { return "process_lines" }

// Types implements feed.Consumer.
func (*Lines) Types() []string { return lineHandlers.Types() }

func (l *Lines) request() commands.Request {
	return commands.Request{Actor: events.Actor{Type: "system", ID: linesProcess}}
}

// evaluate scores the health of a line by all that was counted up to the event that scheduled the task.
func (l *Lines) evaluate(ctx context.Context, task tasks.Leased) (tasks.Result, error) {
	if err := l.store.WaitForPosition(ctx, task.Shard, task.Position, projections.Usage); err != nil {
		return tasks.Finished, err
	}
	now := l.clock.Now()
	facts, err := l.store.LineFacts(ctx, task.Key, now)
	if err != nil {
		return tasks.Finished, err
	}
	inService, err := l.app.UpdateLineHealth(ctx, l.request(), task.Key, facts)
	if err != nil || !inService {
		return tasks.Finished, err
	}
	return tasks.RunAgain(line.DayOf(now).End), nil
}

// countUnanswered counts a first message that was not answered in time.
func (l *Lines) countUnanswered(ctx context.Context, task tasks.Leased) (tasks.Result, error) {
	if l.clock.Now().Before(task.DueAt) {
		return tasks.RunAgain(task.DueAt), nil
	}
	_, err := l.app.Sending.RecordUnanswered(ctx, l.request(), task.Key)
	if fault.Is(err, fault.NotFound) {
		err = nil
	}
	return tasks.Finished, err
}
