package processes

import (
	"context"

	"ledgerline/commands"
	"ledgerline/commands/sending"
	"ledgerline/domain/fault"
	"ledgerline/events"
)

// Reports takes what carriers report into the ledger.
type Reports struct{ app *commands.App }

// NewReports makes the Inbox of all carriers.
func NewReports(app *commands.App) *Reports { return &Reports{app} }

func (r *Reports) request() commands.Request {
	return commands.Request{Actor: events.Actor{Type: "system", ID: "carrier"}}
}

// Receipt implements Inbox. A receipt for a message that is gone is taken and forgotten: its contact was erased.
func (r *Reports) Receipt(ctx context.Context, receipt Receipt) error {
	_, _, err := r.app.Sending.TakeReceipt(ctx, r.request(), receipt.MessageID, sending.Receipt{
		Kind: sending.ReceiptKind(receipt.Kind), At: receipt.At, CarrierID: receipt.CarrierID, Code: receipt.Code,
	})
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// Message implements Inbox.
func (r *Reports) Message(ctx context.Context, in Inbound) (string, error) {
	received, err := r.app.ReceiveInbound(ctx, r.request(), commands.Inbound{
		LinePhone: in.Line, From: in.From, Body: in.Body, Media: in.Media, Channel: in.Channel, CarrierID: in.CarrierID,
	})
	if err != nil {
		return "", err
	}
	return received.MessageID, nil
}
