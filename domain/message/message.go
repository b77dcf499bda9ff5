// Package message is one message and the moves that its status may make (interface 3.3, decisions section 7).
package message

import (
	"time"

	"github.com/google/uuid"

	"ledgerline/events"
)

// Status is where a message stands.
type Status string

// The statuses of interface 2.4.
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

// rank orders the statuses of an outbound message; a message never goes back. The one exception is stated by the
// specification: a scheduled message is queued again when it is due.
var rank = map[Status]int{Queued: 1, Scheduled: 2, Sending: 3, Sent: 4, Delivered: 5, Read: 6}

// Error codes of messages that failed (decisions section 7). A provider's own codes follow "sms_".
const (
	CodeOptedOut           = "contact_opted_out"
	CodeConsentRequired    = "consent_required"
	CodeHoldExpired        = "hold_expired"
	CodeCarrierRejected    = "carrier_rejected"
	CodeCarrierUnreachable = "carrier_unreachable"
	CodeNotOnChat          = "not_on_chat"
	CodeCanceled           = "canceled"
)

// Deferral is why and until when a message waits.
type Deferral struct {
	Reason string
	Until  *time.Time // nil: no end is known
	LineID string
}

// Message is the state of one message. The zero value does not exist.
type Message struct {
	events.MessageRef
	Organisation    uuid.UUID
	Workspace       uuid.UUID
	Status          Status
	AcceptedAt      time.Time
	Channel         string
	PoolID          *string
	RequestedLineID *string // the line the caller named
	SendAt          *time.Time
	Fallback        *bool
	Source          *string
	Automatic       string // the kind of an automatic text; "" for any other message
	Content         events.MessagePersonal

	IdentityID *string // the service identity that sends it
	ByStaff    bool    // a person wrote it

	LineID     string // the line it was routed to; "" before
	NewContact bool   // it is that line's first message to the contact
	FromNumber string // that line's number
	CarrierID  string
	SentAt     time.Time
	ErrorCode  string

	Attempt  int  // the newest; 0 before the first
	InFlight bool // the newest attempt has no outcome yet
	Failures int  // attempts that failed for now
	// NotBefore is when it may be tried: its own send_at or the next retry. Zero: at once.
	NotBefore      time.Time
	Deferred       *Deferral
	DeferredSince  time.Time // since when it has waited for anything but its send_at and retries; zero when it does not
	ReceiptMissing bool
	FellBack       bool   // it goes by SMS because the chat channel would not do
	smsPending     bool   // and has not been tried there yet
	chatCarrierID  string // the carrier's id of what had been sent on chat by then
}

// The kinds of automatic texts.
const (
	OptOutConfirmation = "opt_out_confirmation"
	Help               = "help"
)

// The channels of interface 2.4.
const (
	Chat = "chat"
	SMS  = "sms"
)

// Apply folds one event.
func (m Message) Apply(event events.Event, in events.Envelope) Message {
	switch e := event.(type) {
	case *events.MessageQueued:
		return Message{
			MessageRef: e.MessageRef, Organisation: in.Organisation, Workspace: in.Workspace, Status: Queued, AcceptedAt: in.At,
			Channel: e.Channel, PoolID: e.PoolID, RequestedLineID: e.LineID, SendAt: e.SendAt, Fallback: e.Fallback,
			Source: e.Source, Automatic: e.Automatic, Content: e.Content, IdentityID: e.IdentityID, ByStaff: e.ByStaff,
		}
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
	case *events.MessageRetried:
		m.InFlight, m.NotBefore = false, e.Until
		m.smsPending = m.Status == Sent // on another channel, which is not done yet
		if e.Reason != ReasonLost {
			m.Failures++
		}
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
	}
	return m
}

func (m *Message) applyDeferral(e *events.MessageDeferred, at time.Time) {
	m.Deferred = &Deferral{Reason: e.Reason, Until: e.Until}
	if e.LineID != nil {
		m.Deferred.LineID = *e.LineID
	}
	if m.DeferredSince.IsZero() {
		m.DeferredSince = at
	}
}

// Exists tells whether there is such a message.
func (m Message) Exists() bool { return m.MessageID != "" }

// Final tells that the message needs no more sending: the carrier has it, or it failed. Receipts may still come.
func (m Message) Final() bool {
	if m.Status == Sent && (m.smsPending || m.InFlight) { // on its way by SMS
		return false
	}
	return m.Status == Failed || m.Status == Received || rank[m.Status] >= rank[Sent]
}

func (m Message) before(s Status) bool {
	return m.Exists() && rank[m.Status] > 0 && rank[m.Status] < rank[s]
}
