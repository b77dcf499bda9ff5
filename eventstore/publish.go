package eventstore

import (
	"context"
	"time"
)

// HeadPublisher keeps tree heads outside of the database.
type HeadPublisher interface {
	// Publish publishes the head of a shard's tree of size blocks as a signed note. It returns when the head is kept.
	Publish(ctx context.Context, shard int, size int64, note string) error
	String() string // name for logs, without credentials
}

// PublishHeads publishes the newest head of each shard to all publishers, once and then at intervals, until ctx ends. A
// head that was published is not published again by this process. A failure is logged, and the next interval tries
// again. It runs in real time.
func (l *Ledger) PublishHeads(ctx context.Context, every time.Duration, publishers []HeadPublisher) {
	published := make([][]int64, len(publishers)) // newest sizes by publisher and shard
	for i := range published {
		published[i] = make([]int64, l.shards)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		for shard := range l.shards {
			head, _, err := l.lastTree(ctx, shard)
			if err != nil && ctx.Err() == nil {
				l.log.Error("eventstore: cannot publish a tree head", "shard", shard, "error", err)
			}
			if err != nil {
				continue
			}
			for i, p := range publishers {
				if head.Size <= published[i][shard] {
					continue
				}
				if err := p.Publish(ctx, shard, head.Size, l.keyring.Note(&head)); err != nil {
					if ctx.Err() == nil {
						l.log.Error("eventstore: cannot publish a tree head", "shard", shard, "destination", p.String(), "error", err)
					}
					continue
				}
				published[i][shard] = head.Size
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
