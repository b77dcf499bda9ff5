// Package carrier is the port through which the service sends messages over a carrier and gets its reports: a chat
// network, an SMS provider, or the simulator. An adapter implements [Carrier] and reports to an [Inbox], which the
// service provides. Package carriertest is the suite that every adapter passes.
//
// The service sends no message twice although it may crash at any time. It records an attempt before it calls Send, and
// the result after. An attempt without a recorded result was cut off or ended with an error that leaves the result
// unknown: the service then calls Lookup until the carrier gives a definite answer, and calls Send again only if the
// message was not accepted.
package carrier

import (
	"context"
	"errors"
	"time"

	"ledgerline/events"
)

// Channels of a message.
const (
	ChannelChat = "chat"
	ChannelSMS  = "sms"
)

// Carrier carries messages. It is safe for concurrent use, and any number of nodes use the same outside system at the
// same time. A message is identified by MessageID and Channel: a message that was accepted on chat can be sent again by
// SMS as a fallback, and that is a message of its own to the carrier, with an id of its own.
//
// Texts of errors are logged. They must not contain personal data: no phone numbers, no message texts.
type Carrier interface {
	// Send hands a message to the carrier. It returns
	//   - nil when the carrier has accepted the message for good, with the carrier's own id of it;
	//   - an error that is a *Rejected when the carrier has refused it for good;
	//   - an error that wraps ErrTransient when the message was certainly not accepted and may be sent again later;
	//   - any other error when it is unknown whether the carrier has accepted it, also when ctx ended meanwhile. The
	//     service asks Lookup before it sends the message again.
	// Send need not recognise a message that it was given before. Receipts and replies may reach the Inbox before Send has
	// returned.
	Send(context.Context, Outbound) (Accepted, error)

	// Lookup reports whether the carrier has accepted a message with which Send was called on any node, perhaps before a
	// restart. An adapter must find the message by MessageID and Channel; text and recipient alone do not identify it.
	// found is false only when the message was not accepted and never will be. While a request may still be on its way,
	// Lookup returns an error that wraps ErrUndecided, and the service calls it again later.
	Lookup(context.Context, Outbound) (accepted Accepted, found bool, err error)

	// Reachable reports whether a phone number (E.164) can be reached on chat through a line. It returns
	// ErrReachabilityUnknown when the line has no means to find out before it sends; the service then sends, and a carrier
	// that does not reach the number rejects the message with the code not_on_chat. After any other error the service
	// sends nothing and tries again later. The service remembers answers for a while.
	Reachable(ctx context.Context, through Line, phone string) (bool, error)
}

// Concurrent is implemented by carriers that state how many calls for one line may be under way at the same time.
// Without it there are up to DefaultCalls. Calls beyond it wait, and do not occupy the workers of other lines.
type Concurrent interface{ CallsPerLine() int }

// DefaultCalls is how many calls for one line are under way at the same time, when the carrier does not say otherwise.
const DefaultCalls = 16

// Line is the line through which a carrier is asked. Credentials belong to lines.
type Line struct {
	ID    string
	Phone string // E.164
}

// Outbound is a message to a contact.
type Outbound struct {
	MessageID string
	LineID    string // "" for a message that goes by an SMS connection
	// ConnectionID is the SMS connection by which the message goes; "" for a message of a line.
	ConnectionID string
	From         string // phone number of the line or the connection, E.164; "" leaves the choice to the SMS provider
	To           string // E.164
	Body         string
	Media        []events.Media
	Channel      string // ChannelChat or ChannelSMS
	Attempt      int    // number of the attempt, from 1; later attempts have greater numbers
	Automatic    bool   // an opt-out confirmation or a help text
	IsTest       bool   // sandbox traffic

	// ForgottenSince is set by a Lookup for a message that this service may have sent since then without remembering it,
	// because its database was restored from a backup. The adapter may have forgotten it too, and searches for it by
	// recipient, text and time.
	ForgottenSince time.Time
}

// Reader is implemented by carriers that can read messages from contacts again. Recovery after a restored backup needs
// it: an opt-out that was received after the backup is on the carrier's server only.
type Reader interface {
	// ReadAgain has the messages since a time read again. It returns before that has happened.
	ReadAgain(ctx context.Context, since time.Time) error
	// Unread lists the lines whose messages were not read to the end since a time by the database's clock.
	Unread(ctx context.Context, since time.Time) (lineIDs []string, err error)
}

// Accepted is the answer of a carrier that has accepted a message.
type Accepted struct {
	CarrierID string // the carrier's own id of the message, not empty
	From      string // the number that sends it, if the SMS provider has chosen one; else ""
}

// ErrTransient says that the carrier has not accepted the message and may accept it later.
var ErrTransient = errors.New("carrier: the carrier cannot accept the message now")

// ErrUndecided says that a request to send the message may still be on its way: it is too early to know its result.
var ErrUndecided = errors.New("carrier: a request to send the message may still be under way")

// ErrReachabilityUnknown says that a carrier cannot find out whether a number is on chat without sending to it.
var ErrReachabilityUnknown = errors.New("carrier: the carrier cannot find out whether the number is on chat")

// Rejected is the error of a message that the carrier refuses for good.
type Rejected struct {
	Code string // error code of the message in the API: carrier_rejected, not_on_chat, sms_…
}

func (e *Rejected) Error() string { return "carrier: the carrier rejected the message: " + e.Code }

// Inbox records the reports of carriers in the ledger. A report is durable when the method has returned without an
// error. After an error the carrier makes the same report again, with a pause, until the Inbox has recorded it.
// Carriers may make a report more than once; repetitions change nothing. The reports about one message come in the
// order in which they happened; reports about different messages come in any order. An Inbox is safe for concurrent
// use.
type Inbox interface {
	// Receipt records a receipt for a message that the carrier has accepted.
	Receipt(context.Context, Receipt) error
	// Message records a message from a contact. It returns our id of the message, the same one for the same CarrierID.
	Message(context.Context, Inbound) (messageID string, err error)
}

// Kinds of receipts.
const (
	ReceiptDelivered = "delivered"
	ReceiptRead      = "read"
	ReceiptFailed    = "failed"
)

// Receipt is a carrier's report on a message that it has accepted.
type Receipt struct {
	MessageID string // ours
	CarrierID string // the carrier's own, from Accepted
	Kind      string // ReceiptDelivered, ReceiptRead or ReceiptFailed
	Code      string // error code of a failed message in the API; "" otherwise
	At        time.Time
}

// Inbound is a message from a contact.
type Inbound struct {
	CarrierID string // the carrier's own id of the message; the same in each report of it
	LinePhone string // number of the line or the connection that the contact wrote to, E.164
	// ConnectionID is the SMS connection that the contact wrote to; "" for a line.
	ConnectionID string
	From         string // E.164
	Body         string
	Media        []events.Media
	Channel      string // ChannelChat or ChannelSMS
}
