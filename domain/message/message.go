// Package message holds the state of one message and the decisions that move it through its statuses: accepted,
// deferred, attempted, sent, delivered, read or failed (rules SND-7 to SND-9 and SND-25 to SND-38).
package message

import (
	"time"

	"github.com/google/uuid"

	"ledgerline/events"
)

// Status is the state of a message as the API shows it (rule INB-25).
type Status string

// The statuses of rule INB-25. Received is the only one of an inbound message.
const (
	Queued    Status = "queued"
	Scheduled Status = "scheduled"
	Sending   Status = "sending"
	Sent      Status = "sent"
	Delivered Status = "delivered"
	Read      Status = "read"
	Failed    Status = "failed"
	Received  Status = "received"
)

// rank orders the statuses of an outbound message. The status never goes back (rule SND-31), except that a scheduled
// message becomes queued when it is due. Failed and Received have no rank.
var rank = map[Status]int{Queued: 1, Scheduled: 2, Sending: 3, Sent: 4, Delivered: 5, Read: 6}

// The error codes of failed messages (rule SND-30). An error code of an SMS carrier gets the prefix "sms_".
const (
	CodeOptedOut           = "contact_opted_out"
	CodeConsentRequired    = "consent_required"
	CodeHoldExpired        = "hold_expired"
	CodeCarrierRejected    = "carrier_rejected"
	CodeCarrierUnreachable = "carrier_unreachable"
	CodeNotOnChat          = "not_on_chat"
	CodeCanceled           = "canceled"
)

// Deferral states why a message cannot be sent now, and until when.
type Deferral struct {
	Reason string
	Until  *time.Time             // nil: no end is known
	LineID string                 // the line whose capacity the message waits for; "" for none
	Wants  *events.WantedCapacity // nil: the message does not wait for capacity
}

// Message is the state of one message, folded from its stream. The zero value is a message that does not exist.
type Message struct {
	events.MessageRef
	Organisation    uuid.UUID
	Workspace       uuid.UUID
	Status          Status
	AcceptedAt      time.Time
	Channel         string
	PoolID          *string
	RequestedLineID *string // the line that the request named
	SendAt          *time.Time
	Fallback        *bool
	Source          *string
	SMS             *events.SMSRoute // with the channel sms: the connection that sends it; nil for a line
	Automatic       string           // OptOutConfirmation or Help; "" for any other message
	Content         events.MessagePersonal

	IdentityID *string // the service identity that sends it
	ByStaff    bool    // a signed-in person wrote it

	SandboxOffset *int // see events.MessageQueued

	LineID     string // line that the message was routed to, "" until then; of an inbound message the line that received it
	NewContact bool   // the contact is new to that line (rule SND-45)
	FromNumber string // the number of that line
	CarrierID  string // the carrier's id of the message
	SentAt     time.Time
	ErrorCode  string

	Attempt  int  // number of the newest attempt; 0 before the first
	InFlight bool // the newest attempt has no result yet
	Failures int  // attempts on the present channel that failed for a transient reason
	// NotBefore is the earliest time of the next attempt: send_at, or the next retry. Zero means at once.
	NotBefore      time.Time
	Deferred       *Deferral // the present deferral; nil when the message is not deferred
	DeferredSince  time.Time // when the present series of deferrals began; zero when the message is not deferred
	ReceiptMissing bool
	FellBack       bool   // the chat channel failed and the message continues by SMS (rule SND-54)
	smsPending     bool   // the message fell back, and an SMS attempt has to begin
	chatCarrierID  string // the carrier's id of the chat message that preceded the SMS
}

// The kinds of automatic texts (rules SND-50 and SND-51).
const (
	OptOutConfirmation = "opt_out_confirmation"
	Help               = "help"
)

// The channels that a message can use.
const (
	Chat = "chat"
	SMS  = "sms"
)

// Apply returns the state after one event of the message's stream. It does not modify m.
func (m Message) Apply(event events.Event, in events.Envelope) Message {
	switch e := event.(type) {
	case *events.MessageQueued:
		return Message{
			MessageRef: e.MessageRef, Organisation: in.Organisation, Workspace: in.Workspace, Status: Queued, AcceptedAt: in.At,
			Channel: e.Channel, PoolID: e.PoolID, RequestedLineID: e.LineID, SendAt: e.SendAt, Fallback: e.Fallback,
			Source: e.Source, Automatic: e.Automatic, Content: e.Content, IdentityID: e.IdentityID, ByStaff: e.ByStaff,
			SandboxOffset: e.SandboxOffset,
		}.withSMS(e.SMS)
	case *events.MessageReceived:
		return Message{
			MessageRef: e.MessageRef, Organisation: in.Organisation, Workspace: in.Workspace, Status: Received, AcceptedAt: in.At,
			Channel: e.Channel, LineID: e.LineID, CarrierID: e.CarrierID, Content: e.Content,
		}
	case *events.MessageScheduled:
		m.Status, m.NotBefore = Scheduled, e.Until
	case *events.MessageDue:
		m.Status, m.NotBefore = Queued, time.Time{}
	case *events.MessageRouted:
		m.LineID, m.FromNumber, m.NewContact = e.LineID, e.From, e.NewContact
		if m.Deferred != nil { // the capacity that the message waited for is reserved now
			d := *m.Deferred
			d.Wants = nil
			m.Deferred = &d
		}
	case *events.MessageDeferred:
		m.applyDeferral(e, in.At)
	case *events.MessageSending:
		if !e.AfterSent {
			m.Status = Sending
		}
		m.Attempt, m.InFlight, m.Channel, m.smsPending = e.Attempt, true, e.Channel, false
		m.Deferred, m.DeferredSince, m.NotBefore = nil, time.Time{}, time.Time{}
	case *events.MessageSent:
		m.Status, m.InFlight, m.Channel, m.CarrierID, m.SentAt = Sent, false, e.Channel, e.CarrierID, in.At
		if e.From != "" {
			m.FromNumber = e.From
		}
	case *events.MessageRetried:
		m.InFlight, m.NotBefore = false, e.Until
		m.smsPending = m.Status == Sent // after a sent chat message the failed attempt was its SMS
		if e.Reason != ReasonLost {
			m.Failures++
		}
	case *events.MessageRejected:
		m.InFlight = false
	case *events.MessageDelivered:
		m.Status = Delivered
	case *events.MessageRead:
		m.Status = Read
	case *events.MessageFailed:
		m.Status, m.InFlight, m.ErrorCode = Failed, false, e.Code
	case *events.MessageReceiptMissing:
		m.ReceiptMissing = true
	case *events.MessageFellBack:
		m.Channel, m.InFlight, m.FellBack, m.smsPending, m.Failures, m.NotBefore = SMS, false, true, true, 0, time.Time{}
		m.chatCarrierID = m.CarrierID
		m = m.withSMS(e.SMS)
	}
	return m
}

func (m Message) withSMS(route *events.SMSRoute) Message {
	if route != nil {
		m.SMS, m.FromNumber = route, route.From
	}
	return m
}

// ByConnection reports whether the message goes by an SMS connection, and so by no line (rule SMS-16).
func (m Message) ByConnection() bool { return m.SMS != nil }

// sender returns the line that sends the message; "" for an SMS connection.
func (m Message) sender() string {
	if m.ByConnection() {
		return ""
	}
	return m.LineID
}

// applyDeferral keeps the time of the first deferral in a row: a further deferral does not extend the limit (rule
// SND-26).
func (m *Message) applyDeferral(e *events.MessageDeferred, at time.Time) {
	m.Deferred = &Deferral{Reason: e.Reason, Until: e.Until, Wants: e.Wants}
	if e.LineID != nil {
		m.Deferred.LineID = *e.LineID
	}
	if m.DeferredSince.IsZero() {
		m.DeferredSince = at
	}
}

// Exists reports whether the message was accepted or received.
func (m Message) Exists() bool { return m.MessageID != "" }

// Final reports whether nothing is left to send: a carrier has the message, or it failed. Receipts may still arrive.
func (m Message) Final() bool {
	if m.Status == Sent && (m.smsPending || m.InFlight) { // the message continues by SMS
		return false
	}
	return m.Status == Failed || m.Status == Received || rank[m.Status] >= rank[Sent]
}

// before reports whether m is an outbound message that has not failed and has not reached status s.
func (m Message) before(s Status) bool {
	return m.Exists() && rank[m.Status] > 0 && rank[m.Status] < rank[s]
}
