package sending

import (
	"cmp"
	"context"
	"time"

	"ledgerline/commands/engine"
	"ledgerline/domain/exchange"
	"ledgerline/domain/fault"
	"ledgerline/domain/message"
	"ledgerline/domain/organisation"
	"ledgerline/domain/smsconnection"
	"ledgerline/events"
)

// CancelByRequest cancels a message (rule SND-9). A message with an attempt in flight or in a final status is refused
// with conflict. A success without an effect would be stored under the request's idempotency key. A test key is refused
// for a live message.
func (s *Sender) CancelByRequest(ctx context.Context, req engine.Request, messageID string) (engine.Result, error) {
	var result engine.Result
	err := s.onMessage(ctx, req, messageID, &result, func(ctx context.Context, u *unit, m *engine.Aggregate[message.Message]) error {
		if c, err := engine.Load(ctx, u.Unit, u.Engine.Contacts, m.State.ContactID); err != nil || !c.State.Exists() {
			return cmp.Or(err, engine.NotFound("message")) // a message is erased with its contact
		}
		if req.Test && !m.State.IsTest {
			return fault.New(fault.Forbidden, "A test key cancels test messages only.")
		}
		canceled, err := m.State.CancelByRequest()
		m.Record(canceled...)
		return err
	})
	return result, err
}

// Cancel fails a message that no carrier can have yet (rule SND-5). A message with an attempt in flight or in a final
// status stays as it is.
func (s *Sender) Cancel(
	ctx context.Context, req engine.Request, messageID, code string, details map[string]any,
) (message.Message, engine.Result, error) {
	return s.change(ctx, req, messageID, func(m message.Message, _ time.Time) []events.Event { return m.Cancel(code, details) })
}

// DeferBehindEarlier records that messages wait behind an earlier message to the same contact. due is the earliest time
// at which one of them has to be evaluated, because its send_at comes or its deferral expires; the zero time for never.
// inFlight are the ids of the messages with an attempt in flight: the caller looks them up at the carrier, although an
// earlier message waits. For a message that is deferred already, nothing is appended.
func (s *Sender) DeferBehindEarlier(
	ctx context.Context, req engine.Request, messageIDs []string,
) (due time.Time, inFlight []string, err error) {
	known, err := s.engine.Messages.FindMany(ctx, messageIDs)
	if err != nil {
		return due, nil, err
	}
	now := s.engine.Ledger.Now()
	for i := range known {
		m := &known[i]
		if m.Final() { // the outbox does not reflect the newest events of the message yet
			continue
		}
		if m.Status == message.Scheduled && now.Before(m.NotBefore) {
			if due.IsZero() || m.NotBefore.Before(due) {
				due = m.NotBefore
			}
			continue
		}
		if m.InFlight {
			inFlight = append(inFlight, m.MessageID)
		}
		if ends := m.DeferralExpiresAt(); ends.After(now) && (due.IsZero() || ends.Before(due)) {
			due = ends
		}
		if len(m.DeferBehindEarlier(now)) == 0 {
			continue
		}
		_, _, err := s.change(ctx, req, m.MessageID, func(m message.Message, now time.Time) []events.Event {
			return m.DeferBehindEarlier(now)
		})
		if err != nil && !fault.Is(err, fault.NotFound) {
			return due, nil, err
		}
	}
	return due, inFlight, nil
}

// change runs a decision on a message and records its events.
func (s *Sender) change(
	ctx context.Context, req engine.Request, messageID string, decide func(message.Message, time.Time) []events.Event,
) (message.Message, engine.Result, error) {
	before := func(context.Context, *unit, *engine.Aggregate[message.Message]) error { return nil }
	return s.changeAfter(ctx, req, messageID, before, decide)
}

// changeAfter is change with another function, before, that runs first and records events in the same append.
func (s *Sender) changeAfter(
	ctx context.Context, req engine.Request, messageID string,
	before func(context.Context, *unit, *engine.Aggregate[message.Message]) error,
	decide func(message.Message, time.Time) []events.Event,
) (message.Message, engine.Result, error) {
	var after message.Message
	var result engine.Result
	err := s.onMessage(ctx, req, messageID, &result, func(ctx context.Context, u *unit, m *engine.Aggregate[message.Message]) error {
		if err := before(ctx, u, m); err != nil {
			return err
		}
		decided, err := u.fallBack(ctx, &m.State, decide(m.State, u.Now))
		if err != nil {
			return err
		}
		m.Record(decided...)
		after = m.State
		return nil
	})
	return after, result, err
}

// fallBack replaces the failure of an attempted chat message with message.fell_back, so that it continues by SMS, if
// the message, the pool and the line's carrier allow it (rule SND-54).
func (u *unit) fallBack(ctx context.Context, m *message.Message, decided []events.Event) ([]events.Event, error) {
	if len(decided) == 0 || m.Attempt == 0 {
		return decided, nil
	}
	failed, ok := decided[len(decided)-1].(*events.MessageFailed)
	if !ok || failed.Code == message.CodeOptedOut || failed.Code == message.CodeCanceled {
		return decided, nil
	}
	if _, possible := m.FallBackToSMS(failed.Code, nil); !possible {
		return decided, nil
	}
	l, err := engine.Load(ctx, u.Unit, u.Engine.Lines, m.LineID)
	if err != nil {
		return decided, err
	}
	poolID := l.State.PoolID
	if m.PoolID != nil {
		poolID = *m.PoolID
	}
	if poolID == "" {
		stream := organisation.WorkspaceStream(u.Request.Workspace)
		workspace, err := engine.Load(ctx, u.Unit, u.Engine.Workspaces, stream)
		if err != nil {
			return nil, err
		}
		poolID = workspace.State.DefaultPoolID
	}
	pool, err := engine.Load(ctx, u.Unit, u.Engine.Pools, poolID)
	if err != nil || !pool.State.Fallback.Covers(failed.Code == message.CodeNotOnChat) {
		return decided, err
	}
	var route *events.SMSRoute
	if !l.State.IsSandbox {
		if route, err = u.smsRoute(ctx, m); err != nil {
			return decided, err
		}
	}
	if route == nil && !u.sender.sms(l.State) {
		return decided, nil
	}
	decided[len(decided)-1], _ = m.FallBackToSMS(failed.Code, route)
	return decided, nil
}

// smsRoute returns how a message goes by the SMS connection of the workspace, and records which number sends it; nil
// when no connection is ready.
func (u *unit) smsRoute(ctx context.Context, m *message.Message) (*events.SMSRoute, error) {
	c, err := ReadySMSConnection(ctx, u.Unit)
	if err != nil || c == nil {
		return nil, err
	}
	x, err := engine.Load(ctx, u.Unit, u.Engine.Exchanges, exchange.Stream(m.ContactID))
	if err != nil {
		return nil, err
	}
	return SMSRouteTo(ctx, u.Unit, c, x, m.ContactID, m.Automatic != "")
}

// ReadySMSConnection returns the SMS connection of the request's workspace; nil when none is ready.
func ReadySMSConnection(ctx context.Context, u *engine.Unit) (*smsconnection.Connection, error) {
	id, found, err := u.Owner(ctx, smsconnection.ClaimScope, u.Request.Workspace.String())
	if err != nil || !found {
		return nil, err
	}
	c, err := engine.Load(ctx, u, u.Engine.SMSConnections, id)
	if err != nil || !c.State.Ready() {
		return nil, err
	}
	return &c.State, nil
}

// SMSRouteTo returns how a message to a contact goes by a connection, and records which number sends it (rules SMS-17
// and SMS-18).
func SMSRouteTo(
	ctx context.Context, u *engine.Unit, c *smsconnection.Connection, x *engine.Aggregate[exchange.Exchange], contactID string, automatic bool,
) (*events.SMSRoute, error) {
	route := &events.SMSRoute{ConnectionID: c.ID, From: c.Sender(contactID, x.State.SMSWroteTo, x.State.SMSSender)}
	x.Record(x.State.RecordSMSSender(contactID, route.From)...)
	if c.PrefixOrgName && !automatic {
		org, err := u.Organisation(ctx)
		if err != nil {
			return nil, err
		}
		route.Prefix = org.State.Name + ": "
	}
	return route, nil
}

// RecordUnanswered records that a line's first message to its contact, delivered 24 hours ago, has had no answer. It
// counts once toward the line's streak (rule LIN-15).
func (s *Sender) RecordUnanswered(ctx context.Context, req engine.Request, messageID string) (engine.Result, error) {
	var result engine.Result
	err := s.onMessage(ctx, req, messageID, &result, func(ctx context.Context, u *unit, m *engine.Aggregate[message.Message]) error {
		x, err := engine.Load(ctx, u.Unit, s.engine.Exchanges, exchange.Stream(m.State.ContactID))
		if err != nil {
			return err
		}
		unanswered := x.State.RecordUnanswered(m.State.ContactID, m.State.LineID, messageID)
		if len(unanswered) == 0 {
			return nil
		}
		l, err := engine.Load(ctx, u.Unit, s.engine.Lines, m.State.LineID)
		if err != nil {
			return err
		}
		org, err := u.Organisation(ctx)
		if err != nil {
			return err
		}
		limits := org.State.Limits()
		x.Record(unanswered...)
		l.Record(l.State.RecordUnanswered(m.State.ContactID, messageID, &limits)...)
		return nil
	})
	return result, err
}

// onMessage runs a command on one message, in the organisation and the workspace of the message. A caller of another
// workspace gets not_found; the service itself may act in all workspaces.
func (s *Sender) onMessage(
	ctx context.Context, req engine.Request, messageID string, result *engine.Result,
	decide func(context.Context, *unit, *engine.Aggregate[message.Message]) error,
) error {
	found, err := s.run(ctx, req, func(ctx context.Context, u *unit) error {
		m, err := engine.Load(ctx, u.Unit, s.engine.Messages, messageID)
		if err != nil {
			return err
		}
		if !m.State.Exists() || req.Workspace != m.State.Workspace && req.Actor.Type != "system" {
			return engine.NotFound("message")
		}
		u.Request.Organisation, u.Request.Workspace = m.State.Organisation, m.State.Workspace
		u.Ref, u.Subject = messageID, m.State.ContactID
		if err := decide(ctx, u, m); err != nil {
			return err
		}
		return u.releaseFirstMessage(ctx, m)
	})
	*result = found
	return err
}

// releaseFirstMessage uncounts a message that fails before it was sent from the messages before the contact's first
// reply (rule SND-16).
func (u *unit) releaseFirstMessage(ctx context.Context, m *engine.Aggregate[message.Message]) error {
	counted := m.State.LineID != "" && m.State.Automatic == ""
	failedNow := m.State.Status == message.Failed && m.Before().Status != message.Failed
	if !counted || !failedNow || !m.State.SentAt.IsZero() {
		return nil
	}
	x, err := engine.Load(ctx, u.Unit, u.Engine.Exchanges, exchange.Stream(m.State.ContactID))
	if err != nil {
		return err
	}
	x.Record(x.State.RecordUnsent(m.State.ContactID, m.State.MessageID)...)
	return nil
}
