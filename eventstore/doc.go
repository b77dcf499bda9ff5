// Package eventstore is the ledger: an append-only record of events in PostgreSQL. It is the only code that writes
// events.
//
// # Streams, shards, positions
//
// Every event belongs to the stream of one aggregate (a contact, a message, a line) and has a version there: 1, 2, 3, …
// Every organisation lives on one shard, and every event has a position in its shard: 1, 2, 3, … without gaps.
// Positions become visible in their order. A reader that asks for `position > $1 order by position` never misses an
// event.
//
// # Append
//
// [Ledger.Append] writes the events of one or more streams in one atomic step, or refuses the step and writes nothing.
// An append is refused when one of its preconditions does not hold:
//
//   - Expected versions: a stream that the append adds to is still at the version at which the command decided
//     ([StreamEvents].Expected). Otherwise *[VersionConflict]: load again and decide again.
//   - Guards: a stream that the append only depends on is still at a version ([Guard]). Same error.
//   - Claims: a unique key, such as a name in a workspace, is free or belongs to the same owner already ([Claim]).
//     Otherwise *[ClaimTaken].
//   - Quotas: a counter stays within its limit ([Quota]). Otherwise *[QuotaExceeded].
//   - Idempotency record: the idempotency key of the request was not used within [IdempotencyRecordLifetime]
//     ([IdempotencyRecord]). Otherwise *[IdempotencyRecordExists], which holds the stored answer.
//
// Claims, quotas and the idempotency record commit in the same transaction as the events.
//
// # Group commit
//
// Each process has one committer for each shard. While it writes one batch of appends, further appends queue up and
// form the next batch (up to [MaxBatch]). A batch is one transaction: one round trip or two, and one flush to disk, for
// all of its appends. The committer checks each append of a batch on its own, including what earlier appends of the
// same batch change; a refused append does not affect the others. Committers of several processes exclude each other by
// locking the row of the shard's head.
//
// The committer first commits a batch optimistically: it assumes that streams are at their expected versions and that
// claims and keys are free, and sends one transaction that fails if an assumption is wrong. After such a failure it
// commits the batch pessimistically: it locks the head, reads the state that the preconditions depend on, decides each
// append, and writes the accepted ones.
//
// # Sealed personal data
//
// Events keep personal data apart from facts: see [ledgerline/events.Sealed]. The ledger encrypts it under a key of its
// subject (usually a contact), which is itself encrypted by the installation's [Keyring]. [Append].EraseSubjects
// destroys the keys of subjects: the personal data in their events can never be read again, while the events and their
// hashes stay as they are. Such events load with Erased set.
//
// # Tags, blocks and proofs
//
// Every event has a tag: an HMAC of its hash under a key of the [Keyring]. Events without a tag that fits, or outside
// of the positions up to the head, have no effect: they do not load. The notary ([Ledger.RunNotary]) closes blocks: it
// hashes the events of a range of positions and adds their root to the Merkle tree of the shard's blocks, whose head
// ([TreeHead]) it signs. [Ledger.PublishHeads] copies heads to places outside of the database. [Ledger.Verify]
// recomputes all of it, compares it with published heads, and names the first position that was changed, removed or
// added; [Ledger.VerifyReferences] compares what refers to events. [Ledger.Prove] exports streams with the hashes that
// prove them to an outsider. The outsider checks them with [Proof.Check], without access to the ledger.
//
// # Reading
//
// [Ledger.Load] reads a stream; [AggregateLoader] folds streams into aggregates and caches them. [Ledger.ReadRange] and
// [Ledger.ReadAfter] read a shard by position. Consumers that follow the ledger use package feed.
package eventstore
