package feed

import (
	"context"
	"errors"
	"sync"
	"time"

	"ledgerline/eventstore"
)

// keepRecent is how many of the newest events of a shard stay in memory for the consumers of this process: all of them
// want the same stretch at nearly the same moment, and one read serves them.
const keepRecent = 4 * BatchSize

// tail is the newest stretch of a shard as this process has read it, shared by its consumers. The events in it are decoded,
// once for all, and must not be changed. Where one cannot be decoded, those read with it are not either: each consumer
// that wants them then tries for itself, and parks what stops it.
type tail struct {
	ledger *eventstore.Ledger
	shard  int

	mu     sync.Mutex
	asked  time.Time // when the database was last asked for more
	base   int64     // position before the first event here
	recent []eventstore.Recorded
}

// after gives events behind a position, at most BatchSize, and the position up to which the shard was seen. A consumer
// that is far behind reads for itself, only what it wants: found tells which of its types is left to check.
func (t *tail) after(ctx context.Context, position int64, types []string) (events []eventstore.Recorded, through int64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if events, through = t.here(position); through > position {
		return events, through, nil
	}
	end := t.base + int64(len(t.recent))
	if position < t.base || (position < end-keepRecent) || t.ledger.KnownHead(t.shard)-position > keepRecent {
		t.mu.Unlock()
		defer t.mu.Lock()
		return t.alone(ctx, position, types)
	}
	if position > end || len(t.recent) == 0 {
		t.base, t.recent, end = position, nil, position
	}
	if t.ledger.KnownHead(t.shard) <= end && time.Since(t.asked) < slowPoll/2 {
		return nil, position, nil // another consumer has just asked, and nobody has appended since
	}
	t.asked = time.Now()
	read, err := t.ledger.ReadAfter(ctx, t.shard, t.base+int64(len(t.recent)), BatchSize)
	if err != nil {
		return nil, 0, err
	}
	if err := t.ledger.Decode(ctx, read); err != nil {
		if undecodable := (*eventstore.UndecodableError)(nil); !errors.As(err, &undecodable) {
			return nil, 0, err
		}
		for i := range read {
			read[i].Event, read[i].Erased = nil, false
		}
	}
	t.recent = append(t.recent, read...)
	if over := len(t.recent) - keepRecent; over > 0 {
		t.base += int64(over)
		t.recent = append([]eventstore.Recorded(nil), t.recent[over:]...)
	}
	if n := len(read); n > 0 {
		t.ledger.AdvanceHead(t.shard, read[n-1].Position)
	}
	events, through = t.here(position)
	return events, through, nil
}

// here serves from memory; through is the position itself when there is nothing behind it.
func (t *tail) here(position int64) ([]eventstore.Recorded, int64) {
	from := position - t.base
	if from < 0 || from >= int64(len(t.recent)) {
		return nil, position
	}
	to := min(from+BatchSize, int64(len(t.recent)))
	return t.recent[from:to:to], t.base + to
}

// alone reads for a consumer that is behind.
func (t *tail) alone(ctx context.Context, position int64, types []string) ([]eventstore.Recorded, int64, error) {
	head, err := t.ledger.Head(ctx, t.shard)
	if err != nil || head <= position {
		return nil, position, err
	}
	through := min(head, position+BatchSize)
	events, err := t.ledger.ReadRange(ctx, t.shard, position, through, types...)
	return events, through, err
}
