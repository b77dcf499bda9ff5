package message

import (
	"time"

	"ledgerline/domain/fault"
	"ledgerline/events"
)

const (
	// Ahead is how far ahead a message may be scheduled.
	MaxScheduleAhead = 365 * 24 * time.Hour
	// ReceiptAfter is how long a sent message waits for a receipt before receipt_missing is told.
	ReceiptTimeout = 24 * time.Hour
	// HoldFor is how long a message may be held before it fails with hold_expired.
	MaxDeferral = 7 * 24 * time.Hour
	// AnswerFor is HoldFor for automatic texts: they answer at once or not at all.
	MaxDeferralAutomatic = time.Hour
)

// ReasonLost marks an attempt that, after a crash, turned out never to have reached the carrier. It does not count as
// a failure.
const ReasonLost = "lost"

// retryDelays is how long after each failure the next attempt comes; after one more failure the message has failed.
var retryDelays = []time.Duration{30 * time.Second, 2 * time.Minute, 10 * time.Minute}

// Accept accepts an outbound message. One with a send_at ahead is scheduled at once; a send_at in the past is now, and
// taken off e.
func Accept(e *events.MessageQueued, now time.Time) []events.Event {
	if e.SendAt != nil && !e.SendAt.After(now) {
		e.SendAt = nil
	}
	accepted := []events.Event{e}
	if e.SendAt != nil {
		accepted = append(accepted, &events.MessageScheduled{MessageRef: e.MessageRef, Until: *e.SendAt})
	}
	return accepted
}

// BecomeDue queues a scheduled message whose time has come.
func (m Message) BecomeDue(now time.Time) []events.Event {
	if m.Status != Scheduled || now.Before(m.NotBefore) {
		return nil
	}
	return []events.Event{&events.MessageDue{MessageRef: m.MessageRef}}
}

// Route gives the message to a line, to which the contact may be new; the line that it has already is no event.
func (m Message) Route(lineID, from string, newContact bool) []events.Event {
	if m.LineID == lineID && m.FromNumber == from {
		return nil
	}
	return []events.Event{&events.MessageRouted{MessageRef: m.MessageRef, LineID: lineID, From: from, NewContact: newContact}}
}

// BeginAttempt starts the next attempt. Only one attempt is under way at a time, and none is made of a message that is not
// queued or waiting for its retry: both are refused with conflict.
func (m Message) BeginAttempt(lineID, channel string, now time.Time) ([]events.Event, error) {
	waits := m.Status == Queued || m.Status == Sending && !m.InFlight || m.Status == Sent && m.smsPending
	if !waits || now.Before(m.NotBefore) {
		return nil, fault.New(fault.Conflict, "A message that is %s cannot be sent now.", m.Status)
	}
	return []events.Event{&events.MessageSending{
		MessageRef: m.MessageRef, Attempt: m.Attempt + 1, LineID: lineID, Channel: channel, AfterSent: m.Status == Sent,
	}}, nil
}

// isInFlight tells that an attempt is the one under way; the outcome of any other comes too late.
func (m Message) isInFlight(attempt int) bool {
	return (m.Status == Sending || m.Status == Sent) && m.InFlight && m.Attempt == attempt
}

// RecordAttemptAccepted is the outcome of an attempt that the carrier accepted.
func (m Message) RecordAttemptAccepted(attempt int, channel, carrierID string, reconciled bool) []events.Event {
	if !m.isInFlight(attempt) {
		return nil
	}
	return []events.Event{&events.MessageSent{
		MessageRef: m.MessageRef, LineID: m.LineID, Channel: channel, CarrierID: carrierID, Reconciled: reconciled,
	}}
}

// RecordAttemptRejected is the outcome of an attempt that the carrier refused for good.
func (m Message) RecordAttemptRejected(attempt int, code string, details map[string]any) []events.Event {
	if !m.isInFlight(attempt) {
		return nil
	}
	return m.Fail(code, details)
}

// RecordAttemptFailed is the outcome of an attempt that failed for now: it is tried again after 30 s, 2 min and 10 min, and fails
// with carrier_unreachable when that was all.
func (m Message) RecordAttemptFailed(attempt int, reason string, now time.Time) []events.Event {
	if !m.isInFlight(attempt) {
		return nil
	}
	if m.Failures >= len(retryDelays) {
		return m.Fail(CodeCarrierUnreachable, map[string]any{"reason": reason, "attempts": attempt})
	}
	until := now.Add(retryDelays[m.Failures])
	return []events.Event{&events.MessageRetried{MessageRef: m.MessageRef, Attempt: attempt, Reason: reason, Until: until}}
}

// RecordAttemptLost is the outcome of an attempt that never reached the carrier, found out after a crash: it may be tried at once,
// with consent checked again.
func (m Message) RecordAttemptLost(attempt int, now time.Time) []events.Event {
	if !m.isInFlight(attempt) {
		return nil
	}
	return []events.Event{&events.MessageRetried{MessageRef: m.MessageRef, Attempt: attempt, Reason: ReasonLost, Until: now}}
}

// sentBefore adds, before a receipt that overtook the carrier's answer, that the message was sent.
func (m Message) sentBefore(carrierID string) []events.Event {
	if m.isForChatAttempt(carrierID) {
		return nil
	}
	return m.RecordAttemptAccepted(m.Attempt, m.Channel, carrierID, false)
}

// isForChatAttempt tells that a receipt is of what was sent on chat before the message went on by SMS. It says nothing about the SMS.
func (m Message) isForChatAttempt(carrierID string) bool {
	return m.chatCarrierID != "" && m.chatCarrierID == carrierID
}

// RecordDelivered takes a delivery receipt. A late or repeated one is no event, nor one for a message that was never tried.
func (m Message) RecordDelivered(at time.Time, carrierID string) []events.Event {
	if m.Attempt == 0 || !m.before(Delivered) {
		return nil
	}
	delivered := &events.MessageDelivered{MessageRef: m.MessageRef, At: at}
	if m.NewContact {
		delivered.LineID = m.LineID
	}
	return append(m.sentBefore(carrierID), delivered)
}

// RecordRead takes a read receipt, under the same rules.
func (m Message) RecordRead(at time.Time, carrierID string) []events.Event {
	if m.Attempt == 0 || !m.before(Read) {
		return nil
	}
	return append(m.sentBefore(carrierID), &events.MessageRead{MessageRef: m.MessageRef, At: at})
}

// Fail ends the message in any state before delivered; later it is no event.
func (m Message) Fail(code string, details map[string]any) []events.Event {
	if !m.before(Delivered) {
		return nil
	}
	e := &events.MessageFailed{MessageRef: m.MessageRef, Code: code, Details: details}
	if m.LineID != "" {
		lineID := m.LineID
		e.LineID = &lineID
	}
	return []events.Event{e}
}

// RecordUndelivered takes the receipt of a message that the carrier took and could not deliver, under the same rules as Deliver. One that
// went on by SMS has failed on chat already.
func (m Message) RecordUndelivered(code string, details map[string]any, carrierID string) []events.Event {
	if m.Attempt == 0 || !m.before(Delivered) || m.isForChatAttempt(carrierID) {
		return nil
	}
	return append(m.sentBefore(carrierID), m.Fail(code, details)...)
}

// FallBackToSMS sends a message that failed on the chat channel on by SMS, in place of failing it: once, and unless its sender forbade
// it. ok is false when it cannot.
func (m Message) FallBackToSMS(code string) (events.Event, bool) {
	forbidden := m.Fallback != nil && !*m.Fallback
	if m.Channel != Chat || m.FellBack || forbidden || !m.before(Delivered) {
		return nil, false
	}
	return &events.MessageFellBack{MessageRef: m.MessageRef, Reason: code, Automatic: m.Automatic}, true
}

// CancelByRequest is Cancel by request: refused with conflict unless the message is queued or scheduled (decisions section 7), also
// while it waits to be tried again, or to go on by SMS.
func (m Message) CancelByRequest() ([]events.Event, error) {
	if m.Status != Queued && m.Status != Scheduled {
		return nil, fault.New(fault.Conflict, "Only a message that is queued or scheduled can be canceled; this one is %s.", m.Status)
	}
	return m.Cancel(CodeCanceled, nil), nil
}

// Cancel fails the message unless an attempt is under way or over: what the carrier may have cannot be called back.
func (m Message) Cancel(code string, details map[string]any) []events.Event {
	if m.InFlight || !m.before(Sent) && !(m.Status == Sent && m.smsPending) {
		return nil
	}
	return m.Fail(code, details)
}

// RecordReceiptMissing tells, once, that a sent message has had no receipt for ReceiptAfter.
func (m Message) RecordReceiptMissing(now time.Time) []events.Event {
	if m.Status != Sent || m.smsPending || m.InFlight || m.ReceiptMissing || now.Before(m.SentAt.Add(ReceiptTimeout)) {
		return nil
	}
	return []events.Event{&events.MessageReceiptMissing{MessageRef: m.MessageRef}}
}

// Defer holds the message. The same hold again is no event.
func (m Message) Defer(h Deferral, detail map[string]any) []events.Event {
	if m.Deferred != nil && m.Deferred.Reason == h.Reason && m.Deferred.LineID == h.LineID && sameTime(m.Deferred.Until, h.Until) {
		return nil
	}
	e := &events.MessageDeferred{MessageRef: m.MessageRef, Reason: h.Reason, Until: h.Until, Detail: detail}
	if h.LineID != "" {
		e.LineID = &h.LineID
	}
	return []events.Event{e}
}

// ReasonContactBusy is the reason of a message that waits for an earlier one to its contact.
const ReasonContactBusy = "contact_busy"

// DeferBehindEarlier holds the message because an earlier one to the contact waits. One that was tried or waits for its own time is
// left as it is; one whose time has come is queued first, and one that was held for too long fails.
func (m Message) DeferBehindEarlier(now time.Time) []events.Event {
	due := m.BecomeDue(now)
	if ends := m.DeferralExpiresAt(); !ends.IsZero() && !now.Before(ends) {
		return m.Cancel(CodeHoldExpired, map[string]any{"reason": m.Deferred.Reason})
	}
	if len(due) == 0 && m.Status != Queued || m.Attempt > 0 {
		return nil
	}
	return append(due, m.Defer(Deferral{Reason: ReasonContactBusy}, nil)...)
}

func sameTime(a, b *time.Time) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(*b)
}

// DeferralExpiresAt is when the message fails if it is held until then; the zero time when it is not held.
func (m Message) DeferralExpiresAt() time.Time {
	if m.DeferredSince.IsZero() {
		return time.Time{}
	}
	if m.Automatic != "" {
		return m.DeferredSince.Add(MaxDeferralAutomatic)
	}
	return m.DeferredSince.Add(MaxDeferral)
}
