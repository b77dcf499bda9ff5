package events

import "time"

// MessageRef identifies the message of an event, its conversation and its contact. Stream: the message id.
type MessageRef struct {
	MessageID      string `json:"message_id"`
	ConversationID string `json:"conversation_id"`
	ContactID      string `json:"contact_id"`
	IsTest         bool   `json:"is_test,omitempty"`
}

// MessageQueued accepts an outbound message.
type MessageQueued struct {
	MessageRef
	Channel   string     `json:"channel"` // chat or sms: the requested channel
	PoolID    *string    `json:"pool_id,omitempty"`
	LineID    *string    `json:"line_id,omitempty"` // named by the request
	SendAt    *time.Time `json:"send_at,omitempty"`
	Fallback  *bool      `json:"fallback,omitempty"` // false: never by SMS
	Source    *string    `json:"source"`             // api, dashboard, workflow, agent, outreach, mcp; null for automatic texts
	ByStaff   bool       `json:"sent_by_staff,omitempty"`
	Automatic string     `json:"automatic,omitempty"` // opt_out_confirmation or help: exempt from consent and quiet hours
	ReplyTo   *string    `json:"reply_to,omitempty"`  // the message that an automatic text answers
	// IdentityID is the service identity that sends the message; its allowed lines and daily limit apply.
	IdentityID *string `json:"identity_id,omitempty"`
	// SandboxOffset is the offset from UTC in seconds, east positive, in which the quiet hours of a sandbox message are
	// judged, in place of the zones of its number (rule SND-63).
	SandboxOffset *int            `json:"sandbox_offset,omitempty"`
	SMS           *SMSRoute       `json:"sms,omitempty"` // with the channel sms, unless a line sends it
	Content       MessagePersonal `json:"-"`
}

// SMSRoute says how a message goes by an SMS connection.
type SMSRoute struct {
	ConnectionID string `json:"connection_id"`
	From         string `json:"from,omitempty"`   // number of ours; "" leaves the choice to the messaging service
	Prefix       string `json:"prefix,omitempty"` // begins the text
}

// MessagePersonal is the personal data of a message.
type MessagePersonal struct {
	To         string         `json:"to,omitempty"`
	From       string         `json:"from,omitempty"`
	Body       string         `json:"body,omitempty"`
	Media      []Media        `json:"media,omitempty"`
	ExternalID *string        `json:"external_id,omitempty"`
	Metadata   map[string]any `json:"metadata,omitempty"`
}

// Media is an attachment.
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

// MessageScheduled records that a message waits for its send_at.
type MessageScheduled struct {
	MessageRef
	Until time.Time `json:"until"`
}

// MessageDue records that the send_at of a scheduled message was reached. The message is queued again.
type MessageDue struct{ MessageRef }

// MessageRouted records the line that was chosen to send the message.
type MessageRouted struct {
	MessageRef
	LineID string `json:"line_id"`
	From   string `json:"from"` // the line's number
	// NewContact is true when the contact was new to the line and counts toward its limits for new contacts.
	NewContact bool `json:"new_contact,omitempty"`
}

// MessageDeferred records why a message cannot leave yet, and until when if that is known.
type MessageDeferred struct {
	MessageRef
	Reason string         `json:"reason"`
	Until  *time.Time     `json:"until"`
	LineID *string        `json:"line_id"`
	Detail map[string]any `json:"detail,omitempty"`
	// Wants is the capacity that lets the message leave; nil when it does not wait for capacity. A message that waits for
	// capacity keeps Wants while it is deferred for quiet hours, and with it its position among the messages that wait.
	Wants *WantedCapacity `json:"wants,omitempty"`
}

// WantedCapacity says which lines can take a deferred message. The lists are sorted, so that equal wants are equal.
type WantedCapacity struct {
	// LineID is the line that comes first: the line that the sender named, or the contact's own. While it can send, the
	// message leaves by no other line.
	LineID     string `json:"line_id,omitempty"`
	NewContact bool   `json:"new_contact,omitempty"` // the contact is new to LineID
	// PoolID is the pool whose lines come next, when LineID is empty or cannot send.
	PoolID       string   `json:"pool_id,omitempty"`
	KnownLineIDs []string `json:"known_line_ids,omitempty"` // lines of the pool to which the contact is not new
	// IdentityID is the service identity that sends the message, when it may use some lines only.
	IdentityID string `json:"identity_id,omitempty"`
	// TextHash is a keyed hash of the text, when lines have capacity, but not for this text.
	TextHash string `json:"text_hash,omitempty"`
}

// MessageSending is appended before the carrier is called, so that after a crash the carrier can be asked what became
// of the attempt.
type MessageSending struct {
	MessageRef
	Attempt int    `json:"attempt"` // from 1
	LineID  string `json:"line_id"`
	Channel string `json:"channel"`
	// AfterSent is true when an earlier attempt was sent on another channel. The status of the message does not change
	// then.
	AfterSent bool `json:"after_sent,omitempty"`
}

// MessageSent records that the carrier accepted the message.
type MessageSent struct {
	MessageRef
	LineID     string `json:"line_id"`
	Channel    string `json:"channel"`
	CarrierID  string `json:"carrier_id"`
	From       string `json:"from,omitempty"`       // the number that the SMS provider has chosen
	Reconciled bool   `json:"reconciled,omitempty"` // known by asking the carrier after a crash, and not from its answer or a receipt
}

// MessageRetried records that an attempt failed temporarily, and when the next one is due.
type MessageRetried struct {
	MessageRef
	Attempt int       `json:"attempt"` // the one that failed
	Reason  string    `json:"reason"`
	Until   time.Time `json:"until"`
}

// MessageRejected records that the carrier refused an attempt permanently. In the same append, message.failed or
// message.fell_back follows.
type MessageRejected struct {
	MessageRef
	Attempt int    `json:"attempt"` // from 1
	Code    string `json:"code"`    // the error code of rule SND-30
	LineID  string `json:"line_id"`
	Channel string `json:"channel"`
}

// MessageDelivered is the carrier's delivery receipt.
type MessageDelivered struct {
	MessageRef
	At time.Time `json:"at"`
	// LineID is set for the first message of a line to a contact, whose answer is awaited (rule LIN-15).
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

// MessageReceiptMissing records that no receipt came in time. The status stays sent.
type MessageReceiptMissing struct{ MessageRef }

// MessageReceived records a message from a contact.
type MessageReceived struct {
	MessageRef
	LineID    string          `json:"line_id"` // "" for an SMS to a connection
	Channel   string          `json:"channel"`
	CarrierID string          `json:"carrier_id,omitempty"`
	Keyword   string          `json:"keyword,omitempty"` // stop, start or help, which the message was when it came; else empty
	Content   MessagePersonal `json:"-"`
}

// Subject implements Sealed.
func (e *MessageReceived) Subject() string { return e.ContactID }

// Personal implements Sealed.
func (e *MessageReceived) Personal() any { return &e.Content }

// MessageFellBack records that a message falls back to SMS (rule SND-54).
type MessageFellBack struct {
	MessageRef
	Reason string    `json:"reason"`        // not_on_chat or chat_failed
	SMS    *SMSRoute `json:"sms,omitempty"` // nil: the carrier of the line sends the SMS
	// Automatic is that of the message: automatic texts overtake deferred messages, also by SMS.
	Automatic string `json:"automatic,omitempty"`
}
