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

	mu         sync.Mutex
	generation uint64           // of the ledger when the events were read
	readAt     time.Time        // when the database was last read
	base       eventstore.Point // the point before the first recent event
	recent     []eventstore.Recorded
}

// after returns events after a point, at most BatchSize, and the point up to which the shard was read. For a consumer
// that is far behind it reads from the database, and only the given types. It returns eventstore.ErrRewound when the
// point is not in the history that it reads.
func (t *tail) after(ctx context.Context, from eventstore.Point, types []string) (events []eventstore.Recorded, through eventstore.Point, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if generation := t.ledger.Generation(); t.generation != generation {
		t.generation, t.readAt, t.base, t.recent = generation, time.Time{}, eventstore.Point{}, nil
	}
	if events, through, err = t.fromMemory(from); err != nil || through != from {
		return events, through, err
	}
	end := t.end()
	if from.Position < t.base.Position || (from.Position < end.Position-maxRecent) || t.ledger.KnownHead(t.shard)-from.Position > maxRecent {
		t.mu.Unlock()
		defer t.mu.Lock()
		return t.ledger.ReadTypes(ctx, t.shard, from, from.Position+BatchSize, types...)
	}
	if from.Position > end.Position || len(t.recent) == 0 {
		t.base, t.recent, end = from, nil, from
	}
	if t.ledger.KnownHead(t.shard) <= end.Position && time.Since(t.readAt) < slowPoll/2 {
		return nil, from, nil // another consumer has just read, and nothing was appended since
	}
	t.readAt = time.Now()
	read, err := t.ledger.ReadAfter(ctx, t.shard, end, BatchSize)
	if err != nil {
		return nil, from, err
	}
	if err := t.ledger.Decode(ctx, read); err != nil {
		if undecodable := (*eventstore.UndecodableError)(nil); !errors.As(err, &undecodable) {
			return nil, from, err
		}
		for i := range read {
			read[i].Event, read[i].Erased = nil, false
		}
	}
	if n := len(read); n > 0 && read[n-1].Position != end.Position+int64(n) {
		// An event is missing, which only a change in the database can cause and audit verify reports. Positions do not tell
		// the index in memory then.
		t.base, t.recent = pointOf(&read[n-1]), nil
		return read, t.base, nil
	}
	t.recent = append(t.recent, read...)
	if over := len(t.recent) - maxRecent; over > 0 {
		t.base = pointOf(&t.recent[over-1])
		t.recent = append([]eventstore.Recorded(nil), t.recent[over:]...)
	}
	if n := len(read); n > 0 {
		t.ledger.AdvanceHead(t.shard, read[n-1].Position)
	}
	return t.fromMemory(from)
}

func pointOf(r *eventstore.Recorded) eventstore.Point {
	return eventstore.Point{Position: r.Position, ID: r.ID}
}

// end returns the point of the last recent event.
func (t *tail) end() eventstore.Point {
	if n := len(t.recent); n > 0 {
		return pointOf(&t.recent[n-1])
	}
	return t.base
}

// fromMemory returns recent events; through is the point itself when there are none after it.
func (t *tail) fromMemory(from eventstore.Point) (events []eventstore.Recorded, through eventstore.Point, err error) {
	index := from.Position - t.base.Position
	if index < 0 || index > int64(len(t.recent)) || len(t.recent) == 0 {
		return nil, from, nil
	}
	at := t.base
	if index > 0 {
		at = pointOf(&t.recent[index-1])
	}
	if at != from {
		return nil, from, eventstore.ErrRewound
	}
	to := min(index+BatchSize, int64(len(t.recent)))
	if to == index {
		return nil, from, nil
	}
	return t.recent[index:to:to], pointOf(&t.recent[to-1]), nil
}
