package model

import (
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"ledgerline/events"
	"ledgerline/eventstore"
)

type message struct {
	id        string
	contact   *contact
	isTest    bool
	automatic string
	byStaff   bool
	identity  string // id of the service identity that sends it
	pool      string
	named     string
	to        string // "" for an automatic text whose contact was erased
	body      string
	media     int
	fallback  bool  // whether the sender allows SMS
	order     int64 // in the order of its contact's open messages
	sendAt    time.Time

	status   string
	line     string
	channel  string
	attempts int
	failures int // failures that count toward carrier_unreachable

	inFlight      bool
	nextAttempt   time.Time // earliest time of the next attempt
	deferral      *events.MessageDeferred
	deferredSince time.Time
	windowChanged bool // whether the window of new contacts has changed since the deferral
	resend        bool
	sentAt        time.Time
	carrierID     map[string]string // by channel
	tries         []try
	receipts      int
	missed        bool
	rejected      string // code of message.rejected, when that was the message's latest event
	code          string
	canceled      bool            // whether it was canceled by request, or for a cause that is in the ledger
	trace         []string        // what happened to it, for failures
	passed        map[string]bool // earlier messages that it was allowed to overtake at its first attempt
}

// try is one attempt to send.
type try struct {
	at      time.Time
	line    string
	channel string
	window  window // window in force at the attempt
}

func (msg *message) text() string { return strings.TrimSpace(msg.body) }

// codes are the error codes of rule SND-30.
var codes = regexp.MustCompile(`^(contact_opted_out|consent_required|hold_expired|carrier_rejected|carrier_unreachable|not_on_chat|sms_.+|canceled)$`)

// to sets the status of a message and checks that its old status is one of these.
func (m *Model) to(msg *message, status string, from ...string) {
	if !slices.Contains(from, msg.status) {
		m.wrong("a status that goes back or skips", "%s from %s to %s", msg.id, msg.status, status)
	}
	msg.status = status
}

func (m *Model) takeMessage(r *eventstore.Recorded) {
	if e, ok := r.Event.(*events.MessageReceived); ok {
		m.received(e, r.OccurredAt)
		return
	}
	if e, ok := r.Event.(*events.MessageQueued); ok {
		m.queued(e, r)
		return
	}
	if !strings.HasPrefix(r.Type, "message.") {
		return
	}
	msg := m.messages[r.Stream]
	if msg == nil {
		m.wrong("a message that nobody accepted", "%s: %s", r.Stream, r.Type)
		return
	}
	at := r.OccurredAt
	msg.trace = append(msg.trace, strings.TrimPrefix(r.Type, "message.")+at.Format(" 02T15:04:05"))
	m.followsRejection(msg, r.Event)
	switch e := r.Event.(type) {
	case *events.MessageScheduled:
		m.to(msg, "scheduled", "queued")
		if !e.Until.Equal(msg.sendAt) || !e.Until.After(at) {
			m.wrong("a schedule that nobody asked for", "%s until %s", msg.id, e.Until)
		}
	case *events.MessageDue:
		m.to(msg, "queued", "scheduled")
		if at.Before(msg.sendAt) {
			m.wrong("a message leaves before its send_at", "%s, %s", msg.id, msg.sendAt)
		}
	case *events.MessageRouted:
		m.routed(msg, e, at)
	case *events.MessageDeferred:
		m.deferred(msg, e, at)
	case *events.MessageSending:
		m.sending(msg, e, at)
	case *events.MessageSent:
		m.sent(msg, e, at)
	case *events.MessageRetried:
		m.retried(msg, e, at)
	case *events.MessageRejected:
		if !msg.inFlight || e.Attempt != msg.attempts || e.LineID != msg.line || e.Channel != msg.channel {
			m.wrong("a result of an attempt that is not in flight", "%s, attempt %d by %s on %s", msg.id, e.Attempt, e.LineID, e.Channel)
		}
		msg.inFlight, msg.rejected = false, e.Code
		m.Counted["rejected"]++
	case *events.MessageDelivered:
		m.to(msg, "delivered", "sent")
		msg.receipts++
		m.final(msg)
	case *events.MessageRead:
		m.to(msg, "read", "sent", "delivered")
		msg.receipts++
		m.final(msg)
	case *events.MessageFailed:
		m.failed(msg, e, at)
	case *events.MessageReceiptMissing:
		if msg.status != "sent" || msg.missed || msg.receipts > 0 || at.Before(msg.sentAt.Add(24*time.Hour)) {
			m.wrong("receipt_missing too early or twice", "%s is %s, sent at %s", msg.id, msg.status, msg.sentAt)
		}
		msg.missed = true
		m.Counted["receipts missed"]++
	case *events.MessageFellBack:
		if msg.channel != "chat" || !msg.fallback || msg.status != "sending" && msg.status != "sent" {
			m.wrong("a fallback that may not be", "%s is %s by %s", msg.id, msg.status, msg.channel)
		}
		if msg.status == "sent" { // it goes to the end of its contact's open messages
			msg.order = r.Position
			msg.contact.open = append(msg.contact.open, msg)
		}
		msg.channel, msg.inFlight, msg.resend, msg.failures, msg.nextAttempt = "sms", false, true, 0, time.Time{}
		m.Counted["fallbacks"]++
	}
}

func (m *Model) received(e *events.MessageReceived, at time.Time) {
	c := m.contacts[e.ContactID]
	if c.erased {
		m.wrong("something from who was erased", "%s from %s", e.MessageID, c.id)
	}
	if !c.replied {
		c.replied, c.FirstReply = true, at
	}
	c.Unread++
	m.Counted["replies"]++
}

func (m *Model) queued(e *events.MessageQueued, r *eventstore.Recorded) {
	c := m.contacts[e.ContactID]
	if e.Content.To == "" {
		e.Content = m.Accepted[e.MessageID]
	}
	if c.phone == "" {
		c.phone = e.Content.To
	}
	msg := &message{
		id: e.MessageID, contact: c, isTest: e.IsTest, automatic: e.Automatic, byStaff: e.ByStaff, channel: e.Channel, to: e.Content.To,
		body: e.Content.Body, media: len(e.Content.Media), fallback: e.Fallback == nil || *e.Fallback, order: r.Position, status: "queued",
		carrierID: map[string]string{}, passed: map[string]bool{},
	}
	if e.IdentityID != nil {
		msg.identity = *e.IdentityID
		m.Counted["by identities"]++
	}
	if e.ByStaff { // a reply by a user marks the conversation as read
		c.Unread = 0
		m.Counted["by hand"]++
	}
	if e.PoolID != nil {
		msg.pool = *e.PoolID
	}
	if e.LineID != nil {
		msg.named = *e.LineID
	}
	if e.SendAt != nil {
		msg.sendAt = *e.SendAt
	}
	if m.messages[msg.id] != nil {
		m.wrong("a message accepted twice", "%s", msg.id)
	}
	if code := m.refused(c); code != "" && msg.automatic == "" {
		m.wrong("a message that should have been refused", "%s: %s", msg.id, code)
	}
	switch {
	case msg.addresseeChanged():
		m.wrong("a message that should have been refused", "%s to %s: contact %s has %s, erased %v", msg.id, msg.to, c.id, c.phone, c.erased)
	case msg.automatic == "" && (m.of(c).paused || !m.allows(msg, m.lines[msg.named])):
		m.wrong("a message that should have been refused", "%s: the organisation is paused (%v), or its sender may not use %s", msg.id, m.of(c).paused, msg.named)
	}
	m.messages[msg.id] = msg
	c.open, c.all = append(c.open, msg), append(c.all, msg)
	m.Counted["accepted"]++
}

// sending checks that every rule allows an attempt to begin at this position of the ledger.
func (m *Model) sending(msg *message, e *events.MessageSending, at time.Time) {
	c := msg.contact
	if msg.status != "sent" || !msg.resend {
		m.to(msg, "sending", "queued", "sending")
	}
	if msg.inFlight || e.Attempt != msg.attempts+1 || at.Before(msg.nextAttempt) {
		m.wrong("an attempt at the wrong time", "%s, attempt %d at %s; inFlight %v, %d before, due %s", msg.id, e.Attempt, at, msg.inFlight, msg.attempts, msg.nextAttempt)
	}
	if l := m.lines[e.LineID]; e.LineID != msg.line || e.Channel != msg.channel || !l.canSend() && l.state != "" {
		m.wrong("a line that cannot send is used", "%s by %s (%s), routed to %s", msg.id, e.LineID, l.state, msg.line)
	}
	if msg.addresseeChanged() {
		m.wrong("a message leaves to an erased contact or an old number", "%s to %s: contact %s has %s, erased %v", msg.id, msg.to, c.id, c.phone, c.erased)
	}
	if msg.automatic == "" {
		m.mayLeave(msg, at)
	}
	if msg.attempts == 0 {
		for _, earlier := range c.open {
			switch {
			case earlier.order >= msg.order, earlier.automatic != "": // an automatic text holds up no message
			case earlier.mayBeOvertaken():
				msg.passed[earlier.id] = true
			case msg.automatic == "" && earlier.attempts == 0 && !earlier.resend:
				m.wrong("a message overtakes an earlier one", "%s passes %s, which is %s, deferred for %s", msg.id, earlier.id, earlier.status, earlier.reason())
			case msg.automatic == "" && !earlier.resend:
				m.wrong("a message overtakes an earlier one", "%s passes %s, which is being tried", msg.id, earlier.id)
			}
		}
	}
	msg.attempts, msg.inFlight, msg.deferral, msg.deferredSince, msg.nextAttempt, msg.resend = e.Attempt, true, nil, time.Time{}, time.Time{}, false
	msg.tries = append(msg.tries, try{at, e.LineID, e.Channel, m.of(c).window})
	m.Counted["attempts"]++
}

// mayLeave checks an attempt against the rules about its contact (rules SND-2 to SND-4, SND-10 and SND-14).
func (m *Model) mayLeave(msg *message, at time.Time) {
	c := msg.contact
	if m.of(c).paused {
		m.wrong("a message leaves while its organisation is paused", "%s", msg.id)
	}
	if code := m.refused(c); code != "" {
		m.wrong("a message leaves without consent", "%s: %s", msg.id, code)
	}
	if !m.open(m.of(c).window, msg.to, at) {
		m.wrong("a message leaves in quiet hours", "%s to %s at %s", msg.id, msg.to, at)
	}
	if broken := m.firstRules(msg); len(broken) > 0 {
		m.wrong("a message that breaks the first-message rules is sent", "%s to %s: %v", msg.id, msg.to, broken)
	}
}

// addresseeChanged reports that the contact was erased, or has another number than the message was accepted for.
func (msg *message) addresseeChanged() bool {
	c := msg.contact
	return c.erased || msg.to != "" && c.phone != "" && msg.to != c.phone
}

// mayBeOvertaken reports whether later messages may overtake this one (rule SND-21).
func (msg *message) mayBeOvertaken() bool {
	return msg.status == "scheduled" || msg.status == "queued" && msg.reason() == "first_message_rules"
}

func (msg *message) reason() string {
	if msg.deferral == nil {
		return ""
	}
	return msg.deferral.Reason
}

var (
	linkIn  = regexp.MustCompile(`(?i)https?://|\bwww\.|\b[a-z0-9-]+\.(com|org|net|io)\b`)
	mailIn  = regexp.MustCompile(`\S+@\S+\.\S+`)
	phoneIn = regexp.MustCompile(`\+?\d?[ .-]?\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4}`)
)

// firstRules returns the first-message rules that a message breaks (rule SND-14).
func (m *Model) firstRules(msg *message) (broken []string) {
	c := msg.contact
	if c.replied {
		return nil
	}
	limits := m.of(c).limits
	for rule, breaks := range map[string]bool{
		"pre_reply_max_messages": !c.before[msg.id] && len(c.before) >= limits.PreReplyMaxMessages,
		"pre_reply_max_chars":    utf8.RuneCountInString(msg.body) > limits.PreReplyMaxChars,
		"media":                  msg.media > 0,
		"link":                   linkIn.MatchString(mailIn.ReplaceAllString(msg.body, "")),
		"email":                  mailIn.MatchString(msg.body),
		"phone_number":           phoneIn.MatchString(msg.body),
	} {
		if breaks {
			broken = append(broken, rule)
		}
	}
	slices.Sort(broken)
	return broken
}
