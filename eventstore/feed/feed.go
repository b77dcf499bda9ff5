// Package feed brings the ledger's events to those who follow it. Watermill is the transport: watermill-sql's
// subscriber tails the ledger's own table, one message is a batch of events, and watermill's router runs the handlers
// with its recovery, metrics and poison handling.
//
// The subscriber only reads. A consumer's rows and its checkpoint commit together in the consumer's own transaction,
// so a batch that is delivered twice is written once.
package feed

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5"

	"ledgerline/eventstore"
)

// BatchSize is how many positions one message spans at most.
const BatchSize = 1000

// Batch is what one message stands for: the events of a shard with After < position <= Through that the consumer asked
// for. It may hold none; the checkpoint moves to Through all the same. Consumers share the events and must not change them.
type Batch struct {
	Consumer string
	Revision int
	Shard    int
	After    int64
	Through  int64
	Events   []eventstore.Recorded
}

// name is what a message carries. The batch itself stays with its source: it is in this process already, decoded once for
// all consumers, and would otherwise be encoded and decoded again for each of them.
func (b *Batch) name() string {
	return b.Consumer + "/" + strconv.Itoa(b.Shard) + "/" + strconv.FormatInt(b.Through, 10)
}

// Consumer follows the ledger.
type Consumer interface {
	// Name is unique and never changes: the checkpoint is kept under it.
	Name() string
	// Types are the wire names it wants; none means all.
	Types() []string
	// Write turns events into statements for one revision, which commit together with the checkpoint. It must not
	// read from anywhere. It is called again with the same events when a transaction failed.
	Write(b *pgx.Batch, revision int, recorded []eventstore.Recorded) error
	// Committed is called after a batch is durable, in order; it must not block.
	Committed(batch *Batch)
}

// ReadingConsumer is a Consumer whose statements depend on more than the events: it may read, and wait for other read models.
// Compose takes the place of Write, with the same promise: what it queues commits with the checkpoint, and only if no
// other worker has written the batch meanwhile.
type ReadingConsumer interface {
	Consumer
	WriteContext(ctx context.Context, b *pgx.Batch, revision int, recorded []eventstore.Recorded) error
}

// statements asks a consumer for what it writes.
func statements(ctx context.Context, c Consumer, b *pgx.Batch, revision int, recorded []eventstore.Recorded) error {
	if composer, ok := c.(ReadingConsumer); ok {
		return composer.WriteContext(ctx, b, revision, recorded)
	}
	return c.Write(b, revision, recorded)
}
