package eventstore

import (
	"slices"
	"sync"

	"github.com/google/uuid"
)

// Point is a position of a shard with the id of the event there. It identifies the history of the shard: two histories
// that have the same event at a position are the same up to that position.
type Point struct {
	Position int64
	ID       uuid.UUID // uuid.Nil: Position is 0, or the event is not known
}

// heads are the newest positions of the shards that this process knows of, and the functions to call when they grow.
type heads struct {
	mu        sync.Mutex
	positions []int64
	listeners map[int]listener
	next      int

	// seen are, by shard, events that states in memory were derived from: all of these states are of histories that have
	// these events. Every append and every read of a head verifies that they are in the ledger. See history.go.
	seen       [][]Point
	generation uint64
	rewind     *Rewind // the rewind that is being settled; nil: none
	drops      []func()
	settlers   []settler
}

type listener struct {
	shard int
	wake  func()
}

func newHeads(shards int) *heads {
	return &heads{positions: make([]int64, shards), listeners: map[int]listener{}, seen: make([][]Point, shards), generation: 1}
}

// advance stores a head and wakes the listeners of the shard. A head that is not newer changes nothing.
func (h *heads) advance(shard int, position int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.advanceLocked(shard, position)
}

func (h *heads) advanceLocked(shard int, position int64) {
	if position <= h.positions[shard] {
		return
	}
	h.positions[shard] = position
	for _, l := range h.listeners {
		if l.shard == shard {
			l.wake()
		}
	}
}

func (h *heads) at(shard int) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.positions[shard]
}

// seenIn returns the events that a query about a shard has to verify, and the generation that they belong to.
func (h *heads) seenIn(shard int) seen {
	h.mu.Lock()
	defer h.mu.Unlock()
	return seen{shard, h.generation, slices.Clone(h.seen[shard])}
}

// verified stores that the ledger contains the events of s and, after them, the event at a later point. The later point
// stands for all of them from now on.
func (h *heads) verified(s seen, later Point) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.generation != s.generation {
		return
	}
	if later.ID != uuid.Nil {
		h.seen[s.shard] = slices.DeleteFunc(h.seen[s.shard], func(p Point) bool { return slices.Contains(s.points, p) })
		h.addLocked(s.shard, later)
	}
	h.advanceLocked(s.shard, later.Position)
}

// add stores that a state in memory was derived from an event.
func (h *heads) add(shard int, generation uint64, p Point) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.generation == generation && shard >= 0 && shard < len(h.seen) {
		h.addLocked(shard, p)
	}
}

// addLocked adds a point unless a later one is there, whose history contains it.
func (h *heads) addLocked(shard int, p Point) {
	if !slices.ContainsFunc(h.seen[shard], func(other Point) bool { return other.Position > p.Position || other == p }) {
		h.seen[shard] = append(h.seen[shard], p)
	}
}

// OnAppend calls wake whenever this process learns that a shard has grown: at once after its own appends, and after
// those of other processes through AdvanceHead. wake must not block. The returned function ends the calls.
func (l *Ledger) OnAppend(shard int, wake func()) (stop func()) {
	h := l.heads
	h.mu.Lock()
	defer h.mu.Unlock()
	id := h.next
	h.next++
	h.listeners[id] = listener{shard, wake}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.listeners, id)
	}
}

// AdvanceHead stores a head that was learned from the notification of another process.
func (l *Ledger) AdvanceHead(shard int, position int64) {
	if shard >= 0 && shard < l.shards {
		l.heads.advance(shard, position)
	}
}

// KnownHead is the newest position of a shard that this process knows of. The shard may have grown since.
func (l *Ledger) KnownHead(shard int) int64 { return l.heads.at(shard) }
