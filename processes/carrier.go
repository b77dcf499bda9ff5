package processes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ledgerline/commands"
	"ledgerline/domain/line"
	"ledgerline/events"
)

// Carrier is an outside system that carries messages: the chat network, an SMS provider, or the simulator in their
// place. It is safe for concurrent use.
type Carrier interface {
	// Send hands a message over. It returns only when the carrier has taken it for good or has refused it. ErrTransient
	// refuses it for now, *Rejected for good. After any other error it is unknown whether the carrier has it: ask Outcome
	// before sending it again, because a carrier sends whatever it is given, also twice. Receipts and replies may come in
	// before Send has returned.
	Send(context.Context, Outgoing) (Accepted, error)
	// Reachable asks through a line whether a number (E.164) is on the chat channel. ErrCannotTell says that this line has
	// no means to find out before it sends.
	Reachable(ctx context.Context, via Via, phone string) (bool, error)
	// Outcome tells by our message id and the channel whether the carrier has taken a message that Send was called with, on whatever
	// node. A message that chat has taken may go on by SMS: that is another sending, with a carrier's id of its own.
	// It errs for as long as that is not settled: what is not found has not been taken and never will be.
	Outcome(context.Context, Outgoing) (accepted Accepted, found bool, err error)
}

// Via is the line that a carrier is asked through: credentials belong to lines.
type Via struct {
	LineID string
	Phone  string // the line's number, E.164
}

var _ commands.Prober = Carriers(nil)

// Carriers are the carriers by the name that lines give. Every node has all of them, so that any node can serve any line.
type Carriers map[string]Carrier

// Of finds the carrier of a line's carrier name.
func (c Carriers) Of(name string) (Carrier, error) {
	if found := c[name]; found != nil {
		return found, nil
	}
	return nil, fmt.Errorf("processes: this node does not have the carrier %q", name)
}

// probeTimeout bounds one question whether a number is on chat, while somebody waits for the answer.
const probeTimeout = 8 * time.Second

// Probe implements commands.Prober.
func (c Carriers) Probe(ctx context.Context, through line.Line, phone string) (bool, error) {
	carrier, err := c.Of(through.Carrier)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return carrier.Reachable(ctx, Via{LineID: through.ID, Phone: through.Phone}, phone)
}

// Outgoing is a message to be carried.
type Outgoing struct {
	MessageID string
	LineID    string
	From      string // the line's number, E.164
	To        string // E.164
	Body      string
	Media     []events.Media
	Channel   string // chat or sms
	Automatic bool   // an opt-out confirmation or a help text
	IsTest    bool
}

// Accepted is what a carrier says of a message that it has taken.
type Accepted struct {
	CarrierID string // its own id of the message
}

// ErrTransient refuses a message for now: it was not taken, and may be sent again later.
var ErrTransient = errors.New("processes: the carrier cannot take the message now")

// ErrCannotTell says that a carrier cannot know whether a number is on the chat channel; sending to it will show.
var ErrCannotTell = errors.New("processes: the carrier cannot tell whether the number is on chat")

// Rejected refuses a message for good.
type Rejected struct {
	Code string // error code of the message (decisions, section 7): carrier_rejected, not_on_chat, sms_…
}

func (e *Rejected) Error() string { return "processes: the carrier rejected the message: " + e.Code }

// Inbox takes what carriers report. What it takes is durable when it returns without an error. Carriers report at least
// once, and in no particular order beyond that of one message's own steps: the same report again changes nothing.
type Inbox interface {
	// Receipt takes what became of a message that we sent.
	Receipt(context.Context, Receipt) error
	// Message takes a message from a contact and answers our id for it; the same id for the same CarrierID.
	Message(context.Context, Inbound) (messageID string, err error)
}

// Kinds of receipts.
const (
	ReceiptDelivered = "delivered"
	ReceiptRead      = "read"
	ReceiptFailed    = "failed"
)

// Receipt is a carrier's report about a message that it has taken.
type Receipt struct {
	MessageID string // ours
	CarrierID string // the carrier's own
	Kind      string // ReceiptDelivered, ReceiptRead or ReceiptFailed
	Code      string // error code of a failed message; "" otherwise
	At        time.Time
}

// Inbound is a message from a contact.
type Inbound struct {
	CarrierID string // the carrier's id of it; the same however often it is reported
	Line      string // number that it was sent to, E.164
	From      string // E.164
	Body      string
	Media     []events.Media
	Channel   string // chat or sms
}
