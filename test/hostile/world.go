// Package hostile is a carrier for tests that fails in every way a carrier can: it accepts messages without an
// answer, answers late, refuses, and sends receipts twice, out of order, late or never. What it does with a message
// depends only on the seed and on the message, not on the order of calls. It records what it really accepted.
package hostile

import (
	"cmp"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"ledgerline/clock"
	"ledgerline/processes/carrier"
)

// Departure is one acceptance of a message. A message that was sent twice has two.
type Departure struct {
	carrier.Outbound
	CallOrder int64     // number of the call in the order of World.Tick
	CalledAt  time.Time // by the service's clock
	CarrierID string
}

// World is the state that the carriers of all nodes share. Its methods may be called concurrently.
type World struct {
	clock clock.Clock
	seed  uint64

	mu         sync.Mutex
	ticks      int64
	departures []Departure
	calls      map[string]*history // by message and channel
	receipts   []ScheduledReceipt
	gate       chan struct{} // closed: hanging calls go on
	hanging    []string      // numbers of the calls that hang
}

// history records what happened to one message on one channel.
type history struct {
	sends, probes, lookups int
	hanging                int // calls that hang before the message is accepted
	accepted               *carrier.Accepted
}

// ScheduledReceipt is a receipt and the time at which it is sent.
type ScheduledReceipt struct {
	At      time.Time
	Receipt carrier.Receipt
}

// New returns a world in which no calls hang.
func New(c clock.Clock, seed uint64) *World {
	w := &World{clock: c, seed: seed, calls: map[string]*history{}, gate: make(chan struct{})}
	close(w.gate)
	return w
}

// Tick returns the next number in the order of everything that happens here and in the test.
func (w *World) Tick() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ticks++
	return w.ticks
}

// Departures returns every acceptance of a message, in order.
func (w *World) Departures() []Departure {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.departures)
}

// Hang lets some of the following calls hang until Resume.
func (w *World) Hang() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gate = make(chan struct{})
}

// Resume lets the hanging calls go on; no further call hangs.
func (w *World) Resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.gate:
	default:
		close(w.gate)
	}
}

// Hanging returns the numbers of the calls that hang now.
func (w *World) Hanging() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.hanging)
}

// TakeDueReceipts removes and returns the receipts that are due. A caller that cannot send one puts it back with
// ScheduleReceipt.
func (w *World) TakeDueReceipts() []ScheduledReceipt {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	slices.SortStableFunc(w.receipts, func(a, b ScheduledReceipt) int { return cmp.Compare(a.At.UnixNano(), b.At.UnixNano()) })
	n := 0
	for n < len(w.receipts) && !w.receipts[n].At.After(now) {
		n++
	}
	due := slices.Clone(w.receipts[:n])
	w.receipts = slices.Delete(w.receipts, 0, n)
	return due
}

// ScheduleReceipt adds a receipt.
func (w *World) ScheduleReceipt(d ScheduledReceipt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.receipts = append(w.receipts, d)
}

// chance returns a number from 0 to 99 that depends only on the seed, about and n.
func (w *World) chance(about string, n int) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(about))
	x := h.Sum64() ^ w.seed ^ uint64(n)*0x9e3779b97f4a7c15 //nolint:gosec // small counts
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return int(x % 100) //nolint:gosec // under 100
}

func (w *World) historyOf(messageID, channel string) *history {
	key := messageID + " " + channel
	l := w.calls[key]
	if l == nil {
		l = &history{}
		w.calls[key] = l
	}
	return l
}
