package events

import "time"

// MessageRef is in every event of a message, so that a reader needs nothing else to place it. Stream: the message id.
type MessageRef struct {
	MessageID      string `json:"message_id"`
	ConversationID string `json:"conversation_id"`
	ContactID      string `json:"contact_id"`
	IsTest         bool   `json:"is_test,omitempty"`
}

// MessageQueued accepts an outbound message.
type MessageQueued struct {
	MessageRef
	Channel   string     `json:"channel"` // chat or sms: the channel it is meant for
	PoolID    *string    `json:"pool_id,omitempty"`
	LineID    *string    `json:"line_id,omitempty"` // the line the caller named
	SendAt    *time.Time `json:"send_at,omitempty"`
	Fallback  *bool      `json:"fallback,omitempty"` // false forbids SMS
	Source    *string    `json:"source"`             // api, dashboard, workflow, agent, outreach, mcp; null for automatic texts
	ByStaff   bool       `json:"sent_by_staff,omitempty"`
	Automatic string     `json:"automatic,omitempty"` // opt_out_confirmation or help: exempt from consent and quiet hours
	ReplyTo   *string    `json:"reply_to,omitempty"`  // the message that an automatic text answers
	// IdentityID is the service identity that sends it, whose lines and daily limit hold for it.
	IdentityID *string         `json:"identity_id,omitempty"`
	Content    MessagePersonal `json:"-"`
}

// MessagePersonal is what is sealed of a message.
type MessagePersonal struct {
	To         string         `json:"to,omitempty"`
	From       string         `json:"from,omitempty"`
	Body       string         `json:"body,omitempty"`
	Media      []Media        `json:"media,omitempty"`
	ExternalID *string        `json:"external_id,omitempty"`
	Metadata   map[string]any `json:"metadata,omitempty"`
}

// Media is one attachment (interface 2.4).
type Media struct {
	URL      string  `json:"url"`
	Filename *string `json:"filename"`
	MIME     *string `json:"mime"`
	Size     *int64  `json:"size"` // bytes
}

// Subject implements Sealed.
func (e *MessageQueued) Subject() string { return e.ContactID }

// Personal implements Sealed.
func (e *MessageQueued) Personal() any { return &e.Content }

// MessageScheduled tells that a message waits for its own send_at.
type MessageScheduled struct {
	MessageRef
	Until time.Time `json:"until"`
}

// MessageDue tells that a scheduled message's time has come; it is queued again.
type MessageDue struct{ MessageRef }

// MessageRouted tells which line will send it.
type MessageRouted struct {
	MessageRef
	LineID string `json:"line_id"`
	From   string `json:"from"` // the line's number
	// NewContact tells that the contact was new to the line: it counts toward the line's limits.
	NewContact bool `json:"new_contact,omitempty"`
}

// MessageDeferred tells why a message waits, and until when if that is known.
type MessageDeferred struct {
	MessageRef
	Reason string         `json:"reason"`
	Until  *time.Time     `json:"until"`
	LineID *string        `json:"line_id"`
	Detail map[string]any `json:"detail,omitempty"`
}

// MessageSending is written before the carrier is called, so that a crash in between is seen and reconciled.
type MessageSending struct {
	MessageRef
	Attempt int    `json:"attempt"` // from 1
	LineID  string `json:"line_id"`
	Channel string `json:"channel"`
	// AfterSent tells that an earlier attempt had been sent, on another channel: the status stays what it was.
	AfterSent bool `json:"after_sent,omitempty"`
}

// MessageSent tells that the carrier took it.
type MessageSent struct {
	MessageRef
	LineID     string `json:"line_id"`
	Channel    string `json:"channel"`
	CarrierID  string `json:"carrier_id"`
	Reconciled bool   `json:"reconciled,omitempty"` // found out by asking the carrier after a crash, not from the call itself or a receipt
}

// MessageRetried tells that an attempt failed for now and when the next one is due.
type MessageRetried struct {
	MessageRef
	Attempt int       `json:"attempt"` // the one that failed
	Reason  string    `json:"reason"`
	Until   time.Time `json:"until"`
}

// MessageDelivered is the carrier's delivery receipt.
type MessageDelivered struct {
	MessageRef
	At time.Time `json:"at"`
	// LineID is set for the first message of a line to a contact: its answer is waited for.
	LineID string `json:"first_of_line_id,omitempty"`
}

// MessageRead is the carrier's read receipt.
type MessageRead struct {
	MessageRef
	At time.Time `json:"at"`
}

// MessageFailed ends a message that will not be delivered.
type MessageFailed struct {
	MessageRef
	Code    string         `json:"code"`
	Details map[string]any `json:"details,omitempty"`
	LineID  *string        `json:"line_id,omitempty"`
}

// MessageReceiptMissing tells that no receipt came in time; the status stays sent.
type MessageReceiptMissing struct{ MessageRef }

// MessageReceived is a message from a contact. Stream: its own message id.
type MessageReceived struct {
	MessageRef
	LineID    string          `json:"line_id"`
	Channel   string          `json:"channel"`
	CarrierID string          `json:"carrier_id,omitempty"`
	Content   MessagePersonal `json:"-"`
}

// Subject implements Sealed.
func (e *MessageReceived) Subject() string { return e.ContactID }

// Personal implements Sealed.
func (e *MessageReceived) Personal() any { return &e.Content }

// MessageFellBack tells that a message goes on by SMS.
type MessageFellBack struct {
	MessageRef
	Reason string `json:"reason"` // not_on_chat, or the error code of the chat attempt
	// Automatic is that of the message: an answer to what the contact asked passes what waits, also by SMS.
	Automatic string `json:"automatic,omitempty"`
}
