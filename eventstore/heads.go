package eventstore

import "sync"

// heads are the newest positions of the shards that this process knows of, and the functions to call when they grow.
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

// advance stores a head and wakes the listeners of the shard. A head that is not newer changes nothing.
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
