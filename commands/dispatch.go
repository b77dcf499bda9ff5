package commands

import (
	"context"
	"time"

	"ledgerline/domain/line"
	"ledgerline/domain/message"
	"ledgerline/domain/sending"
	"ledgerline/events"
)

// Step is what the process that sends a message has to do next.
type Step int

// The steps.
const (
	// Done: nothing more; the message is with the carrier already, or has failed.
	Done Step = iota
	// Send: hand it to the carrier now, and tell what came of it with CompleteAttempt.
	Send
	// Wait: try again at Until, and for a message that is held also when its line or pool changes.
	Wait
	// Reconcile: an attempt was begun and its outcome was never told. Ask the carrier by the message's id, then tell
	// CompleteAttempt what it says; never send blindly again.
	Reconcile
)

// Attempt is the answer of BeginAttempt.
type Attempt struct {
	Result
	Step    Step
	Number  int             // of the attempt, with Send and Reconcile
	Message message.Message // as it is now: Content, From and Channel are what to send
	Line    line.Line       // with Send and Reconcile
	Until   time.Time       // with Wait; zero when no end is known
}

// BeginAttempt takes a message for sending: it asks the rules again, chooses the line, and appends message.routed and
// message.sending in one step that depends on the contact, its number, the organisation and the line being as they
// were seen. An opt-out that is committed first therefore always wins: nothing leaves after it. Where the rules say
// otherwise, message.deferred or message.failed is appended instead.
func (a *App) BeginAttempt(ctx context.Context, req Request, messageID string) (Attempt, error) {
	var t Attempt
	err := a.onMessage(ctx, req, messageID, &t.Result, func(ctx context.Context, u *unit, m *aggregate[message.Message]) error {
		t = Attempt{}
		if err := u.beginAttempt(ctx, m, &t); err != nil {
			return err
		}
		t.Message = m.State
		return nil
	})
	return t, err
}

func (u *unit) beginAttempt(ctx context.Context, m *aggregate[message.Message], t *Attempt) error {
	m.record(m.State.Due(u.now)...)
	switch {
	case m.State.Final():
		return nil
	case m.State.InFlight:
		l, err := load(ctx, u, u.app.lines, m.State.LineID)
		if err != nil {
			return err
		}
		t.Step, t.Number, t.Line = Reconcile, m.State.Attempt, l.State
		return nil
	case u.now.Before(m.State.NotBefore):
		t.Step, t.Until = Wait, m.State.NotBefore
		return nil
	}
	c, err := load(ctx, u, u.app.contacts, m.State.ContactID)
	if err != nil {
		return err
	}
	if !c.State.Exists() {
		c.lean()
		m.record(m.State.Cancel(message.CodeCanceled, map[string]any{"reason": "contact_deleted"})...)
		return nil
	}
	if to := m.State.Content.To; to != "" && to != c.State.Phone {
		c.lean()
		m.record(m.State.Cancel(message.CodeCanceled, map[string]any{"reason": "phone_changed"})...)
		return nil
	}
	num, err := u.numberByHash(ctx, c.State.NumberHash)
	if err != nil {
		return err
	}
	org, err := u.organisation(ctx)
	if err != nil {
		return err
	}
	wish := lineWish{contact: c.State.ID, named: deref(m.State.NamedLineID), pool: deref(m.State.PoolID), sticky: c.State.LineID, isTest: m.State.IsTest}
	chosen, found, err := u.lineFor(ctx, wish)
	if err != nil {
		return err
	}
	c.lean()
	num.lean()
	org.lean()
	verdict := sending.Check(sending.Facts{
		Moment: sending.Leaving, Now: u.now, Consent: c.State.Consent, Registered: num.State.OptedOut,
		RequireConsent: org.State.Settings.RequireConsent, Automatic: m.State.Automatic != "",
		LineFound: found, NamedLineID: wish.named, HoldEnds: m.State.HoldEnds(),
	})
	switch verdict.Outcome {
	case sending.Go:
	case sending.Refuse:
		m.record(m.State.Cancel(verdict.Code, verdict.Detail)...)
		return nil
	case sending.Hold:
		m.record(m.State.Defer(verdict.Hold, verdict.Detail)...)
		t.Step, t.Until = Wait, m.State.HoldEnds()
		if until := verdict.Hold.Until; until != nil && until.Before(t.Until) {
			t.Until = *until
		}
		return nil
	}
	m.record(m.State.Route(chosen.State.ID, chosen.State.Phone)...)
	if !chosen.State.IsSandbox { // the sandbox line is nobody's sender for good
		c.record(c.State.AssignLine(chosen.State.ID)...)
	}
	chosen.record(chosen.State.Sending()...)
	chosen.lean()
	begun, err := m.State.Begin(chosen.State.ID, m.State.Channel, u.now)
	if err != nil {
		return err
	}
	m.record(begun...)
	t.Step, t.Number, t.Line = Send, m.State.Attempt, chosen.State
	return nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// AttemptOutcome is what came of an attempt. Exactly one of Sent, Failed, Retry and Lost is set.
type AttemptOutcome struct {
	Sent   *AttemptSent
	Failed *AttemptFailed
	Retry  string // why it failed for now; it is tried again after 30 s, 2 min and 10 min, then it fails with carrier_unreachable
	Lost   bool   // the carrier, asked after a crash, never got it: it may be tried again at once
}

// AttemptSent is an attempt that the carrier took.
type AttemptSent struct {
	CarrierID  string
	Channel    string // chat or sms; "" is the channel it was tried on
	Reconciled bool   // found out by asking the carrier later
}

// AttemptFailed is an attempt that the carrier refused for good.
type AttemptFailed struct {
	Code    string
	Details map[string]any
}

// CompleteAttempt tells the outcome of an attempt and gives the message as it is then. The outcome of an attempt that
// is not the one under way comes too late and changes nothing.
func (a *App) CompleteAttempt(ctx context.Context, req Request, messageID string, attempt int, out AttemptOutcome) (message.Message, Result, error) {
	return a.moveMessage(ctx, req, messageID, func(m message.Message, now time.Time) []events.Event {
		switch {
		case out.Sent != nil:
			channel := out.Sent.Channel
			if channel == "" {
				channel = m.Channel
			}
			return m.Took(attempt, channel, out.Sent.CarrierID, out.Sent.Reconciled)
		case out.Failed != nil:
			return m.Reject(attempt, out.Failed.Code, out.Failed.Details)
		case out.Lost:
			return m.Lost(attempt, now)
		}
		return m.Retry(attempt, out.Retry, now)
	})
}

// ReceiptKind is what a carrier's receipt tells.
type ReceiptKind string

// The kinds of receipts.
const (
	ReceiptDelivered ReceiptKind = "delivered"
	ReceiptRead      ReceiptKind = "read"
	ReceiptFailed    ReceiptKind = "failed"
)

// Receipt is a carrier's receipt for a message.
type Receipt struct {
	Kind      ReceiptKind
	At        time.Time // zero: now
	CarrierID string
	Code      string // with failed; default carrier_rejected
	Details   map[string]any
}

// TakeReceipt takes a receipt. Late and repeated ones change nothing.
func (a *App) TakeReceipt(ctx context.Context, req Request, messageID string, r Receipt) (message.Message, Result, error) {
	return a.moveMessage(ctx, req, messageID, func(m message.Message, now time.Time) []events.Event {
		// A carrier's clock, or a receipt that overtook its answer, may say that a message arrived before we knew it
		// sent; nobody should read it so.
		if r.At.Before(m.SentAt) {
			r.At = m.SentAt
		}
		if r.At.IsZero() || m.SentAt.IsZero() {
			r.At = now
		}
		switch r.Kind {
		case ReceiptDelivered:
			return m.Deliver(r.At, r.CarrierID)
		case ReceiptRead:
			return m.MarkRead(r.At, r.CarrierID)
		case ReceiptFailed:
			if r.Code == "" {
				r.Code = message.CodeCarrierRejected
			}
			return m.Bounce(r.Code, r.Details, r.CarrierID)
		}
		return nil
	})
}

// ReceiptMissing tells that a message sent 24 h ago has had no receipt; earlier, or when it has one, nothing happens.
func (a *App) ReceiptMissing(ctx context.Context, req Request, messageID string) (message.Message, Result, error) {
	return a.moveMessage(ctx, req, messageID, func(m message.Message, now time.Time) []events.Event { return m.MissReceipt(now) })
}

// WithdrawMessage cancels a message by request (decisions section 7). One that is under way or over is refused with
// conflict, so that nothing is remembered as done under the request's key.
func (a *App) WithdrawMessage(ctx context.Context, req Request, messageID string) (Result, error) {
	var result Result
	err := a.onMessage(ctx, req, messageID, &result, func(_ context.Context, _ *unit, m *aggregate[message.Message]) error {
		canceled, err := m.State.Withdraw()
		m.record(canceled...)
		return err
	})
	return result, err
}

// CancelMessage fails a message that no carrier can have yet, because its contact opted out. One that is under way or
// over stays as it is.
func (a *App) CancelMessage(ctx context.Context, req Request, messageID, code string, details map[string]any) (message.Message, Result, error) {
	return a.moveMessage(ctx, req, messageID, func(m message.Message, _ time.Time) []events.Event { return m.Cancel(code, details) })
}

func (a *App) moveMessage(ctx context.Context, req Request, messageID string, move func(message.Message, time.Time) []events.Event) (message.Message, Result, error) {
	var after message.Message
	var result Result
	err := a.onMessage(ctx, req, messageID, &result, func(_ context.Context, u *unit, m *aggregate[message.Message]) error {
		m.record(move(m.State, u.now)...)
		after = m.State
		return nil
	})
	return after, result, err
}

// onMessage runs a command on one message, in the organisation and the workspace it belongs to.
func (a *App) onMessage(ctx context.Context, req Request, messageID string, result *Result, decide func(context.Context, *unit, *aggregate[message.Message]) error) error {
	found, err := a.run(ctx, req, func(ctx context.Context, u *unit) error {
		m, err := load(ctx, u, a.messages, messageID)
		if err != nil {
			return err
		}
		if !m.State.Exists() {
			return notFound("message")
		}
		if req.Workspace == m.State.Workspace || req.Actor.Type == "system" {
			u.req.Organisation, u.req.Workspace = m.State.Organisation, m.State.Workspace
			u.ref, u.subject = messageID, m.State.ContactID
			return decide(ctx, u, m)
		}
		return notFound("message")
	})
	*result = found
	return err
}
