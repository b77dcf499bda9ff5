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
	slots [256]chan struct{} // the hash of a stream selects its slot; a full slot is locked
}

func newStreamLocks() streamLocks {
	l := streamLocks{seed: maphash.MakeSeed()}
	for i := range l.slots {
		l.slots[i] = make(chan struct{}, 1)
	}
	return l
}

// streamLock is the lock that a command holds. A command holds at most one, so that no deadlock is possible.
type streamLock struct{ slot chan struct{} }

// acquire releases the lock that the command holds and waits for the lock of a stream.
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
