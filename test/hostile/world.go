// Package hostile is the outside world at its worst, for tests: a carrier that takes messages and does not say so, says so
// late, refuses, and tells receipts twice, in any order, late or never. What it does with a message depends on a seed and on
// the message alone, not on who asks first. It keeps what truly left.
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

// Departure is a message that truly left, as often as it did.
type Departure struct {
	carrier.Outbound
	Called    int64     // place among all that happens, see World.Tick, at which the carrier was called
	CalledAt  time.Time // by the service's clock
	CarrierID string
}

// World is shared by the carriers of all nodes.
type World struct {
	clock clock.Clock
	seed  uint64

	mu         sync.Mutex
	ticks      int64
	departures []Departure
	calls      map[string]*history // by message and channel
	agenda     []Due
	gate       chan struct{} // closed when calls that hang may go on
	hanging    []string      // numbers that calls are about which hang
}

// history is what happened with one message on one channel.
type history struct {
	sends, probes, asks int
	underway            int // calls that hang undecided
	taken               *carrier.Accepted
}

// Due is a receipt and when it is told.
type Due struct {
	At      time.Time
	Receipt carrier.Receipt
}

// New makes a world without calls that hang.
func New(c clock.Clock, seed uint64) *World {
	w := &World{clock: c, seed: seed, calls: map[string]*history{}, gate: make(chan struct{})}
	close(w.gate)
	return w
}

// Tick gives a place in the order of all that happens here and in the test.
func (w *World) Tick() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ticks++
	return w.ticks
}

// Departures are all that left, in order.
func (w *World) Departures() []Departure {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.departures)
}

// Hang lets some of the calls from now on hang until Resume.
func (w *World) Hang() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gate = make(chan struct{})
}

// Resume lets the calls that hang go on, and no more of them hang.
func (w *World) Resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.gate:
	default:
		close(w.gate)
	}
}

// Hanging are the numbers that calls are about which hang just now.
func (w *World) Hanging() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.hanging)
}

// Due takes the receipts that are to be told by now off the agenda. Who cannot tell one puts it back with Later.
func (w *World) Due() []Due {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	slices.SortStableFunc(w.agenda, func(a, b Due) int { return cmp.Compare(a.At.UnixNano(), b.At.UnixNano()) })
	n := 0
	for n < len(w.agenda) && !w.agenda[n].At.After(now) {
		n++
	}
	due := slices.Clone(w.agenda[:n])
	w.agenda = slices.Delete(w.agenda, 0, n)
	return due
}

// Later puts a receipt on the agenda.
func (w *World) Later(d Due) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.agenda = append(w.agenda, d)
}

// Pending tells how many receipts will still be told.
func (w *World) Pending() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.agenda)
}

// chance is a number from 0 to 99 that depends on the seed and on what it is about alone.
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

func (w *World) of(messageID, channel string) *history {
	key := messageID + " " + channel
	l := w.calls[key]
	if l == nil {
		l = &history{}
		w.calls[key] = l
	}
	return l
}
