// Package carriertest is the conformance suite of package carrier: every adapter of a carrier passes it. The test of an
// adapter opens the adapter in front of a stand-in for the outside world (a World) and calls Run.
package carriertest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"ledgerline/processes/carrier"
)

// Inbox is a carrier.Inbox that records the reports of a carrier, repetitions included, and can refuse reports.
type Inbox struct {
	mu       sync.Mutex
	receipts []carrier.Receipt
	messages []carrier.Inbound
	refusals int
}

// NewInbox makes an empty inbox.
func NewInbox() *Inbox { return &Inbox{} }

var errRefused = errors.New("carriertest: the inbox refuses this report")

// Refuse makes the inbox refuse the next n reports.
func (b *Inbox) Refuse(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refusals = n
}

// Refusing reports whether refusals are left.
func (b *Inbox) Refusing() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refusals > 0
}

// takeRefusal reports whether the next report is refused. The caller holds the lock.
func (b *Inbox) takeRefusal() bool {
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
	if b.takeRefusal() {
		return errRefused
	}
	b.receipts = append(b.receipts, r)
	return nil
}

// Message implements carrier.Inbox.
func (b *Inbox) Message(_ context.Context, in carrier.Inbound) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.takeRefusal() {
		return "", errRefused
	}
	b.messages = append(b.messages, in)
	return "msg_of_" + in.CarrierID, nil
}

// Receipts are the receipts of a message in the order in which they came. A repetition (same kind, same carrier's id)
// is left out.
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

// From are the messages from a number, without repetitions.
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
