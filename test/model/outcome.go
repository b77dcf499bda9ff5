package model

import (
	"time"

	"ledgerline/events"
)

// retries are the delays of rule SND-33.
var retries = []time.Duration{30 * time.Second, 2 * time.Minute, 10 * time.Minute}

// final removes a message from the open messages of its contact.
func (m *Model) final(msg *message) {
	msg.inFlight, msg.resend, msg.contact.ended = false, false, m.at.Position
	msg.contact.closed(msg)
}

// patience is how long a message may be deferred (rule SND-26). An automatic text answers within an hour or not at all.
func (msg *message) patience() time.Duration {
	if msg.automatic != "" {
		return time.Hour
	}
	return 7 * 24 * time.Hour
}

func (m *Model) sent(msg *message, e *events.MessageSent, at time.Time) {
	m.to(msg, "sent", "sending", "sent")
	if !msg.inFlight || e.LineID != msg.line || e.Channel != msg.channel {
		m.wrong("sent without an attempt", "%s by %s on %s", msg.id, e.LineID, e.Channel)
	}
	msg.sentAt, msg.carrierID[e.Channel] = at, e.CarrierID
	if e.Reconciled {
		m.Counted["reconciled"]++
	}
	m.final(msg)
}

// retried checks the delay of a retry (rule SND-33): 30 s, 2 min, 10 min, and no fourth.
func (m *Model) retried(msg *message, e *events.MessageRetried, at time.Time) {
	if !msg.inFlight || e.Attempt != msg.attempts {
		m.wrong("a result of an attempt that is not in flight", "%s, attempt %d", msg.id, e.Attempt)
	}
	msg.inFlight, msg.nextAttempt, msg.resend = false, e.Until, msg.status == "sent"
	if e.Reason == "lost" {
		m.Counted["lost"]++
		if !e.Until.Equal(at) {
			m.wrong("a retry at another time", "%s, lost, until %s", msg.id, e.Until)
		}
		return
	}
	if msg.failures >= len(retries) || !e.Until.Equal(at.Add(retries[msg.failures])) {
		m.wrong("a retry at another time", "%s, failure %d, until %s", msg.id, msg.failures+1, e.Until)
	}
	msg.failures++
	m.Counted["retries"]++
}

// followsRejection checks that a rejected attempt is followed by the failure of the message, or by its fallback to SMS,
// with the code of the rejection (rule SND-39).
func (m *Model) followsRejection(msg *message, event events.Event) {
	code := msg.rejected
	msg.rejected = ""
	switch e := event.(type) {
	case *events.MessageFailed:
		if msg.inFlight && e.Code != "carrier_unreachable" {
			m.wrong("an attempt in flight that has no result", "%s: %s", msg.id, e.Code)
		}
		if code == e.Code {
			return
		}
	case *events.MessageFellBack:
		if e.Reason == "not_on_chat" == (code == "not_on_chat") && (e.Reason == "not_on_chat" || e.Reason == "chat_failed") {
			return
		}
	}
	if code != "" {
		m.wrong("a rejection without its consequence", "%s, rejected with %s", msg.id, code)
	}
}

func (m *Model) failed(msg *message, e *events.MessageFailed, at time.Time) {
	m.to(msg, "failed", "queued", "scheduled", "sending", "sent")
	msg.code = e.Code
	m.Counted["failed "+e.Code]++
	if !codes.MatchString(e.Code) {
		m.wrong("an unknown error code", "%s: %s", msg.id, e.Code)
	}
	switch e.Code {
	case "contact_opted_out", "canceled", "consent_required", "hold_expired":
		if msg.inFlight {
			m.wrong("canceled while it may be leaving", "%s: %s", msg.id, e.Code)
		}
	}
	c := msg.contact
	switch e.Code {
	case "canceled": // otherwise it was canceled by request, see Ends
		if msg.automatic == "opt_out_confirmation" && m.refused(c) != "contact_opted_out" { // it opted in again
			msg.canceled = true
			break
		}
		if msg.canceled = msg.addresseeChanged() || c.phone == ""; msg.canceled && !c.erased {
			m.Counted["canceled for another number"]++
		}
	case "consent_required":
		if m.refused(c) != e.Code {
			m.wrong("failed for no reason", "%s: %s, the contact is %s", msg.id, e.Code, c.consent)
		}
	case "hold_expired":
		if msg.deferredSince.IsZero() || at.Before(msg.deferredSince.Add(msg.patience())) {
			m.wrong("expired too early", "%s, deferred since %s", msg.id, msg.deferredSince)
		}
	case "carrier_unreachable":
		if msg.failures != len(retries) {
			m.wrong("given up too early", "%s after %d failures", msg.id, msg.failures+1)
		}
	}
	m.final(msg)
	if msg.sentAt.IsZero() { // it no longer counts among the messages before the first reply
		delete(msg.contact.before, msg.id)
	}
}
