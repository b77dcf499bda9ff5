package processes

import (
	"context"

	"ledgerline/commands"
	"ledgerline/commands/sending"
	"ledgerline/domain/fault"
	"ledgerline/events"
	"ledgerline/processes/carrier"
)

// Inbox implements carrier.Inbox: it records the reports of carriers in the ledger.
type Inbox struct{ app *commands.App }

var _ carrier.Inbox = (*Inbox)(nil)

// NewInbox makes the inbox of all carriers.
func NewInbox(app *commands.App) *Inbox { return &Inbox{app} }

func (i *Inbox) request() commands.Request {
	return commands.Request{Actor: events.Actor{Type: "system", ID: "carrier"}}
}

// Receipt implements carrier.Inbox. A receipt for a message whose contact was erased is accepted and dropped.
func (i *Inbox) Receipt(ctx context.Context, r carrier.Receipt) error {
	if r.Code == sending.SMSOptedOut { // before the receipt: the report is made again until both are recorded
		if err := i.app.OptOutMessage(ctx, i.request(), r.MessageID, sending.SourceSMSProvider); err != nil {
			return err
		}
	}
	_, _, err := i.app.Sending.RecordReceipt(ctx, i.request(), r.MessageID, sending.Receipt{
		Kind: sending.ReceiptKind(r.Kind), At: r.At, CarrierID: r.CarrierID, Code: r.Code,
	})
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// Message implements carrier.Inbox.
func (i *Inbox) Message(ctx context.Context, in carrier.Inbound) (string, error) {
	received, err := i.app.ReceiveMessage(ctx, i.request(), commands.InboundMessage{
		LinePhone: in.LinePhone, ConnectionID: in.ConnectionID, From: in.From, Body: in.Body, Media: in.Media, Channel: in.Channel, CarrierID: in.CarrierID,
	})
	if err != nil {
		return "", err
	}
	return received.MessageID, nil
}
