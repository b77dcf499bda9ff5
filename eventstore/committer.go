package eventstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// committer writes the appends of one shard for this process. Committers of other processes are excluded by the lock on
// the row of the shard's head.
type committer struct {
	ledger  *Ledger
	shard   int
	queue   chan *pendingAppend
	stopped chan struct{} // closed when the committer takes no more appends

	skipOptimistic int // number of next batches that skip the optimistic commit
	lastSkip       int // value that skipOptimistic was last set to; 0 after an optimistic commit that succeeded
}

const (
	// reconnectFor is how long appends wait for a database that cannot be reached, before they are refused.
	reconnectFor = 2 * time.Second
	// commitLimit bounds one try to commit a batch.
	commitLimit = 10 * time.Second
)

func (c *committer) run(ctx context.Context) {
	defer close(c.stopped)
	for {
		select {
		case <-ctx.Done():
			c.refuseQueued()
			return
		case first := <-c.queue:
			c.commit(c.nextBatch(first))
		}
	}
}

// nextBatch returns first and the appends that are queued at this moment. It does not wait for more: under load the
// queue fills while the batch before is written, and a single append is never delayed.
func (c *committer) nextBatch(first *pendingAppend) []*pendingAppend {
	batch := []*pendingAppend{first}
	for len(batch) < MaxBatch {
		select {
		case p := <-c.queue:
			batch = append(batch, p)
		default:
			return batch
		}
	}
	return batch
}

// refuseQueued answers ErrClosed to the appends that are still in the queue.
func (c *committer) refuseQueued() {
	for {
		select {
		case p := <-c.queue:
			p.reply <- reply{err: ErrClosed}
		default:
			return
		}
	}
}

// commit writes a batch and answers its callers. When the database refuses the batch with an SQL error, commit splits
// it in halves, so that the one append at fault does not fail the others. When the connection breaks, commit finds out
// whether the batch was committed before it tries again, so nothing is written twice.
func (c *committer) commit(batch []*pendingAppend) {
	batch = c.current(withoutCancelled(batch))
	if len(batch) == 0 {
		return
	}
	known := c.ledger.heads.seenIn(c.shard)
	deadline := time.Now().Add(reconnectFor)
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		replies, err := c.tryCommit(batch, &known)
		if err == nil {
			c.replyAll(batch, replies, known)
			return
		}
		if IsRewound(err) {
			c.rewound(batch, known)
			return
		}
		if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) && !isTransient(refused) {
			if len(batch) == 1 && isClaimRace(refused) && !time.Now().After(deadline) {
				continue // the next try reads the claim that the other shard has taken, and refuses the append
			}
			if len(batch) == 1 {
				batch[0].reply <- reply{err: fmt.Errorf("eventstore: append: %w", err)}
				return
			}
			c.commit(batch[:len(batch)/2])
			c.commit(batch[len(batch)/2:])
			return
		}
		c.ledger.log.Warn("eventstore: batch failed, trying again", "shard", c.shard, "appends", len(batch), "error", err)
		refusal := ErrUnavailable
		if last := lastWritten(batch); last != nil && !pgconn.SafeToRetry(err) {
			committed, sure := c.wasCommitted(last)
			if committed {
				c.replyAll(batch, replies, known)
				return
			}
			if !sure {
				refusal = ErrUnknownOutcome
			}
		}
		if refusal == ErrUnknownOutcome || time.Now().After(deadline) { //nolint:errorlint // one of the two above
			for _, p := range batch {
				p.reply <- reply{err: fmt.Errorf("%w: %w", refusal, err)}
			}
			return
		}
		time.Sleep(pause) //nolint:forbidigo // a real pause between tries, which Close does not interrupt
	}
}

// withoutCancelled drops the appends whose callers have given up.
func withoutCancelled(batch []*pendingAppend) []*pendingAppend {
	wanted := batch[:0]
	for _, p := range batch {
		if p.ctx.Err() == nil {
			wanted = append(wanted, p)
		}
	}
	return wanted
}

// current refuses the appends that were decided before the last rewind, and all of them while one is being settled.
func (c *committer) current(batch []*pendingAppend) []*pendingAppend {
	generation, rewind := c.ledger.Generation(), c.ledger.Rewound()
	current := batch[:0]
	for _, p := range batch {
		if p.append.Generation != generation || rewind != nil {
			p.reply <- reply{err: ErrRewound}
			continue
		}
		current = append(current, p)
	}
	return current
}

// rewound refuses a batch because one of the events that this process has seen is not in the ledger, finds out which,
// and begins the rewind.
func (c *committer) rewound(batch []*pendingAppend, known seen) {
	for _, p := range batch {
		p.reply <- reply{err: ErrRewound}
	}
	if len(known.points) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), reconnectFor)
	defer cancel()
	if _, err := c.ledger.Head(ctx, c.shard); err != nil && !errors.Is(err, ErrRewound) {
		_ = c.ledger.ReportRewind(known.generation, c.shard, known.points[0])
	}
}

func (c *committer) replyAll(batch []*pendingAppend, replies []reply, known seen) {
	var newest Point
	for _, r := range replies {
		if r.err == nil && r.result.Last > newest.Position {
			newest.Position, newest.ID = r.result.Last, uuid.Nil
			if n := len(r.result.IDs); n > 0 {
				newest.ID = r.result.IDs[n-1]
			}
		}
	}
	c.ledger.heads.verified(known, newest)
	if newest.ID != uuid.Nil {
		c.ledger.announce(c.shard, newest.Position)
	}
	for i, p := range batch {
		p.reply <- replies[i]
	}
}

// isClaimRace tells whether an insert failed because the committer of another shard has taken the claim at the same
// time: the lock on this shard's head does not exclude the committers of other shards.
func isClaimRace(e *pgconn.PgError) bool {
	return e.Code == codeUniqueViolation && e.ConstraintName == "ledger_claims_pkey"
}

// isTransient tells whether an error is caused by the state of the server, not by the batch, so that the same batch may
// succeed later.
func isTransient(e *pgconn.PgError) bool {
	switch e.Code[:2] {
	case "08", "57", "40", "53": // connection, operator intervention, rollback (deadlock), resources (disk full, too many connections)
		return true
	}
	return e.Code == "25006" // read-only transaction: a standby is being promoted
}

// tryCommit commits a batch optimistically, in one round trip. If that is not possible, it commits the batch
// pessimistically: one round trip locks the head and reads the state, a second one writes the accepted appends. The
// replies are valid when err is nil. They are also valid when the connection broke during the commit and the caller
// finds out that the batch was committed.
func (c *committer) tryCommit(batch []*pendingAppend, known *seen) (replies []reply, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), commitLimit)
	defer cancel()
	clearPositions(batch)
	if replies, done, err := c.commitOptimistically(ctx, batch, known); done || err != nil {
		return replies, err
	}
	clearPositions(batch)
	conn, err := c.ledger.writers.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { releaseConn(conn, err) }()

	state, err := c.lockAndRead(ctx, conn, batch, known)
	if err != nil {
		return nil, err
	}
	replies = make([]reply, len(batch))
	var accepted []*pendingAppend
	for i, p := range batch {
		replies[i].result, replies[i].err = state.decide(c.shard, p)
		if replies[i].err == nil {
			accepted = append(accepted, p)
		}
	}
	if len(accepted) == 0 {
		_, err = conn.Exec(ctx, "rollback")
		return replies, err
	}
	return replies, c.write(ctx, conn, state, accepted, func(b *pgx.Batch) { b.Queue(moveHeadSQL, c.shard, state.head) })
}

// clearPositions takes back the positions of an earlier try, which may have numbered rows of an append that is refused
// now: after a broken connection, wasCommitted looks for the last numbered row.
func clearPositions(batch []*pendingAppend) {
	for _, p := range batch {
		for i := range p.rows {
			p.rows[i].position = 0
		}
	}
}

// releaseConn returns a connection to its pool. After an error it ends the transaction first, or closes the connection.
func releaseConn(conn *pgxpool.Conn, err error) {
	if err == nil {
		conn.Release()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if _, rollbackErr := conn.Exec(ctx, "rollback"); rollbackErr != nil {
		_ = conn.Conn().Close(ctx)
	}
	conn.Release()
}

const (
	// Once this lock is granted, no earlier transaction that appends to the shard is still running, so the result of a
	// transaction that lost its connection can be read.
	lockHeadSQL = `select position from ledger_heads where shard = $1 for update`
	findIDSQL   = `select position from ledger_events where shard = $1 and id = $2 and position > $3`
)

// lastWritten returns the last row of a batch that was sent to the database; nil when none was. A batch without events
// may be repeated in any case: if it was committed, the repetition finds its idempotency records and claims.
func lastWritten(batch []*pendingAppend) (last *row) {
	for _, p := range batch {
		if n := len(p.rows); n > 0 && p.rows[n-1].position > 0 {
			last = &p.rows[n-1]
		}
	}
	return last
}

// wasCommitted finds out, after a broken connection, whether the batch of a row was committed; sure is false when the
// database could not be reached for reconnectFor.
func (c *committer) wasCommitted(last *row) (committed, sure bool) {
	for deadline := time.Now().Add(reconnectFor); ; {
		if found, err := c.isStored(last); err == nil {
			return found, true
		}
		if time.Now().After(deadline) {
			return false, false
		}
		time.Sleep(100 * time.Millisecond) //nolint:forbidigo // a real pause between tries
	}
}

// isStored tells whether an event is in the ledger, as durable as commits have to be.
func (c *committer) isStored(r *row) (found bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), reconnectFor)
	defer cancel()
	conn, err := c.ledger.writers.Acquire(ctx)
	if err != nil {
		return false, err
	}
	defer func() { releaseConn(conn, err) }()
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var head int64
		if err := tx.QueryRow(ctx, lockHeadSQL, c.shard).Scan(&head); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, findIDSQL, c.shard, r.id, r.position-1).Scan(&r.position); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, touchHeadSQL, c.shard) // the commit that wrote the event may not be replicated, this one will be
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, c.confirm(ctx, conn)
}

// ForceIndexScansSQL makes the rest of a transaction look up every row by an index, as the connections of the
// committers always do (see newWriterPool). It is for transactions over other connections that write a few rows of
// large tables.
const ForceIndexScansSQL = `select set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
	set_config('plan_cache_mode', 'force_generic_plan', true)`

const (
	versionsSQL = `select u.stream, e.version
		from unnest($1::text[]) u (stream)
		cross join lateral (select version from ledger_events e where e.stream = u.stream order by version desc limit 1) e`
	claimsSQL = `select c.scope, c.key, c.owner
		from unnest($1::text[], $2::text[]) u (scope, key) join ledger_claims c using (scope, key)`
	quotasSQL = `select u.i, coalesce((select sum(used) from ledger_quotas q where q.key = u.key and q.bucket >= u.since), 0)::bigint
		from unnest($1::text[], $2::timestamptz[]) with ordinality u (key, since, i)`
	recordsSQL = `select r.workspace_id, r.key, r.actor, r.fingerprint, r.ref, r.status, r.body, coalesce(r.subject, ''), r.shard, r.position, r.created_at
		from unnest($1::uuid[], $2::text[]) u (workspace_id, key) join ledger_idempotency_records r using (workspace_id, key)`
	lostSQL = `select exists (select from unnest($2::bigint[], $3::uuid[]) u (position, id)
		where u.id is distinct from (select e.id from ledger_events e where e.shard = $1 and e.position = u.position))`
	existingKeysSQL = `select subject from ledger_keys where subject = any($1)`
)

// lockAndRead begins a transaction, locks the shard's head and reads everything that the batch's preconditions depend
// on, in one round trip.
func (c *committer) lockAndRead(ctx context.Context, conn *pgxpool.Conn, batch []*pendingAppend, known *seen) (*shardState, error) {
	s := newShardState(0, c.ledger.clock.Now())
	l := lookupsOf(batch)
	var b pgx.Batch
	b.Queue("begin")
	b.Queue(lockHeadSQL, c.shard).QueryRow(func(r pgx.Row) error { return r.Scan(&s.head) })
	var lost bool
	positions, ids := known.args()
	b.Queue(lostSQL, c.shard, positions, uuids(ids)).QueryRow(func(r pgx.Row) error { return r.Scan(&lost) })
	if len(l.streams) > 0 {
		b.Queue(versionsSQL, l.streams).Query(func(rows pgx.Rows) error {
			var stream string
			var version int
			_, err := pgx.ForEachRow(rows, []any{&stream, &version}, func() error { s.versions[stream] = version; return nil })
			return err
		})
	}
	if len(l.claimScopes) > 0 {
		b.Queue(claimsSQL, l.claimScopes, l.claimKeys).Query(func(rows pgx.Rows) error {
			var scope, key, owner string
			_, err := pgx.ForEachRow(rows, []any{&scope, &key, &owner}, func() error {
				s.claims[claimKey{scope, key}], s.storedClaims[claimKey{scope, key}] = owner, owner
				return nil
			})
			return err
		})
	}
	if len(l.windows) > 0 {
		b.Queue(quotasSQL, l.quotaKeys, l.quotaSince).Query(func(rows pgx.Rows) error {
			var i int
			var used int64
			_, err := pgx.ForEachRow(rows, []any{&i, &used}, func() error { s.used[l.windows[i-1]] = used; return nil })
			return err
		})
	}
	if len(l.recordKeys) > 0 {
		b.Queue(recordsSQL, uuids(l.recordWorkspaces), l.recordKeys).Query(func(rows pgx.Rows) error {
			found, err := pgx.CollectRows(rows, scanRecord)
			for _, r := range found {
				s.records[recordKey{r.Workspace, r.Key}] = r
			}
			return err
		})
	}
	if len(l.subjects) > 0 {
		b.Queue(existingKeysSQL, l.subjects).Query(func(rows pgx.Rows) error {
			var subject string
			_, err := pgx.ForEachRow(rows, []any{&subject}, func() error { s.keys[subject] = true; return nil })
			return err
		})
	}
	if err := conn.SendBatch(ctx, &b).Close(); err != nil {
		return nil, err
	}
	if lost {
		return nil, ErrRewound
	}
	return s, nil
}

// lookups holds the distinct keys that the preconditions of a batch depend on, as array arguments of the queries above.
type lookups struct {
	streams                []string
	claimScopes, claimKeys []string
	windows                []QuotaWindow
	quotaKeys              []string
	quotaSince             []time.Time
	recordWorkspaces       []uuid.UUID
	recordKeys             []string
	subjects               []string
}

func lookupsOf(batch []*pendingAppend) *lookups {
	l := &lookups{}
	seen := map[any]bool{}
	isNew := func(k any) bool {
		if seen[k] {
			return false
		}
		seen[k] = true
		return true
	}
	for _, p := range batch {
		a := p.append
		for _, s := range a.Streams {
			if isNew(s.Stream) {
				l.streams = append(l.streams, s.Stream)
			}
		}
		for _, g := range a.Guards {
			if isNew(g.Stream) {
				l.streams = append(l.streams, g.Stream)
			}
		}
		for _, c := range a.Claims {
			if isNew(claimKey{c.Scope, c.Key}) {
				l.claimScopes, l.claimKeys = append(l.claimScopes, c.Scope), append(l.claimKeys, c.Key)
			}
		}
		for _, q := range a.Quotas {
			if w := (QuotaWindow{q.Key, q.From}); isNew(w) {
				l.windows = append(l.windows, w)
				l.quotaKeys, l.quotaSince = append(l.quotaKeys, q.Key), append(l.quotaSince, q.From)
			}
		}
		if r := a.Idempotency; r != nil && isNew(recordKey{r.Workspace, r.Key}) {
			l.recordWorkspaces, l.recordKeys = append(l.recordWorkspaces, r.Workspace), append(l.recordKeys, r.Key)
		}
		for _, k := range p.newKeys {
			l.subjects = append(l.subjects, k.subject)
		}
	}
	return l
}
