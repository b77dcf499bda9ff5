package feed

import (
	"context"
	"errors"
	"sync"
	"time"

	"ledgerline/eventstore"
)

// maxRecent is how many of the newest events of a shard stay in memory. All consumers of a process want the same events
// at nearly the same moment, so one read serves all of them.
const maxRecent = 4 * BatchSize

// tail holds the newest events of a shard for the consumers of this process, which share them and must not change them.
// The events are decoded. When one of them cannot be decoded, all events of that read stay encoded: each consumer
// decodes those that it wants and parks the one at fault.
type tail struct {
	ledger *eventstore.Ledger
	shard  int

	mu     sync.Mutex
	readAt time.Time // when the database was last read
	base   int64     // position before the first recent event
	recent []eventstore.Recorded
}

// after returns events after a position, at most BatchSize, and the position up to which the shard was read. For a
// consumer that is far behind it reads from the database, and only the given types.
func (t *tail) after(ctx context.Context, position int64, types []string) (events []eventstore.Recorded, through int64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if events, through = t.fromMemory(position); through > position {
		return events, through, nil
	}
	end := t.base + int64(len(t.recent))
	if position < t.base || (position < end-maxRecent) || t.ledger.KnownHead(t.shard)-position > maxRecent {
		t.mu.Unlock()
		defer t.mu.Lock()
		return t.fromDatabase(ctx, position, types)
	}
	if position > end || len(t.recent) == 0 {
		t.base, t.recent, end = position, nil, position
	}
	if t.ledger.KnownHead(t.shard) <= end && time.Since(t.readAt) < slowPoll/2 {
		return nil, position, nil // another consumer has just read, and nothing was appended since
	}
	t.readAt = time.Now()
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
	if n := len(read); n > 0 && read[n-1].Position != end+int64(n) {
		// An event is missing, which only a change in the database can cause and audit verify reports. Positions do not tell
		// the index in memory then.
		t.base, t.recent = read[n-1].Position, nil
		return read, t.base, nil
	}
	t.recent = append(t.recent, read...)
	if over := len(t.recent) - maxRecent; over > 0 {
		t.base += int64(over)
		t.recent = append([]eventstore.Recorded(nil), t.recent[over:]...)
	}
	if n := len(read); n > 0 {
		t.ledger.AdvanceHead(t.shard, read[n-1].Position)
	}
	events, through = t.fromMemory(position)
	return events, through, nil
}

// fromMemory returns recent events; through is the position itself when there are none after it.
func (t *tail) fromMemory(position int64) ([]eventstore.Recorded, int64) {
	from := position - t.base
	if from < 0 || from >= int64(len(t.recent)) {
		return nil, position
	}
	to := min(from+BatchSize, int64(len(t.recent)))
	return t.recent[from:to:to], t.base + to
}

// fromDatabase reads for a consumer that is far behind.
func (t *tail) fromDatabase(ctx context.Context, position int64, types []string) ([]eventstore.Recorded, int64, error) {
	head, err := t.ledger.Head(ctx, t.shard)
	if err != nil || head <= position {
		return nil, position, err
	}
	through := min(head, position+BatchSize)
	events, err := t.ledger.ReadRange(ctx, t.shard, position, through, types...)
	return events, through, err
}
