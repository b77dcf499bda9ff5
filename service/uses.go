package service

import (
	"context"
	"sync"
	"time"

	"ledgerline/clock"
	"ledgerline/projections"
)

// uses records when API keys were last used, to the minute: each node writes at most once a minute for a key.
type uses struct {
	store *projections.Store
	clock clock.Clock

	mu      sync.Mutex
	written map[string]time.Time // the last recorded use, by key id
}

const (
	// usePrecision is how much later than the recorded use another use must be to be recorded.
	usePrecision = time.Minute
	// useDeadline bounds how long a request waits for its use to be recorded.
	useDeadline = time.Second
	// usesKept bounds the memory. The uses of forgotten keys are recorded once more.
	usesKept = 100_000
)

func newUses(store *projections.Store, c clock.Clock) *uses {
	return &uses{store: store, clock: c, written: map[string]time.Time{}}
}

// record records the use of a key. It does nothing on failure: a later use will be recorded.
func (u *uses) record(ctx context.Context, keyID string) {
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
	if err := u.store.RecordKeyUse(ctx, keyID, now); err != nil {
		u.mu.Lock()
		if u.written[keyID].Equal(now) {
			delete(u.written, keyID)
		}
		u.mu.Unlock()
	}
}
