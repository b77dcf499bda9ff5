// Package carriertest is the suite that every carrier passes: what carrier.Carrier and carrier.Inbox promise, told
// by how the service leans on it. An adapter's test opens its carrier in front of a stand-in for the outside world and
// calls Run.
package carriertest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"ledgerline/processes/carrier"
)

// Inbox remembers what carriers report, also what they report again, and can be made to refuse.
type Inbox struct {
	mu       sync.Mutex
	receipts []carrier.Receipt
	messages []carrier.Inbound
	refusals int
}

// NewInbox makes an empty one.
func NewInbox() *Inbox { return &Inbox{} }

var errNotNow = errors.New("carriertest: the inbox cannot take it now")

// Refuse refuses the next n reports.
func (b *Inbox) Refuse(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refusals = n
}

// Refusing tells whether some of the refusals are still to come.
func (b *Inbox) Refusing() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refusals > 0
}

func (b *Inbox) refuses() bool {
	if b.refusals == 0 {
		return false
	}
	b.refusals--
	return true
}

// Receipt implements carrier.Inbox.
func (b *Inbox) Receipt(_ context.Context, r carrier.Receipt) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refuses() {
		return errNotNow
	}
	b.receipts = append(b.receipts, r)
	return nil
}

// Message implements carrier.Inbox.
func (b *Inbox) Message(_ context.Context, in carrier.Inbound) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refuses() {
		return "", errNotNow
	}
	b.messages = append(b.messages, in)
	return "msg_of_" + in.CarrierID, nil
}

// Receipts are those of a message, in the order in which they came, each kind of a sending once.
func (b *Inbox) Receipts(messageID string) []carrier.Receipt {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []carrier.Receipt
	for _, r := range b.receipts {
		seen := slices.ContainsFunc(found, func(f carrier.Receipt) bool { return f.Kind == r.Kind && f.CarrierID == r.CarrierID })
		if r.MessageID == messageID && !seen {
			found = append(found, r)
		}
	}
	return found
}

// Kinds are the kinds of Receipts.
func (b *Inbox) Kinds(messageID string) []string {
	kinds := []string{}
	for _, r := range b.Receipts(messageID) {
		kinds = append(kinds, r.Kind)
	}
	return kinds
}

// From are the messages that came from a number, each once.
func (b *Inbox) From(number string) []carrier.Inbound {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []carrier.Inbound
	for _, in := range b.messages {
		seen := slices.ContainsFunc(found, func(f carrier.Inbound) bool { return f.CarrierID == in.CarrierID })
		if in.From == number && !seen {
			found = append(found, in)
		}
	}
	return found
}
