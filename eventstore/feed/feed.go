// Package feed delivers the events of the ledger to consumers: projections and processes.
//
// # Checkpoints
//
// A consumer has a checkpoint for each shard: the position up to which it has applied the events. The rows that a
// consumer writes and its checkpoint commit in one transaction, which fails if the checkpoint is not where the batch
// begins. So several processes may run the same consumer, and every event is still applied exactly once.
//
// A checkpoint names the event at its position. When the history of the ledger went back (see eventstore.Rewind), the
// database refuses the checkpoints of batches that were read before, consumers drop what they have read, and continue
// at their checkpoints in the database. A consumer whose checkpoint there is not in the ledger stops.
//
// # Revisions
//
// A revision is the set of tables that one version of a consumer's code has built. Each revision has its own
// checkpoints. The feed writes to the active revision; when another one becomes active, the feed continues at its
// checkpoints.
//
// # Parked events
//
// When a batch fails because of an event itself, its events are applied one by one. An event that still fails is
// parked: it is recorded in the table feed_parked, the checkpoint moves past it, and the consumer continues. An
// operator can retry or remove parked events. Other errors, such as a broken connection, are retried without end.
//
// # Progress
//
// [Progress] knows how far consumers have come, in this process and in others, so that a request can wait until its own
// write is visible in a read model.
//
// # Transport
//
// The transport is watermill: its router runs the handlers, with recovery from panics, metrics and its poison queue,
// which is where events get parked. Its SQL subscriber reads the ledger's own table through the adapters in
// subscriber.go. A message stands for one batch of events of one consumer and shard.
package feed

import (
	"context"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/eventstore"
)

// BatchSize is the largest number of positions in a batch. Only checkpoints that are moved over events that a consumer
// does not want span more.
const BatchSize = 1000

// Batch is the events of a shard with After < position <= Through that a consumer wants. There may be none: the
// checkpoint then moves to Through all the same. Consumers share the events and must not change them.
type Batch struct {
	Consumer string
	Revision int
	Shard    int
	After    int64
	Through  int64
	Events   []eventstore.Recorded

	throughID uuid.UUID // of the event at Through
}

// name is the content of the batch's message. The batch itself stays with its source: it is in this process already and
// decoded for all consumers, so putting it into the message would only encode and decode it again.
func (b *Batch) name() string {
	return b.Consumer + "/" + strconv.Itoa(b.Shard) + "/" + strconv.FormatInt(b.Through, 10)
}

// Consumer is a follower of the ledger, run by a Runner.
type Consumer interface {
	// Name is unique and never changes: checkpoints are stored under it.
	Name() string
	// Types are the wire names of the events that the consumer wants; none means all.
	Types() []string
	// Write adds the statements for events to b. They commit together with the checkpoint of the revision. Write must
	// depend on the events alone. It is called again with the same events after a transaction that failed.
	Write(b *pgx.Batch, revision int, recorded []eventstore.Recorded) error
	// Committed is called after a batch has committed, in order. It must not block.
	Committed(batch *Batch)
}

// ReadingConsumer is a Consumer whose statements depend on more than the events: it may read from the database and wait
// for other read models.
type ReadingConsumer interface {
	Consumer
	// WriteContext is called instead of Write. Its statements commit together with the checkpoint, and only if no other
	// process has written the batch meanwhile.
	WriteContext(ctx context.Context, b *pgx.Batch, revision int, recorded []eventstore.Recorded) error
}

// addStatementsTo adds a consumer's statements for events to a batch of statements.
func addStatementsTo(ctx context.Context, c Consumer, b *pgx.Batch, revision int, recorded []eventstore.Recorded) error {
	if reading, ok := c.(ReadingConsumer); ok {
		return reading.WriteContext(ctx, b, revision, recorded)
	}
	return c.Write(b, revision, recorded)
}
