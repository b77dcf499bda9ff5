package eventstore

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// An optimistic commit needs one round trip; a pessimistic commit (see tryCommit) needs two. The optimistic commit
// reads nothing first: it decides the appends as if all their expectations held (streams at their expected versions,
// free claims, unused keys). It sends everything in one transaction that begins with a function which checks the
// expectations. If one does not hold, the transaction fails, nothing is written, and the batch is committed
// pessimistically. Nearly all batches meet their expectations.

// codeExpectationFailed is the SQLSTATE of ledger_check_expectation when the database is not as expected.
const codeExpectationFailed = "LL002"

// maxSkipOptimistic bounds how many batches skip the optimistic commit after a failed expectation. The number is 1
// after the first failure and doubles with each further failure in a row. While other processes write to the same
// shard, failed optimistic commits would cost more than the successful ones save.
const maxSkipOptimistic = 16

// expectation is the state of the database that a batch expects.
type expectation struct {
	state        *shardState
	streams      []string
	versions     []int32 // of the streams
	freeClaims   []claimKey
	freeRecords  []recordKey // idempotency keys that are not used
	newSubjects  []string    // subjects without a key
	maxQuotaUsed map[QuotaWindow]int64
}

const checkExpectationSQL = `select ledger_check_expectation($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`

// expect returns the state of the database that a batch expects. ok is false for a batch that cannot be committed
// optimistically: it releases claims, erases subjects, or adds to streams at any version, or the expectations of two of
// its appends contradict each other.
func (c *committer) expect(batch []*pendingAppend) (*expectation, bool) {
	if c.skipOptimistic > 0 {
		c.skipOptimistic--
		return nil, false
	}
	e := &expectation{state: newShardState(c.ledger.heads.at(c.shard), c.ledger.clock.Now()), maxQuotaUsed: map[QuotaWindow]int64{}}
	// atVersion records the expected version of a stream. It returns false when an earlier append expects another version.
	atVersion := func(stream string, version int) bool {
		if earlier, seen := e.state.versions[stream]; seen {
			return earlier == version
		}
		e.state.versions[stream] = version
		e.streams, e.versions = append(e.streams, stream), append(e.versions, int32(version)) //nolint:gosec // small
		return true
	}
	written := map[string]bool{}
	for _, p := range batch {
		a := p.append
		if len(a.EraseSubjects) > 0 {
			return nil, false
		}
		for _, g := range a.Guards {
			if written[g.Stream] || !atVersion(g.Stream, g.Version) {
				return nil, false
			}
		}
		for _, s := range a.Streams {
			// Of two appends that write one stream, one will be refused.
			if s.Expected == AnyVersion || written[s.Stream] || !atVersion(s.Stream, s.Expected) {
				return nil, false
			}
		}
		for _, s := range a.Streams {
			written[s.Stream] = true
		}
		for _, claim := range a.Claims {
			if claim.Release {
				return nil, false
			}
			e.freeClaims = append(e.freeClaims, claimKey{claim.Scope, claim.Key})
		}
		if r := a.Idempotency; r != nil {
			e.freeRecords = append(e.freeRecords, recordKey{r.Workspace, r.Key})
		}
		for _, k := range p.newKeys {
			e.newSubjects = append(e.newSubjects, k.subject)
		}
	}
	return e, true
}

// addCheckTo adds the statement that moves the shard's head and fails unless the expectation holds and the events that
// this process has seen are in the ledger.
func (e *expectation) addCheckTo(b *pgx.Batch, shard int, head int64, known *seen) {
	scopes, keys := make([]string, len(e.freeClaims)), make([]string, len(e.freeClaims))
	for i, k := range e.freeClaims {
		scopes[i], keys[i] = k.scope, k.key
	}
	workspaces, recordKeys := make([]uuid.UUID, len(e.freeRecords)), make([]string, len(e.freeRecords))
	for i, k := range e.freeRecords {
		workspaces[i], recordKeys[i] = k.workspace, k.key
	}
	var counters []string
	var since []time.Time
	var maxUsed []int64
	for w, most := range e.maxQuotaUsed {
		counters, since, maxUsed = append(counters, w.Key), append(since, w.From), append(maxUsed, most)
	}
	positions, ids := known.args()
	b.Queue(checkExpectationSQL, shard, head, e.state.head, e.streams, e.versions, scopes, keys, uuids(workspaces), recordKeys, e.newSubjects, counters, since, maxUsed,
		positions, uuids(ids))
}

// limitQuotas records, for each quota of an append, the highest usage that may be stored in the database if this append
// and the earlier ones of the batch are to stay within the limit. Call it after decide has accepted the append, because
// the state then counts what the append adds.
func (e *expectation) limitQuotas(a *Append) {
	for _, q := range a.Quotas {
		if q.Add <= 0 {
			continue
		}
		w := QuotaWindow{q.Key, q.From}
		most := q.Limit - e.state.usedSince(w)
		if earlier, known := e.maxQuotaUsed[w]; !known || most < earlier {
			e.maxQuotaUsed[w] = most
		}
	}
}

// commitOptimistically tries to commit a batch in one round trip. If done is false and err is nil, nothing was written
// and the batch must be committed pessimistically.
func (c *committer) commitOptimistically(ctx context.Context, batch []*pendingAppend, known *seen) (replies []reply, done bool, err error) {
	e, ok := c.expect(batch)
	if !ok {
		return nil, false, nil
	}
	head := e.state.head
	replies = make([]reply, len(batch))
	for i, p := range batch {
		if replies[i].result, replies[i].err = e.state.decide(c.shard, p); replies[i].err != nil {
			return nil, false, nil // an earlier append of the batch excludes this one
		}
		e.limitQuotas(p.append)
	}
	conn, err := c.ledger.writers.Acquire(ctx)
	if err != nil {
		clearPositions(batch) // nothing was sent
		return nil, false, err
	}
	defer func() { releaseConn(conn, err) }()
	err = c.write(ctx, conn, e.state, batch, func(b *pgx.Batch) {
		b.Queue("begin")
		e.addCheckTo(b, c.shard, head, known)
	})
	if failed := (*pgconn.PgError)(nil); errors.As(err, &failed) && failed.Code == codeExpectationFailed {
		c.lastSkip = min(max(2*c.lastSkip, 1), maxSkipOptimistic)
		c.skipOptimistic = c.lastSkip
		if _, err = conn.Exec(ctx, "rollback"); err != nil {
			return nil, false, err
		}
		return nil, false, nil
	}
	if err == nil {
		c.lastSkip = 0
	}
	return replies, true, err
}
