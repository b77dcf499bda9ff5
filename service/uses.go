package service

import (
	"context"
	"sync"
	"time"

	"ledgerline/clock"
	"ledgerline/projections"
)

// uses remembers when keys were used last. A key costs at most one small write a minute and node, whatever it is used for
// in between, so what is shown is true to the minute.
type uses struct {
	store *projections.Store
	clock clock.Clock

	mu      sync.Mutex
	written map[string]time.Time // by key id
}

const (
	// usePrecision is how much later a use must be to be written down again.
	usePrecision = time.Minute
	// useDeadline bounds what a request waits for the note to be taken.
	useDeadline = time.Second
	// usesKept bounds the memory; what is forgotten is written down once more.
	usesKept = 100_000
)

func newUses(store *projections.Store, c clock.Clock) *uses {
	return &uses{store: store, clock: c, written: map[string]time.Time{}}
}

// note tells that a key was used. Failing to write it down is no reason to refuse anybody: a later use will do.
func (u *uses) note(ctx context.Context, keyID string) {
	now := u.clock.Now()
	u.mu.Lock()
	before, known := u.written[keyID]
	if known && now.Sub(before) < usePrecision {
		u.mu.Unlock()
		return
	}
	if len(u.written) >= usesKept {
		clear(u.written)
	}
	u.written[keyID] = now
	u.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, useDeadline)
	defer cancel()
	if err := u.store.KeyUsed(ctx, keyID, now); err != nil {
		u.mu.Lock()
		if u.written[keyID].Equal(now) {
			delete(u.written, keyID)
		}
		u.mu.Unlock()
	}
}
