package sending

import (
	"context"
	"errors"
	"math"
	"time"

	"ledgerline/commands/engine"
	"ledgerline/domain/consent"
	"ledgerline/domain/contact"
	"ledgerline/domain/line"
	"ledgerline/domain/message"
	"ledgerline/domain/number"
	"ledgerline/domain/rules"
	"ledgerline/eventstore"
)

// Step is what the process that sends a message has to do next.
type Step int

// The steps.
const (
	// StepNone: nothing. The carrier has the message, or the message has failed.
	StepNone Step = iota
	// StepSend: hand the message to the carrier now, then call CompleteAttempt.
	StepSend
	// StepWait: try again at Until. If the message waits for capacity, Assign may give it a line before that.
	StepWait
	// StepLookup: the result of the attempt in flight is unknown. Look the message up at the carrier by its id, then call
	// CompleteAttempt. Never send it again blindly.
	StepLookup
	// StepBusy: the message has a line (Attempt.Line) whose carrier cannot be called now. Nothing was attempted.
	StepBusy
)

// Attempt is the result of BeginAttempt.
type Attempt struct {
	engine.Result
	Step    Step
	Number  int             // of the attempt, with StepSend and StepLookup
	Message message.Message // as it is now; Content, FromNumber and Channel are what to send
	Line    line.Line       // with StepSend, StepLookup and StepBusy
	Until   time.Time       // with StepWait; zero when no end is known
	// MayBeOvertaken states, with StepWait, that later messages to the contact may leave before this one (rule SND-21).
	MayBeOvertaken bool

	recipient []eventstore.Guard // with StepSend: contact and number as they were when the attempt began
}

// BeginAttempt evaluates the rules for a message and begins an attempt to send it. In one append it records the line
// (message.routed, with its capacity reserved) and the attempt (message.sending), guarded by the contact, its number,
// the organisation and the line. Therefore an opt-out that is committed first always wins, and no limit is exceeded,
// with any number of nodes. If the rules defer or refuse the message, it records message.deferred or message.failed
// instead. q is the capacity queue; nil stands for an empty queue. callable says whether the carrier of a line can be
// called now: if not, only the line is recorded, with its capacity, and the step is StepBusy. callable must not block,
// and may be called several times; nil stands for yes.
func (s *Sender) BeginAttempt(
	ctx context.Context, req engine.Request, messageID string, q Queue, callable func(*line.Line) bool,
) (Attempt, error) {
	var t Attempt
	err := s.onMessage(ctx, req, messageID, &t.Result, func(ctx context.Context, u *unit, m *engine.Aggregate[message.Message]) error {
		t = Attempt{}
		if !m.State.ByConnection() { // BeginSMSAttempt is for the others
			if err := u.beginAttempt(ctx, m, q, callable, &t); err != nil {
				return err
			}
		}
		t.Message = m.State
		return nil
	})
	return t, err
}

// BeginSMSAttempt is BeginAttempt for a message that goes by an SMS connection. Such a message needs no line: consent,
// quiet hours, the pause of the organisation and the daily limit of a service identity decide (rule SMS-16).
func (s *Sender) BeginSMSAttempt(ctx context.Context, req engine.Request, messageID string) (Attempt, error) {
	var t Attempt
	err := s.onMessage(ctx, req, messageID, &t.Result, func(ctx context.Context, u *unit, m *engine.Aggregate[message.Message]) error {
		t = Attempt{}
		if m.State.ByConnection() {
			if err := u.beginSMSAttempt(ctx, m, &t); err != nil {
				return err
			}
		}
		t.Message = m.State
		return nil
	})
	return t, err
}

func (u *unit) beginSMSAttempt(ctx context.Context, m *engine.Aggregate[message.Message], t *Attempt) error {
	if m.State.InFlight {
		t.Step, t.Number = StepLookup, m.State.Attempt
		return nil
	}
	d, v, err := u.evaluate(ctx, m, nil, false)
	switch {
	case err != nil || d == nil && m.State.Final():
		return err
	case d == nil: // the message waits for its next attempt
		t.Step, t.Until = StepWait, m.State.NotBefore
		return nil
	case v.Decision == rules.Defer:
		t.Step, t.Until = StepWait, m.State.DeferralExpiresAt()
		if until := v.Deferral.Until; until != nil && until.Before(t.Until) {
			t.Until = *until
		}
		return nil
	case v.Decision == rules.Refuse:
		return nil
	}
	if m.State.Attempt == 0 && m.State.IdentityID != nil {
		u.countForIdentity(d, &m.State)
	}
	begun, err := m.State.BeginAttempt("", message.SMS, u.Now)
	if err != nil {
		return err
	}
	m.Record(begun...)
	t.Step, t.Number = StepSend, m.State.Attempt
	t.recipient = []eventstore.Guard{d.contact.GuardAfter(), d.number.GuardAfter()}
	return nil
}

// countForIdentity counts the message toward the daily limit of its service identity. It is counted even without a
// limit, so that a limit that is set later applies to the whole day.
func (u *unit) countForIdentity(d *evaluation, m *message.Message) {
	limit := int64(math.MaxInt64)
	if d.facts.IdentityLimit != nil {
		limit = int64(*d.facts.IdentityLimit)
	}
	day := line.DayOf(u.Now)
	u.Quota(eventstore.Quota{Key: identityQuota(*m.IdentityID), Bucket: day.Start, From: day.Start, Add: 1, Limit: limit}, nil)
}

func (u *unit) beginAttempt(
	ctx context.Context, m *engine.Aggregate[message.Message], q Queue, callable func(*line.Line) bool, t *Attempt,
) error {
	if m.State.InFlight {
		l, err := engine.Load(ctx, u.Unit, u.Engine.Lines, m.State.LineID)
		if err != nil {
			return err
		}
		t.Step, t.Number, t.Line = StepLookup, m.State.Attempt, l.State
		return nil
	}
	d, v, err := u.evaluate(ctx, m, q, false)
	if err != nil {
		return err
	}
	switch {
	case d == nil && m.State.Final():
		return nil
	case d == nil: // the message waits for its send_at or for its next attempt
		t.Step, t.Until, t.MayBeOvertaken = StepWait, m.State.NotBefore, m.State.Status == message.Scheduled
		return nil
	case v.Decision == rules.Send:
		return u.begin(d, m, v.Line, callable, t)
	case v.Decision == rules.Defer:
		t.Step, t.Until, t.MayBeOvertaken = StepWait, m.State.DeferralExpiresAt(), v.MayBeOvertaken()
		if until := v.Deferral.Until; until != nil && !v.ForLine() && until.Before(t.Until) {
			t.Until = *until
		}
	}
	return nil
}

// evaluate applies the rules to a message without an attempt in flight, and records a deferral or a failure. The
// evaluation is nil when the message is final or not due yet. inQueueOrder is as in keepOrder.
func (u *unit) evaluate(
	ctx context.Context, m *engine.Aggregate[message.Message], q Queue, inQueueOrder bool,
) (*evaluation, rules.Verdict, error) {
	none := rules.Verdict{}
	m.Record(m.State.BecomeDue(u.Now)...)
	if m.State.Final() {
		return nil, none, nil
	}
	if u.Now.Before(m.State.NotBefore) {
		c, err := engine.Load(ctx, u.Unit, u.Engine.Contacts, m.State.ContactID)
		if err == nil && c.State.Exists() {
			cancelForOldNumber(m, c)
		}
		return nil, none, err
	}
	d, err := u.gather(ctx, &m.State)
	if err != nil {
		return nil, none, err
	}
	if d == nil {
		m.Record(m.State.Cancel(message.CodeCanceled, map[string]any{"reason": "contact_deleted"})...)
		return nil, none, nil
	}
	if cancelForOldNumber(m, d.contact) {
		return nil, none, nil
	}
	retired, err := d.namedLineRetired(ctx)
	if err != nil {
		return nil, none, err
	}
	if retired && !m.State.ByConnection() {
		m.Record(m.State.Cancel(message.CodeCanceled, map[string]any{"reason": "line_retired"})...)
		return nil, none, nil
	}
	if m.State.ByConnection() {
		v := rules.CheckSMS(d.facts)
		switch v.Decision {
		case rules.Refuse:
			m.Record(m.State.Cancel(v.Code, v.Detail)...)
		case rules.Defer:
			m.Record(m.State.Defer(v.Deferral, v.Detail)...)
		case rules.Send:
		}
		return d, v, nil
	}
	unqueued := rules.Check(d.facts)
	v, err := d.keepOrder(ctx, q, inQueueOrder, unqueued)
	if err != nil {
		return nil, none, err
	}
	switch v.Decision {
	case rules.Send:
	case rules.Refuse:
		m.Record(m.State.Cancel(v.Code, v.Detail)...)
	case rules.Defer:
		u.deferMessage(d, m, &unqueued, &v)
	}
	return d, v, nil
}

// deferMessage records the deferral of verdict v. unqueued is the verdict without regard to the capacity queue.
func (u *unit) deferMessage(d *evaluation, m *engine.Aggregate[message.Message], unqueued, v *rules.Verdict) {
	deferral := v.Deferral
	switch {
	case d.facts.Automatic:
	case v.ForLine():
		limitedByText := unqueued.Decision == rules.Defer && rules.TextUsedUp(&d.facts)
		deferral.Wants = d.wanted(&m.State, limitedByText)
	case v.Deferral.Reason == rules.ReasonQuietHours && m.State.Deferred != nil:
		deferral.Wants = m.State.Deferred.Wants // the message keeps its queue entry, but no capacity is reserved for it (rule SND-13)
	}
	if v.ForLine() {
		d.guardLines()
	}
	m.Record(m.State.Defer(deferral, v.Detail)...)
}

// cancelForOldNumber cancels a message to a number that its contact no longer has.
func cancelForOldNumber(m *engine.Aggregate[message.Message], c *engine.Aggregate[contact.Contact]) bool {
	if to := m.State.Content.To; to == "" || to == c.State.Phone {
		return false
	}
	m.Record(m.State.Cancel(message.CodeCanceled, map[string]any{"reason": "phone_changed"})...)
	return true
}

// begin records the attempt, if the carrier of the line can be called. If the message has no capacity yet, it also
// records the line and reserves the capacity.
func (u *unit) begin(
	d *evaluation, m *engine.Aggregate[message.Message], c *rules.Candidate, callable func(*line.Line) bool, t *Attempt,
) error {
	l := d.lines[c.Line.ID]
	u.route(d, m, c)
	if callable != nil && !callable(&l.State) {
		t.Step, t.Line = StepBusy, l.State
		return nil
	}
	begun, err := m.State.BeginAttempt(l.State.ID, m.State.Channel, u.Now)
	if err != nil {
		return err
	}
	m.Record(begun...)
	t.Step, t.Number, t.Line = StepSend, m.State.Attempt, l.State
	t.recipient = []eventstore.Guard{d.contact.GuardAfter(), d.number.GuardAfter()}
	return nil
}

// route records the line of the message and reserves its capacity, unless that is reserved already.
func (u *unit) route(d *evaluation, m *engine.Aggregate[message.Message], c *rules.Candidate) {
	l := d.lines[c.Line.ID]
	m.Record(m.State.Route(l.State.ID, l.State.Phone, c.New && !l.State.IsSandbox)...)
	if !c.Reserved {
		u.reserve(d, &m.State, c)
	}
	if !l.State.IsSandbox { // the sandbox line is never a contact's own line
		d.contact.Record(d.contact.State.AssignLine(l.State.ID, d.ownOutOfService)...)
	}
	l.Record(l.State.StartWarming()...)
	l.Guard()
}

// reserve counts the message toward all its limits: those of the line, the messages before the contact's first reply,
// and the daily limit of the service identity.
func (u *unit) reserve(d *evaluation, m *message.Message, c *rules.Candidate) {
	day := line.DayOf(u.Now)
	limits := d.facts.Limits
	if !d.facts.Automatic {
		d.exchange.Record(d.exchange.State.RecordMessage(
			m.ContactID, c.Line.ID, m.MessageID, d.facts.Routed, day, limits.NewContactWindowDays)...)
	}
	if m.IdentityID != nil && !d.facts.Routed {
		u.countForIdentity(d, m)
	}
	if c.Line.IsSandbox {
		return
	}
	hash := d.textHash(m)
	for _, q := range lineQuotas(u.Now, c, limits, hash, d.facts.Automatic) {
		u.Quota(q, nil)
	}
	lineID, isNew, at := c.Line.ID, c.New, u.Now.Truncate(time.Microsecond)
	reads := u.sender.usage.reads(lineID)
	u.OnAppended(func(*eventstore.Append) { u.sender.usage.add(lineID, reads, at, day, isNew, hash) })
}

// Assign assigns a message that waits for capacity to a line. The caller calls it for the queue entries in FIFO order,
// so earlier entries do not defer the message. Assign records message.routed and reserves the capacity; the attempt
// begins when the contact's task runs. If the rules defer or refuse the message, it records that, like BeginAttempt.
// assigned is false unless this call reserved capacity, for example for a message that has been routed meanwhile.
func (s *Sender) Assign(ctx context.Context, req engine.Request, messageID string, q Queue) (assigned bool, err error) {
	var result engine.Result
	err = s.onMessage(ctx, req, messageID, &result, func(ctx context.Context, u *unit, m *engine.Aggregate[message.Message]) error {
		assigned = false
		if m.State.Final() || m.State.InFlight || m.State.Deferred == nil || m.State.Deferred.Wants == nil {
			return nil
		}
		d, v, err := u.evaluate(ctx, m, q, true)
		if err != nil {
			return err
		}
		if assigned = d != nil && v.Decision == rules.Send && !v.Line.Reserved; assigned {
			u.route(d, m, v.Line)
		}
		return nil
	})
	return assigned && err == nil, err
}

// MayStillSend checks, at the head of the ledger, whether a message may be handed to its carrier now that its attempt
// has begun: an opt-out that was committed since then wins (rule SND-4). Usually this takes one query, which checks
// that the contact and the number have not changed since the attempt began.
func (s *Sender) MayStillSend(ctx context.Context, t *Attempt) (bool, error) {
	m := &t.Message
	_, err := s.engine.Ledger.VerifyGuards(ctx, t.Shard, t.recipient)
	if conflict := (*eventstore.VersionConflict)(nil); err == nil || !errors.As(err, &conflict) {
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
