package feed

import (
	"context"
	"sync"
)

// epochSQL names the run of the database server. Consumers commit without waiting for the disk, so a server that
// crashed may come back with less than it had; what was learned in another epoch counts no more.
const epochSQL = `(extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint`

// EpochSQL is the expression for queries that compare with Progress.
const EpochSQL = epochSQL

// Progress is what this process knows of how far the consumers have come: at once for its own, through notifications
// for those that run elsewhere.
type Progress struct {
	mu      sync.Mutex
	epoch   int64
	reached map[place]int64
	moved   chan struct{} // closed and replaced at each change
	told    map[place]int64
	tell    chan struct{} // something was passed over that others do not know of
	renew   []func()      // called when the epoch changes
}

type place struct {
	consumer string
	shard    int
}

// NewProgress knows nothing yet.
func NewProgress() *Progress {
	return &Progress{reached: map[place]int64{}, moved: make(chan struct{}), told: map[place]int64{}, tell: make(chan struct{}, 1)}
}

// start notes a checkpoint as the database has it, and in which epoch.
func (p *Progress) start(epoch int64, consumer string, shard int, position int64) {
	p.SetEpoch(epoch)
	p.set(consumer, shard, position)
}

// SetEpoch tells in which epoch the server is; a new one forgets what was known.
func (p *Progress) SetEpoch(epoch int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoch == epoch {
		return
	}
	p.epoch = epoch
	clear(p.reached)
	for _, wake := range p.renew {
		wake() // consumers look again where they are
	}
}

func (p *Progress) current() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.epoch
}

func (p *Progress) onEpoch(wake func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.renew = append(p.renew, wake)
}

func (p *Progress) set(consumer string, shard int, position int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := (place{consumer, shard}); position > p.reached[k] {
		p.reached[k] = position
		close(p.moved)
		p.moved = make(chan struct{})
	}
}

// passed notes that a consumer found nothing for it up to a position, and has other processes told.
func (p *Progress) passed(consumer string, shard int, position int64) {
	p.set(consumer, shard, position)
	p.mu.Lock()
	p.told[place{consumer, shard}] = position
	p.mu.Unlock()
	select {
	case p.tell <- struct{}{}:
	default:
	}
}

// untold takes what others are to be told.
func (p *Progress) untold() map[place]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.told
	p.told = map[place]int64{}
	return taken
}

// Reached tells how far a consumer is known to have come.
func (p *Progress) Reached(consumer string, shard int) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reached[place{consumer, shard}]
}

// Wait returns when all consumers have reached a position, or with the context's error.
func (p *Progress) Wait(ctx context.Context, shard int, position int64, consumers ...string) error {
	for {
		p.mu.Lock()
		moved, behind := p.moved, false
		for _, c := range consumers {
			behind = behind || p.reached[place{c, shard}] < position
		}
		p.mu.Unlock()
		if !behind {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
