package eventstore

import "sync"

// heads is what this process knows of the shards' heads, and who wants to hear when they move.
type heads struct {
	mu        sync.Mutex
	positions []int64
	listeners map[int]listener
	next      int
}

type listener struct {
	shard int
	wake  func()
}

func newHeads(shards int) *heads {
	return &heads{positions: make([]int64, shards), listeners: map[int]listener{}}
}

// advance notes a head and wakes the listeners of the shard; an older head than known is nothing new.
func (h *heads) advance(shard int, position int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
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

// OnAppend calls wake whenever this process learns that a shard has grown: at once for its own appends, through
// Listen for those of others. wake must not block. The returned function ends it.
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

// AdvanceHead tells the ledger of a head that was learned elsewhere, from a notification of another process.
func (l *Ledger) AdvanceHead(shard int, position int64) {
	if shard >= 0 && shard < l.shards {
		l.heads.advance(shard, position)
	}
}

// KnownHead is the newest head that this process has heard of.
func (l *Ledger) KnownHead(shard int) int64 { return l.heads.at(shard) }
