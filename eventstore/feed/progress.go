package feed

import (
	"context"
	"sync"
)

// Progress is what this process knows of how far the consumers have come: at once for its own, through notifications
// for those that run elsewhere.
type Progress struct {
	mu      sync.Mutex
	reached map[place]int64
	moved   chan struct{} // closed and replaced at each change
}

type place struct {
	consumer string
	shard    int
}

// NewProgress knows nothing yet.
func NewProgress() *Progress {
	return &Progress{reached: map[place]int64{}, moved: make(chan struct{})}
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
