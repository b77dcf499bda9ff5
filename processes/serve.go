package processes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/commands"
	"ledgerline/commands/sending"
	"ledgerline/domain/fault"
	"ledgerline/domain/message"
	"ledgerline/domain/rules"
	"ledgerline/events"
	"ledgerline/processes/carrier"
	"ledgerline/processes/tasks"
)

const outboxSQL = `select o.message_id, o.position, o.automatic, o.cancel, coalesce(w.queue, ''), coalesce(w.stage, '')
	from sending_outbox o left join sending_waiting w on w.contact_id = $1
	where o.contact_id = $1 and o.position > $2 order by o.position limit $3`

// opened is a message that is still open, and where it was accepted.
type opened struct {
	MessageID string
	Position  int64
	Automatic bool
	Cancel    *string // the error code with which it is to fail
	place             // of its contact in a queue for room, when that was read; empty for none
}

func (s *Sending) outbox(ctx context.Context, contactID string, after int64) ([]opened, error) {
	rows, err := s.ledger.Pool().Query(ctx, outboxSQL, contactID, after, outboxPage)
	if err != nil {
		return nil, fmt.Errorf("processes: outbox: %w", err)
	}
	open, err := pgx.CollectRows(rows, pgx.RowToStructByPos[opened])
	if err != nil {
		return nil, fmt.Errorf("processes: outbox: %w", err)
	}
	return open, nil
}

// serving is one turn of a contact.
type serving struct {
	task    tasks.Leased
	next    *time.Time // when it goes on
	blocked bool       // something holds the contact or its line, or is tried again: nothing passes it but automatic texts
	behind  []string   // what waits because of that, and is still to be told so
	none    bool       // nothing is open
	place   place      // in a queue for room, where the contact stood before and has not left it to send
	queued  bool       // it has a place now
}

// goOn has the contact served again at a time, at the latest; the zero time asks for nothing.
func (turn *serving) goOn(at time.Time) {
	if !at.IsZero() && (turn.next == nil || at.Before(*turn.next)) {
		turn.next = &at
	}
}

// serve drains one contact's open messages in the order in which they were accepted (decisions, section 7).
func (s *Sending) serve(ctx context.Context, task tasks.Leased) (tasks.Result, error) {
	turn := serving{task: task}
	for after := int64(0); ; {
		open, err := s.outbox(ctx, task.Key, after)
		if err != nil {
			return tasks.Finished, err
		}
		if after == 0 {
			turn.none = len(open) == 0
			if !turn.none {
				turn.place = open[0].place
			}
		}
		for _, o := range open {
			if err := s.serveOne(ctx, &turn, o); err != nil {
				return tasks.Finished, err
			}
		}
		if err := s.holdBehind(ctx, &turn); err != nil {
			return tasks.Finished, err
		}
		if len(open) < outboxPage {
			break
		}
		after = open[len(open)-1].Position
	}
	if (turn.place.Queue != "" || turn.none) && !turn.queued {
		if err := s.leaveQueue(ctx, &turn, false); err != nil {
			return tasks.Finished, err
		}
	}
	if turn.next != nil {
		return tasks.RunAgain(*turn.next), nil
	}
	return tasks.Finished, nil
}

func (s *Sending) serveOne(ctx context.Context, turn *serving, o opened) error {
	if o.Cancel != nil {
		_, _, err := s.app.Sending.CancelMessage(ctx, s.request(uuid.Nil), o.MessageID, *o.Cancel, nil)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	if turn.blocked && !o.Automatic {
		turn.behind = append(turn.behind, o.MessageID)
		return nil
	}
	t, err := s.bring(ctx, turn, o)
	if err != nil || t.Step != sending.Wait {
		return err
	}
	turn.goOn(t.Until)
	// An automatic text answers what the contact just asked: it waits for its line alone, and holds up nobody.
	turn.blocked = turn.blocked || !t.StepsAside && !o.Automatic
	switch {
	case t.Queue != nil:
		turn.queued = true
		return s.wait(ctx, turn, o, &t)
	case turn.place.Queue != "" && !turn.queued && t.Message.Deferred != nil && t.Message.Deferred.Reason == rules.ReasonQuietHours:
		turn.queued = true
		return s.rest(ctx, turn, o, &t, stageQuiet, t.Until)
	}
	return nil
}

// holdBehind tells what waits behind another message.
func (s *Sending) holdBehind(ctx context.Context, turn *serving) error {
	if len(turn.behind) == 0 {
		return nil
	}
	due, unsettled, err := s.app.Sending.HoldBehind(ctx, s.request(uuid.Nil), turn.behind)
	turn.goOn(due)
	turn.behind = turn.behind[:0]
	if err != nil {
		return err
	}
	for _, id := range unsettled {
		if err := s.settle(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// settle finds out what became of an attempt that has no outcome, and goes no further: the message is behind another one.
func (s *Sending) settle(ctx context.Context, messageID string) error {
	by := s.request(uuid.Nil)
	t, err := s.app.Sending.BeginAttempt(ctx, by, sending.Begin{MessageID: messageID})
	if err != nil || t.Step != sending.Reconcile {
		return err
	}
	outcome, err := s.ask(ctx, &t)
	if err != nil {
		return err
	}
	_, _, err = s.app.Sending.CompleteAttempt(context.WithoutCancel(ctx), by, messageID, t.Number, outcome)
	return err
}

// bring takes one message as far as it goes now.
func (s *Sending) bring(ctx context.Context, turn *serving, o opened) (sending.Attempt, error) {
	by := s.request(uuid.Nil)
	for {
		t, err := s.app.Sending.BeginAttempt(ctx, by, sending.Begin{MessageID: o.MessageID, Ahead: s.ahead(turn, o), Before: s.before(o)})
		if fault.Is(err, fault.NotFound) {
			return sending.Attempt{}, nil
		}
		if err != nil {
			return t, err
		}
		var outcome sending.AttemptOutcome
		switch t.Step {
		case sending.Done, sending.Wait:
			return t, nil
		case sending.Send:
			if turn.place.Queue != "" && !o.Automatic { // it has its room now, and takes none in the queue
				if err := s.leaveQueue(ctx, turn, true); err != nil {
					return t, err
				}
			}
			if outcome, err = s.hand(ctx, &t); err != nil {
				return t, err // it is unknown whether the carrier has it: the next turn asks
			}
		case sending.Reconcile:
			if outcome, err = s.ask(ctx, &t); err != nil {
				return t, err
			}
		}
		// What the carrier did must be told even if this worker is being stopped.
		after, _, err := s.app.Sending.CompleteAttempt(context.WithoutCancel(ctx), by, o.MessageID, t.Number, outcome)
		if err != nil || after.Final() {
			return sending.Attempt{}, err
		}
	}
}

func (s *Sending) request(cause uuid.UUID) commands.Request {
	return commands.Request{Actor: events.Actor{Type: "system", ID: sendingProcess}, Causation: cause}
}

// outgoing is what a message's carrier is told, whenever it is asked about it.
func outgoing(t *sending.Attempt) carrier.Outbound {
	m := &t.Message
	return carrier.Outbound{
		MessageID: m.MessageID, LineID: t.Line.ID, From: m.FromNumber, To: m.Content.To, Body: m.Content.Body, Media: m.Content.Media,
		Channel: m.Channel, Automatic: m.Automatic != "", IsTest: m.IsTest,
	}
}

// hand gives the message to the carrier of its line.
func (s *Sending) hand(ctx context.Context, t *sending.Attempt) (sending.AttemptOutcome, error) {
	to, err := s.carriers.Named(t.Line.Carrier)
	if err != nil {
		return sending.AttemptOutcome{}, err
	}
	var chat *bool
	if m := &t.Message; m.Channel == message.Chat {
		reachable, asked, err := s.onChat(ctx, to, t)
		if err != nil {
			return sending.AttemptOutcome{Retry: "reachability_unknown"}, nil //nolint:nilerr // nothing was sent: it is tried again
		}
		if asked {
			chat = &reachable
		}
		if !reachable {
			return sending.AttemptOutcome{Chat: chat, Failed: &sending.AttemptFailed{Code: message.CodeNotOnChat}}, nil
		}
	}
	if may, err := s.app.Sending.MayStillLeave(ctx, t); err != nil || !may {
		return sending.AttemptOutcome{Chat: chat, Lost: true}, err
	}
	accepted, err := to.Send(ctx, outgoing(t))
	rejected := (*carrier.Rejected)(nil)
	switch {
	case err == nil:
		return sending.AttemptOutcome{Chat: chat, Sent: &sending.AttemptSent{CarrierID: accepted.CarrierID}}, nil
	case errors.As(err, &rejected):
		if rejected.Code == message.CodeNotOnChat {
			off := false
			chat = &off
		}
		return sending.AttemptOutcome{Chat: chat, Failed: &sending.AttemptFailed{Code: rejected.Code}}, nil
	case errors.Is(err, carrier.ErrTransient):
		return sending.AttemptOutcome{Chat: chat, Retry: "carrier_unavailable"}, nil
	}
	return sending.AttemptOutcome{}, fmt.Errorf("processes: send: %w", err)
}

// onChat tells whether the message's number is on the chat channel: from the memory that lookups share, or by asking
// the carrier. A carrier that cannot tell shows it by sending.
func (s *Sending) onChat(ctx context.Context, to carrier.Carrier, t *sending.Attempt) (reachable, asked bool, err error) {
	m := &t.Message
	known, found, err := s.app.Sending.Capability(ctx, m.Organisation, m.Content.To)
	if err != nil || found {
		return known.OnChat, false, err
	}
	reachable, err = to.Reachable(ctx, carrier.Line{ID: t.Line.ID, Phone: m.FromNumber}, m.Content.To)
	if errors.Is(err, carrier.ErrReachabilityUnknown) {
		return true, false, nil
	}
	return reachable, true, err
}

// ask finds out from the carrier what became of an attempt whose outcome was never told.
func (s *Sending) ask(ctx context.Context, t *sending.Attempt) (sending.AttemptOutcome, error) {
	to, err := s.carriers.Named(t.Line.Carrier)
	if err != nil {
		return sending.AttemptOutcome{}, err
	}
	accepted, found, err := to.Lookup(ctx, outgoing(t))
	if err != nil {
		return sending.AttemptOutcome{}, fmt.Errorf("processes: reconcile: %w", err)
	}
	if !found {
		return sending.AttemptOutcome{Lost: true}, nil
	}
	return sending.AttemptOutcome{Sent: &sending.AttemptSent{CarrierID: accepted.CarrierID, Reconciled: true}}, nil
}
