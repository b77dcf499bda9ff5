package engine

import (
	"context"
	"fmt"
	"hash/maphash"
)

// streamLocks serialise the commands of this process that collided on a stream: without them, many concurrent commands
// on one contact would use up their tries. Commands that do not collide take no lock.
type streamLocks struct {
	seed  maphash.Seed
	slots [256]chan struct{} // a stream's lock is the slot of its hash
}

func newStreamLocks() streamLocks {
	l := streamLocks{seed: maphash.MakeSeed()}
	for i := range l.slots {
		l.slots[i] = make(chan struct{}, 1)
	}
	return l
}

// streamLock is the lock that a command holds. It is at most one, so that two commands cannot wait for each other.
type streamLock struct{ slot chan struct{} }

// acquire takes the lock of a stream and gives up the lock that was held before.
func (l *streamLock) acquire(ctx context.Context, all *streamLocks, stream string) error {
	slot := all.slots[maphash.String(all.seed, stream)%uint64(len(all.slots))]
	if slot == l.slot {
		return nil
	}
	l.release()
	select {
	case slot <- struct{}{}:
		l.slot = slot
		return nil
	case <-ctx.Done():
		return fmt.Errorf("commands: %w", ctx.Err())
	}
}

func (l *streamLock) release() {
	if l.slot != nil {
		<-l.slot
		l.slot = nil
	}
}
