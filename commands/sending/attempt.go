package sending

import (
	"cmp"
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/consent"
	"ledgerline/domain/contact"
	"ledgerline/domain/exchange"
	"ledgerline/domain/fault"
	"ledgerline/domain/line"
	"ledgerline/domain/message"
	"ledgerline/domain/number"
	"ledgerline/domain/organisation"
	"ledgerline/domain/rules"
	"ledgerline/events"
	"ledgerline/eventstore"
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
	engine.Result
	Step    Step
	Number  int             // of the attempt, with Send and Reconcile
	Message message.Message // as it is now: Content, From and Channel are what to send
	Line    line.Line       // with Send and Reconcile
	Until   time.Time       // with Wait; zero when no end is known
	// With Wait: whether later messages to the contact may pass it, and the queue it stands in when it waits for room on lines.
	StepsAside bool
	Queue      *Queue

	seen []eventstore.Guard // with Send: contact and number as they were when the attempt began
}

// Queue is where a message waits for room on a line, or on any line of a pool. What came first goes first.
type Queue struct {
	Organisation uuid.UUID
	Workspace    uuid.UUID
	Group        string // id of the line or the pool
	Sender       string // the service identity that sends, when some of the lines are not for it
	Text         string // its text by a keyed hash, when that alone keeps it from a line
	New          bool   // for room for new contacts
	Taken        bool   // for the line to serve it: its room there is taken already
	Behind       bool   // others came before it and wait there
	// When there may be room that will do for it, if nobody else takes it and no line changes; zero when nobody knows.
	Until time.Time
	// Other queues whose room would do for it as well: of lines that can send, or of the pool when the group is a line that cannot.
	Elsewhere []Queue
}

// IsPool tells that it is the queue of a pool, and not of a line.
func (q *Queue) IsPool() bool { return strings.HasPrefix(q.Group, "pool_") }

// Begin asks for an attempt.
type Begin struct {
	MessageID string
	// Ahead tells whether somebody who came before waits in a queue; nil for nobody. It is asked only for contacts that are
	// new to a line.
	Ahead func(context.Context, Queue) (bool, error)
	// Before counts those who came before and have a place in a queue, up to most; nil when nobody counts.
	Before func(ctx context.Context, q Queue, most int) (int, error)
}

// BeginAttempt takes a message for sending: it asks the rules again, chooses the line, and appends message.routed and
// message.sending in one step that reserves the room on the line and depends on the contact, its number, the organisation
// and the line being as they were seen. An opt-out that is committed first therefore always wins, and no limit is passed,
// with any number of processes. Where the rules say otherwise, message.deferred or message.failed is appended instead.
func (s *Sender) BeginAttempt(ctx context.Context, req engine.Request, in Begin) (Attempt, error) {
	var t Attempt
	err := s.onMessage(ctx, req, in.MessageID, &t.Result, func(ctx context.Context, u *unit, m *engine.Aggregate[message.Message]) error {
		t = Attempt{}
		if err := u.beginAttempt(ctx, m, &in, &t); err != nil {
			return err
		}
		t.Message = m.State
		return nil
	})
	return t, err
}

func (u *unit) beginAttempt(ctx context.Context, m *engine.Aggregate[message.Message], in *Begin, t *Attempt) error {
	m.Record(m.State.BecomeDue(u.Now)...)
	switch {
	case m.State.Final():
		return nil
	case m.State.InFlight:
		l, err := engine.Load(ctx, u.Unit, u.Engine.Lines, m.State.LineID)
		if err != nil {
			return err
		}
		t.Step, t.Number, t.Line = Reconcile, m.State.Attempt, l.State
		return nil
	case u.Now.Before(m.State.NotBefore):
		c, err := engine.Load(ctx, u.Unit, u.Engine.Contacts, m.State.ContactID)
		if err != nil {
			return err
		}
		if !c.State.Exists() || !endForOldNumber(m, c) {
			t.Step, t.Until, t.StepsAside = Wait, m.State.NotBefore, m.State.Status == message.Scheduled
		}
		return nil
	}
	d, err := u.departure(ctx, &m.State)
	if err != nil {
		return err
	}
	if d == nil {
		m.Record(m.State.Cancel(message.CodeCanceled, map[string]any{"reason": "contact_deleted"})...)
		return nil
	}
	if endForOldNumber(m, d.contact) {
		return nil
	}
	retired, err := d.senderRetired(ctx)
	if err != nil {
		return err
	}
	if retired {
		m.Record(m.State.Cancel(message.CodeCanceled, map[string]any{"reason": "line_retired"})...)
		return nil
	}
	asked := rules.Check(d.facts)
	verdict, behind, err := d.inTurn(ctx, in, asked)
	if err != nil {
		return err
	}
	switch verdict.Outcome {
	case rules.Go:
		return u.leave(d, m, verdict.Line, t)
	case rules.Refuse:
		m.Record(m.State.Cancel(verdict.Code, verdict.Detail)...)
	case rules.Hold:
		m.Record(m.State.Defer(verdict.Hold, verdict.Detail)...)
		if verdict.ForLine() {
			d.leanLines()
		}
		t.Step, t.Until, t.StepsAside = Wait, m.State.DeferralExpiresAt(), verdict.StepsAside()
		switch until := verdict.Hold.Until; {
		case verdict.ForLine() && !d.facts.Automatic:
			t.Queue = d.waitsIn(&m.State, &asked, &verdict, behind)
		case until != nil && until.Before(t.Until):
			t.Until = *until
		}
	}
	return nil
}

// endForOldNumber cancels a message to a number that its contact has no more.
func endForOldNumber(m *engine.Aggregate[message.Message], c *engine.Aggregate[contact.Contact]) bool {
	if to := m.State.Content.To; to == "" || to == c.State.Phone {
		return false
	}
	m.Record(m.State.Cancel(message.CodeCanceled, map[string]any{"reason": "phone_changed"})...)
	return true
}

// leave gives the message to its line and begins the attempt.
func (u *unit) leave(d *departure, m *engine.Aggregate[message.Message], c *rules.Candidate, t *Attempt) error {
	l := d.lines[c.Line.ID]
	m.Record(m.State.Route(l.State.ID, l.State.Phone, c.New && !l.State.IsSandbox)...)
	if !c.Taken {
		u.reserve(d, &m.State, c)
	}
	if !l.State.IsSandbox { // the sandbox line is nobody's sender for good
		d.contact.Record(d.contact.State.AssignLine(l.State.ID, d.stickyGone)...)
	}
	l.Record(l.State.StartWarming()...)
	l.Guard()
	begun, err := m.State.BeginAttempt(l.State.ID, m.State.Channel, u.Now)
	if err != nil {
		return err
	}
	m.Record(begun...)
	t.Step, t.Number, t.Line = Send, m.State.Attempt, l.State
	t.seen = []eventstore.Guard{d.contact.GuardAfter(), d.number.GuardAfter()}
	return nil
}

// reserve takes the message's room: on the line, of the contact's first messages, and of its service identity's day.
func (u *unit) reserve(d *departure, m *message.Message, c *rules.Candidate) {
	day := line.DayOf(u.Now)
	limits := d.facts.Limits
	if !d.facts.Automatic {
		d.exchange.Record(d.exchange.State.RecordMessage(m.ContactID, c.Line.ID, m.MessageID, d.facts.Counted, day, limits.NewContactWindowDays)...)
	}
	if m.IdentityID != nil && !d.facts.Counted { // also without a limit: one that is set later counts the whole day
		limit := int64(math.MaxInt64)
		if d.facts.IdentityLimit != nil {
			limit = int64(*d.facts.IdentityLimit)
		}
		u.Quota(eventstore.Quota{Key: identityQuota(*m.IdentityID), Bucket: day.Start, From: day.Start, Add: 1, Limit: limit}, nil)
	}
	if c.Line.IsSandbox {
		return
	}
	text := ""
	if !d.facts.ByHand && !d.facts.Automatic {
		text = u.sender.textKey(m.Content.Body)
	}
	for _, q := range u.takes(c, limits, text, d.facts.Automatic) {
		u.Quota(q, nil)
	}
	lineID, isNew, at := c.Line.ID, c.New, u.Now.Truncate(time.Microsecond)
	reads := u.sender.usages.reads(lineID)
	u.OnAppended(func(*eventstore.Append) { u.sender.usages.took(lineID, reads, at, day, isNew, text) })
}

func identityQuota(id string) string { return "identity:" + id }

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// WithdrawMessage cancels a message by request (decisions section 7). One that is under way or over is refused with
// conflict, so that nothing is remembered as done under the request's key; a live one is forbidden to a test key.
func (s *Sender) WithdrawMessage(ctx context.Context, req engine.Request, messageID string) (engine.Result, error) {
	var result engine.Result
	err := s.onMessage(ctx, req, messageID, &result, func(ctx context.Context, u *unit, m *engine.Aggregate[message.Message]) error {
		if c, err := engine.Load(ctx, u.Unit, u.Engine.Contacts, m.State.ContactID); err != nil || !c.State.Exists() {
			return cmp.Or(err, engine.NotFound("message")) // with its contact, it is gone for every reader
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

// CancelMessage fails a message that no carrier can have yet, because its contact opted out. One that is under way or
// over stays as it is.
func (s *Sender) CancelMessage(ctx context.Context, req engine.Request, messageID, code string, details map[string]any) (message.Message, engine.Result, error) {
	return s.moveMessage(ctx, req, messageID, func(m message.Message, _ time.Time) []events.Event { return m.Cancel(code, details) })
}

// HoldBehind tells that messages wait because an earlier one to the same contact does. When the first of them is due, by its own
// send_at or because it was held too long, is answered; the zero time when none is. What is told already is asked of
// the ledger's present, in one round trip: another node may have told something else since.
// Those of which an attempt has no outcome are answered: the carrier is to be asked about them, whatever waits before them.
func (s *Sender) HoldBehind(ctx context.Context, req engine.Request, messageIDs []string) (due time.Time, unsettled []string, err error) {
	known, err := s.engine.Messages.FindMany(ctx, messageIDs)
	if err != nil {
		return due, nil, err
	}
	now := s.engine.Ledger.Now()
	for i := range known {
		m := &known[i]
		if m.Final() { // the outbox does not know it yet
			continue
		}
		if m.Status == message.Scheduled && now.Before(m.NotBefore) {
			if due.IsZero() || m.NotBefore.Before(due) {
				due = m.NotBefore
			}
			continue
		}
		if m.InFlight {
			unsettled = append(unsettled, m.MessageID)
		}
		if ends := m.DeferralExpiresAt(); ends.After(now) && (due.IsZero() || ends.Before(due)) {
			due = ends
		}
		if len(m.DeferBehindEarlier(now)) == 0 {
			continue
		}
		_, _, err := s.moveMessage(ctx, req, m.MessageID, func(m message.Message, now time.Time) []events.Event { return m.DeferBehindEarlier(now) })
		if err != nil && !fault.Is(err, fault.NotFound) {
			return due, nil, err
		}
	}
	return due, unsettled, nil
}

// MayStillLeave asks once more, of the ledger's present, whether a message may be handed to its carrier now that its attempt has
// begun: an opt-out that was committed since then wins (decisions, section 6). Usually it is one question, whether contact and
// number are as the attempt saw them.
func (s *Sender) MayStillLeave(ctx context.Context, t *Attempt) (bool, error) {
	m := &t.Message
	_, err := s.engine.Ledger.VerifyGuards(ctx, t.Shard, t.seen)
	if moved := (*eventstore.VersionConflict)(nil); err == nil || !errors.As(err, &moved) {
		return err == nil, err
	}
	c, err := s.engine.Contacts.Find(ctx, m.ContactID, true)
	if err != nil || !c.Exists() || m.Content.To != c.Phone {
		return false, err
	}
	if m.Automatic == message.OptOutConfirmation {
		return true, nil
	}
	num, err := s.engine.Numbers.Find(ctx, number.Stream(c.NumberHash), true)
	return err == nil && c.Consent != consent.OptedOut && !num.OptedOut, err
}

func (s *Sender) moveMessage(ctx context.Context, req engine.Request, messageID string, move func(message.Message, time.Time) []events.Event) (message.Message, engine.Result, error) {
	return s.moveMessageWith(ctx, req, messageID, func(context.Context, *unit, *engine.Aggregate[message.Message]) error { return nil }, move)
}

// moveMessageWith moves a message, after something else that belongs to the same step.
func (s *Sender) moveMessageWith(
	ctx context.Context, req engine.Request, messageID string, before func(context.Context, *unit, *engine.Aggregate[message.Message]) error,
	move func(message.Message, time.Time) []events.Event,
) (message.Message, engine.Result, error) {
	var after message.Message
	var result engine.Result
	err := s.onMessage(ctx, req, messageID, &result, func(ctx context.Context, u *unit, m *engine.Aggregate[message.Message]) error {
		if err := before(ctx, u, m); err != nil {
			return err
		}
		moved, err := u.orFallBack(ctx, &m.State, move(m.State, u.Now))
		if err != nil {
			return err
		}
		m.Record(moved...)
		after = m.State
		return nil
	})
	return after, result, err
}

// orFallBack has a message that was tried and failed go on by SMS where its pool, its sender and its line allow it.
func (u *unit) orFallBack(ctx context.Context, m *message.Message, moved []events.Event) ([]events.Event, error) {
	if len(moved) == 0 || m.Attempt == 0 {
		return moved, nil
	}
	failed, ok := moved[len(moved)-1].(*events.MessageFailed)
	if !ok || failed.Code == message.CodeOptedOut || failed.Code == message.CodeCanceled {
		return moved, nil
	}
	on, possible := m.FallBackToSMS(failed.Code)
	if !possible {
		return moved, nil
	}
	l, err := engine.Load(ctx, u.Unit, u.Engine.Lines, m.LineID)
	if err != nil || !u.sender.sms(l.State.Carrier) {
		return moved, err
	}
	poolID := l.State.PoolID
	if m.PoolID != nil {
		poolID = *m.PoolID
	}
	if poolID == "" {
		workspace, err := engine.Load(ctx, u.Unit, u.Engine.Workspaces, organisation.WorkspaceStream(u.Request.Workspace))
		if err != nil {
			return nil, err
		}
		poolID = workspace.State.DefaultPoolID
	}
	pool, err := engine.Load(ctx, u.Unit, u.Engine.Pools, poolID)
	if err != nil || !pool.State.Fallback.Covers(failed.Code == message.CodeNotOnChat) {
		return moved, err
	}
	moved[len(moved)-1] = on
	return moved, nil
}

// ContactUnanswered tells that a line's first message to its contact, delivered 24 hours ago, has had no answer. It counts
// once, toward the line's streak.
func (s *Sender) ContactUnanswered(ctx context.Context, req engine.Request, messageID string) (engine.Result, error) {
	var result engine.Result
	err := s.onMessage(ctx, req, messageID, &result, func(ctx context.Context, u *unit, m *engine.Aggregate[message.Message]) error {
		x, err := engine.Load(ctx, u.Unit, s.engine.Exchanges, exchange.Stream(m.State.ContactID))
		if err != nil {
			return err
		}
		silent := x.State.RecordUnanswered(m.State.ContactID, m.State.LineID, messageID)
		if len(silent) == 0 {
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
		x.Record(silent...)
		l.Record(l.State.RecordUnanswered(m.State.ContactID, messageID, &limits)...)
		return nil
	})
	return result, err
}

// onMessage runs a command on one message, in the organisation and the workspace it belongs to.
func (s *Sender) onMessage(ctx context.Context, req engine.Request, messageID string, result *engine.Result, decide func(context.Context, *unit, *engine.Aggregate[message.Message]) error) error {
	found, err := s.run(ctx, req, func(ctx context.Context, u *unit) error {
		m, err := engine.Load(ctx, u.Unit, s.engine.Messages, messageID)
		if err != nil {
			return err
		}
		if !m.State.Exists() {
			return engine.NotFound("message")
		}
		if req.Workspace == m.State.Workspace || req.Actor.Type == "system" {
			u.Request.Organisation, u.Request.Workspace = m.State.Organisation, m.State.Workspace
			u.Ref, u.Subject = messageID, m.State.ContactID
			if err := decide(ctx, u, m); err != nil {
				return err
			}
			return u.placeBack(ctx, m)
		}
		return engine.NotFound("message")
	})
	*result = found
	return err
}

// placeBack gives the place of a message that fails now among those before the contact's first reply to another one, unless
// it was sent before.
func (u *unit) placeBack(ctx context.Context, m *engine.Aggregate[message.Message]) error {
	counted := m.State.LineID != "" && m.State.Automatic == ""
	if !counted || m.State.Status != message.Failed || m.Before().Status == message.Failed || !m.State.SentAt.IsZero() {
		return nil
	}
	x, err := engine.Load(ctx, u.Unit, u.Engine.Exchanges, exchange.Stream(m.State.ContactID))
	if err != nil {
		return err
	}
	x.Record(x.State.RecordUnsent(m.State.ContactID, m.State.MessageID)...)
	return nil
}
