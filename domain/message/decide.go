package message

import (
	"maps"
	"reflect"
	"time"

	"ledgerline/domain/fault"
	"ledgerline/events"
)

const (
	// MaxScheduleAhead is how far in the future a send_at may lie (rule SND-7).
	MaxScheduleAhead = 365 * 24 * time.Hour
	// ReceiptTimeout is how long after sending a message without a receipt gets that recorded on its timeline (rule
	// SND-37).
	ReceiptTimeout = 24 * time.Hour
	// MaxDeferral is how long a message may be deferred before it fails with hold_expired (rule SND-26).
	MaxDeferral = 7 * 24 * time.Hour
	// MaxDeferralAutomatic is MaxDeferral for automatic texts: a later answer is of no use to the contact.
	MaxDeferralAutomatic = time.Hour
)

// ReasonLost is the reason of a retry after a lookup found that the attempt never reached the carrier. Such an attempt
// does not count as a failure (rule SND-34).
const ReasonLost = "lost"

// ReasonChatFailed is the reason of a fallback after a failure on chat other than not_on_chat (rule SMS-14).
const ReasonChatFailed = "chat_failed"

// retryDelays are the delays between a failed attempt and the next one (rule SND-33). A failure after the last delay
// fails the message.
var retryDelays = []time.Duration{30 * time.Second, 2 * time.Minute, 10 * time.Minute}

// Accept returns the events of an accepted outbound message (rule SND-7). A send_at in the future schedules the
// message at once. A send_at that has passed means now; Accept removes it from e.
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

// BecomeDue queues a scheduled message whose send_at has come (rule SND-7). Before that, and for any other message,
// it returns no event.
func (m Message) BecomeDue(now time.Time) []events.Event {
	if m.Status != Scheduled || now.Before(m.NotBefore) {
		return nil
	}
	return []events.Event{&events.MessageDue{MessageRef: m.MessageRef}}
}

// Route assigns the message to a line with the number from (rule SND-40); newContact states whether the contact is new
// to that line. It returns no event if the message has this line and number already.
func (m Message) Route(lineID, from string, newContact bool) []events.Event {
	if m.LineID == lineID && m.FromNumber == from {
		return nil
	}
	return []events.Event{&events.MessageRouted{MessageRef: m.MessageRef, LineID: lineID, From: from, NewContact: newContact}}
}

// BeginAttempt starts the next attempt to send (rule SND-32). It refuses with conflict unless the message is queued or
// is due for a retry. So at most one attempt is in flight.
func (m Message) BeginAttempt(lineID, channel string, now time.Time) ([]events.Event, error) {
	ready := m.Status == Queued || m.Status == Sending && !m.InFlight || m.Status == Sent && m.smsPending
	if !ready || now.Before(m.NotBefore) {
		return nil, fault.New(fault.Conflict, "A message that is %s cannot be sent now.", m.Status)
	}
	return []events.Event{&events.MessageSending{
		MessageRef: m.MessageRef, Attempt: m.Attempt + 1, LineID: lineID, Channel: channel, AfterSent: m.Status == Sent,
	}}, nil
}

// isInFlight reports whether this attempt is the one in flight. The result of any other attempt is late and changes
// nothing (rule SND-35).
func (m Message) isInFlight(attempt int) bool {
	return (m.Status == Sending || m.Status == Sent) && m.InFlight && m.Attempt == attempt
}

// RecordAttemptAccepted records that the carrier accepted an attempt, under its id carrierID. reconciled states that a
// later lookup at the carrier found this out. A late result returns no event (rule SND-35).
func (m Message) RecordAttemptAccepted(attempt int, channel, carrierID string, reconciled bool) []events.Event {
	if !m.isInFlight(attempt) {
		return nil
	}
	return []events.Event{&events.MessageSent{
		MessageRef: m.MessageRef, LineID: m.sender(), Channel: channel, CarrierID: carrierID, Reconciled: reconciled,
	}}
}

// RecordAttemptRejected records that the carrier refused an attempt permanently, and fails the message (rule SND-39). A
// late result returns no event.
func (m Message) RecordAttemptRejected(attempt int, code string, details map[string]any) []events.Event {
	if !m.isInFlight(attempt) {
		return nil
	}
	rejected := &events.MessageRejected{MessageRef: m.MessageRef, Attempt: attempt, Code: code, LineID: m.sender(), Channel: m.Channel}
	return append([]events.Event{rejected}, m.Fail(code, m.withAttempts(details))...)
}

// withAttempts returns the details of a failure with the channel of the last attempt and the number of attempts.
func (m Message) withAttempts(details map[string]any) map[string]any {
	all := map[string]any{"channel": m.Channel, "attempts": m.Attempt}
	maps.Copy(all, details)
	return all
}

// RecordAttemptFailed records that an attempt failed for a transient reason. The next attempts follow after 30 seconds,
// 2 minutes and 10 minutes; a failure after the last of them fails the message with carrier_unreachable (rule SND-33).
// A late result returns no event.
func (m Message) RecordAttemptFailed(attempt int, reason string, now time.Time) []events.Event {
	return m.RecordAttemptPostponed(attempt, reason, now, 0)
}

// RecordAttemptPostponed is RecordAttemptFailed for a carrier that asks for a pause: the next attempt follows after the
// pause, if that is longer (rule SMS-19).
func (m Message) RecordAttemptPostponed(attempt int, reason string, now time.Time, pause time.Duration) []events.Event {
	if !m.isInFlight(attempt) {
		return nil
	}
	if m.Failures >= len(retryDelays) {
		return m.Fail(CodeCarrierUnreachable, map[string]any{"reason": reason, "attempts": attempt})
	}
	until := now.Add(max(retryDelays[m.Failures], pause))
	return []events.Event{&events.MessageRetried{MessageRef: m.MessageRef, Attempt: attempt, Reason: reason, Until: until}}
}

// RecordAttemptLost records that an attempt never reached the carrier, which a later lookup found out. The message may
// be sent again at once (rule SND-34). A late result returns no event.
func (m Message) RecordAttemptLost(attempt int, now time.Time) []events.Event {
	if !m.isInFlight(attempt) {
		return nil
	}
	return []events.Event{&events.MessageRetried{MessageRef: m.MessageRef, Attempt: attempt, Reason: ReasonLost, Until: now}}
}

// sentByReceipt returns message.sent for a receipt that arrives before the carrier has answered the attempt: the
// receipt proves that the carrier accepted the message (rule SND-36). If message.sent is recorded already, it returns
// no event.
func (m Message) sentByReceipt(carrierID string) []events.Event {
	if m.isForChatAttempt(carrierID) {
		return nil
	}
	return m.RecordAttemptAccepted(m.Attempt, m.Channel, carrierID, false)
}

// isForChatAttempt reports whether a receipt is about the chat message that preceded the SMS. Such a receipt says
// nothing about the SMS (rule SND-55).
func (m Message) isForChatAttempt(carrierID string) bool {
	return m.chatCarrierID != "" && m.chatCarrierID == carrierID
}

// RecordDelivered records a delivery receipt; at is its time. It returns no event for a repeated or late receipt, and
// for a message that was never attempted (rule SND-35).
func (m Message) RecordDelivered(at time.Time, carrierID string) []events.Event {
	if m.Attempt == 0 || !m.before(Delivered) {
		return nil
	}
	delivered := &events.MessageDelivered{MessageRef: m.MessageRef, At: at}
	if m.NewContact && !m.ByConnection() {
		delivered.LineID = m.LineID
	}
	return append(m.sentByReceipt(carrierID), delivered)
}

// RecordRead records a read receipt, under the same conditions as RecordDelivered; at is its time.
func (m Message) RecordRead(at time.Time, carrierID string) []events.Event {
	if m.Attempt == 0 || !m.before(Read) {
		return nil
	}
	return append(m.sentByReceipt(carrierID), &events.MessageRead{MessageRef: m.MessageRef, At: at})
}

// Fail ends the message with an error code (rule SND-30). A delivered, read or failed message returns no event (rule
// SND-31).
func (m Message) Fail(code string, details map[string]any) []events.Event {
	if !m.before(Delivered) {
		return nil
	}
	e := &events.MessageFailed{MessageRef: m.MessageRef, Code: code, Details: details}
	if lineID := m.sender(); lineID != "" {
		e.LineID = &lineID
	}
	return []events.Event{e}
}

// RecordUndelivered fails the message because the carrier reports that it could not deliver it, under the same
// conditions as RecordDelivered. If the message fell back to SMS, a receipt for its chat message returns no event.
func (m Message) RecordUndelivered(code string, details map[string]any, carrierID string) []events.Event {
	if m.Attempt == 0 || !m.before(Delivered) || m.isForChatAttempt(carrierID) {
		return nil
	}
	return append(m.sentByReceipt(carrierID), m.Fail(code, m.withAttempts(details))...)
}

// FallBackToSMS returns message.fell_back, with which a chat message continues by SMS instead of failing with code
// (rule SND-54). ok is false when the request forbade the fallback, when the message fell back before, or when it is
// not a chat message or is already delivered. The caller checks whether the pool and the connection or the carrier
// allow it; route is the connection's.
func (m Message) FallBackToSMS(code string, route *events.SMSRoute) (events.Event, bool) {
	forbidden := m.Fallback != nil && !*m.Fallback
	if m.Channel != Chat || m.FellBack || forbidden || !m.before(Delivered) {
		return nil, false
	}
	reason := ReasonChatFailed
	if code == CodeNotOnChat {
		reason = CodeNotOnChat
	}
	return &events.MessageFellBack{MessageRef: m.MessageRef, Reason: reason, SMS: route, Automatic: m.Automatic}, true
}

// CancelByRequest fails a queued or scheduled message with canceled (rule SND-9). A message with any other status, also
// one between two attempts, is refused with conflict.
func (m Message) CancelByRequest() ([]events.Event, error) {
	if m.Status != Queued && m.Status != Scheduled {
		return nil, fault.New(fault.Conflict, "Only a message that is queued or scheduled can be canceled; this one is %s.", m.Status)
	}
	return m.Cancel(CodeCanceled, nil), nil
}

// Cancel fails the message with a code if no carrier can have it: no attempt is in flight, and no attempt on the
// present channel succeeded. Otherwise it returns no event (rule SND-5).
func (m Message) Cancel(code string, details map[string]any) []events.Event {
	if m.InFlight || !m.before(Sent) && !(m.Status == Sent && m.smsPending) {
		return nil
	}
	return m.Fail(code, details)
}

// RecordReceiptMissing records, once, that a sent message has had no receipt for ReceiptTimeout (rule SND-37).
func (m Message) RecordReceiptMissing(now time.Time) []events.Event {
	if m.Status != Sent || m.smsPending || m.InFlight || m.ReceiptMissing || now.Before(m.SentAt.Add(ReceiptTimeout)) {
		return nil
	}
	return []events.Event{&events.MessageReceiptMissing{MessageRef: m.MessageRef}}
}

// Defer records a deferral. It returns no event if the message has the same deferral already.
func (m Message) Defer(d Deferral, detail map[string]any) []events.Event {
	if m.Deferred != nil && m.Deferred.equal(&d) {
		return nil
	}
	e := &events.MessageDeferred{MessageRef: m.MessageRef, Reason: d.Reason, Until: d.Until, Detail: detail, Wants: d.Wants}
	if d.LineID != "" {
		e.LineID = &d.LineID
	}
	return []events.Event{e}
}

func (d *Deferral) equal(other *Deferral) bool {
	return d.Reason == other.Reason && d.LineID == other.LineID && sameTime(d.Until, other.Until) &&
		reflect.DeepEqual(d.Wants, other.Wants)
}

// ReasonContactBusy is the reason of the deferral of a message that waits for an earlier message to its contact.
const ReasonContactBusy = "contact_busy"

// DeferBehindEarlier defers the message because an earlier message to the contact has not been sent (rule SND-20). A
// scheduled message that is due becomes queued first. A message that was attempted, or waits for its own send_at,
// returns no event. A message that was deferred for too long fails with hold_expired (rule SND-26).
func (m Message) DeferBehindEarlier(now time.Time) []events.Event {
	due := m.BecomeDue(now)
	if expires := m.DeferralExpiresAt(); !expires.IsZero() && !now.Before(expires) {
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

// DeferralExpiresAt returns when a deferred message fails with hold_expired (rule SND-26); the zero time when it is
// not deferred.
func (m Message) DeferralExpiresAt() time.Time {
	if m.DeferredSince.IsZero() {
		return time.Time{}
	}
	if m.Automatic != "" {
		return m.DeferredSince.Add(MaxDeferralAutomatic)
	}
	return m.DeferredSince.Add(MaxDeferral)
}
