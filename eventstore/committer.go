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

// committer is the one writer of a shard in this process. Writers of other processes are kept apart by the lock on
// the shard's head row.
type committer struct {
	ledger *Ledger
	shard  int
	queue  chan *pending
	done   chan struct{} // closed when nothing more is taken
	rest   int           // batches that are not guessed, see assume
	// penalty is how long the last rest was; 0 after a guess that was right.
	penalty int
}

// reconnectFor bounds how long appends wait for a database that is away, before they are refused.
const reconnectFor = 10 * time.Second

func (c *committer) run(ctx context.Context) {
	defer close(c.done)
	for {
		select {
		case <-ctx.Done():
			c.refuseRest()
			return
		case first := <-c.queue:
			c.commit(c.drain(first))
		}
	}
}

// drain takes what waits behind first, without waiting for more: under load the batch fills by itself while the one
// before is being flushed, and a lone append is never held back.
func (c *committer) drain(first *pending) []*pending {
	batch := []*pending{first}
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

func (c *committer) refuseRest() {
	for {
		select {
		case p := <-c.queue:
			p.done <- outcome{err: ErrClosed}
		default:
			return
		}
	}
}

// commit writes a batch and answers its callers. When SQL refuses the batch it is bisected, so that one append that
// cannot be written does not take its neighbours with it. When the connection breaks, commit finds out whether the
// batch was written before it tries again: nothing is written twice.
func (c *committer) commit(batch []*pending) {
	batch = stillWanted(batch)
	if len(batch) == 0 {
		return
	}
	deadline := time.Now().Add(reconnectFor)
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		outcomes, err := c.try(batch)
		if err == nil {
			c.answer(batch, outcomes)
			return
		}
		if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) && !transient(refused) {
			if len(batch) == 1 && takenMeanwhile(refused) && !time.Now().After(deadline) {
				continue // another shard took the claim between the question and the answer: now it is seen
			}
			if len(batch) == 1 {
				batch[0].done <- outcome{err: fmt.Errorf("eventstore: append: %w", err)}
				return
			}
			c.commit(batch[:len(batch)/2])
			c.commit(batch[len(batch)/2:])
			return
		}
		c.ledger.log.Warn("ledger: batch failed, trying again", "shard", c.shard, "appends", len(batch), "error", err)
		if written, known := c.written(batch, deadline); known && written {
			c.answer(batch, outcomes)
			return
		} else if !known || time.Now().After(deadline) {
			for _, p := range batch {
				p.done <- outcome{err: fmt.Errorf("%w: %w", ErrUnavailable, err)}
			}
			return
		}
		c.pause(pause)
	}
}

// pause lets the database recover. What is under way when the ledger closes is still decided.
func (*committer) pause(d time.Duration) {
	<-time.After(d)
}

func stillWanted(batch []*pending) []*pending {
	wanted := batch[:0]
	for _, p := range batch {
		if p.ctx.Err() == nil {
			wanted = append(wanted, p)
		}
	}
	return wanted
}

func (c *committer) answer(batch []*pending, outcomes []outcome) {
	var head int64
	for _, o := range outcomes {
		if o.err == nil {
			head = max(head, o.result.Last)
		}
	}
	c.ledger.heads.advance(c.shard, head)
	for i, p := range batch {
		p.done <- outcomes[i]
	}
}

// takenMeanwhile tells that a claim was taken by a committer of another shard, which this shard's lock does not hold off.
func takenMeanwhile(e *pgconn.PgError) bool {
	return e.Code == "23505" && e.ConstraintName == "ledger_claims_pkey"
}

// transient errors say that the server, not the batch, is the trouble.
func transient(e *pgconn.PgError) bool {
	switch e.Code[:2] {
	case "08", "57", "40", "53": // connection, operator intervention, rollback (deadlock), resources (disk full, too many connections)
		return true
	}
	return e.Code == "25006" // read-only: a standby is being promoted
}

// try runs one transaction: on assumptions in one round trip, or else in two, which lock the head and read the facts,
// then write what was accepted. The outcomes are valid when err is nil, and also when the connection broke while committing and the batch turns
// out to have been written.
func (c *committer) try(batch []*pending) (outcomes []outcome, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, p := range batch { // an earlier try may have numbered rows that this one refuses
		for i := range p.rows {
			p.rows[i].position = 0
		}
	}
	if outcomes, done, err := c.tryAssumed(ctx, batch); done || err != nil {
		return outcomes, err
	}
	conn, err := c.ledger.writers.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { release(conn, err) }()

	f, err := c.readFacts(ctx, conn, batch)
	if err != nil {
		return nil, err
	}
	outcomes = make([]outcome, len(batch))
	var accepted []*pending
	for i, p := range batch {
		outcomes[i].result, outcomes[i].err = f.decide(c.shard, p)
		if outcomes[i].err == nil {
			accepted = append(accepted, p)
		}
	}
	if len(accepted) == 0 {
		_, err = conn.Exec(ctx, "rollback")
		return outcomes, err
	}
	return outcomes, c.write(ctx, conn, f, accepted, func(b *pgx.Batch) { b.Queue(moveHeadSQL, c.shard, f.head) })
}

// release gives a connection back; one that may still be inside a transaction is closed.
func release(conn *pgxpool.Conn, err error) {
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
	// Waiting for the head's lock shows whether a transaction whose fate is unknown is still under way.
	headLockSQL = `select position from ledger_heads where shard = $1 for update`
	idAtSQL     = `select position from ledger_events where shard = $1 and id = $2 and position > $3`
)

// written finds out, after a broken connection, whether the batch was committed. A batch without events is harmless
// to repeat: its receipts and claims are found again.
func (c *committer) written(batch []*pending, deadline time.Time) (written, known bool) {
	var last *row
	for _, p := range batch {
		if n := len(p.rows); n > 0 && p.rows[n-1].position > 0 {
			last = &p.rows[n-1]
		}
	}
	for {
		if last == nil {
			if _, err := c.ledger.Head(context.Background(), c.shard); err == nil {
				return false, true
			}
		} else if found, err := c.holds(last); err == nil {
			return found, true
		}
		if time.Now().After(deadline) {
			return false, false
		}
		c.pause(100 * time.Millisecond)
	}
}

func (c *committer) holds(r *row) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var found bool
	err := pgx.BeginFunc(ctx, c.ledger.pool, func(tx pgx.Tx) error {
		var head int64
		if err := tx.QueryRow(ctx, headLockSQL, c.shard).Scan(&head); err != nil {
			return err
		}
		var position int64
		err := tx.QueryRow(ctx, idAtSQL, c.shard, r.id, r.position-1).Scan(&position)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		found = err == nil
		return err
	})
	return found, err
}

// ForceIndexScansSQL has the rest of a transaction look every row up by its index, as the committers' connections always do: for
// those who write a handful of rows into many over other connections.
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
	receiptsSQL = `select r.workspace_id, r.key, r.fingerprint, r.ref, r.status, r.body, coalesce(r.subject, ''), r.shard, r.position, r.created_at
		from unnest($1::uuid[], $2::text[]) u (workspace_id, key) join ledger_idempotency_records r using (workspace_id, key)`
	keysKnownSQL = `select subject from ledger_keys where subject = any($1)`
)

// readFacts locks the head and reads, in one round trip, all that the batch's preconditions ask about.
func (c *committer) readFacts(ctx context.Context, conn *pgxpool.Conn, batch []*pending) (*facts, error) {
	f := newFacts(0, c.ledger.clock.Now())
	q := collect(batch)
	var b pgx.Batch
	b.Queue("begin")
	b.Queue(headLockSQL, c.shard).QueryRow(func(r pgx.Row) error { return r.Scan(&f.head) })
	if len(q.streams) > 0 {
		b.Queue(versionsSQL, q.streams).Query(func(rows pgx.Rows) error {
			var stream string
			var version int
			_, err := pgx.ForEachRow(rows, []any{&stream, &version}, func() error { f.versions[stream] = version; return nil })
			return err
		})
	}
	if len(q.claimScopes) > 0 {
		b.Queue(claimsSQL, q.claimScopes, q.claimKeys).Query(func(rows pgx.Rows) error {
			var scope, key, owner string
			_, err := pgx.ForEachRow(rows, []any{&scope, &key, &owner}, func() error {
				f.claims[claimKey{scope, key}], f.held[claimKey{scope, key}] = owner, owner
				return nil
			})
			return err
		})
	}
	if len(q.windows) > 0 {
		b.Queue(quotasSQL, q.quotaKeys, q.quotaSince).Query(func(rows pgx.Rows) error {
			var i int
			var used int64
			_, err := pgx.ForEachRow(rows, []any{&i, &used}, func() error { f.used[q.windows[i-1]] = used; return nil })
			return err
		})
	}
	if len(q.receiptKeys) > 0 {
		b.Queue(receiptsSQL, uuids(q.receiptWorkspaces), q.receiptKeys).Query(func(rows pgx.Rows) error {
			found, err := pgx.CollectRows(rows, scanReceipt)
			for _, r := range found {
				f.receipts[receiptKey{r.Workspace, r.Key}] = r
			}
			return err
		})
	}
	if len(q.subjects) > 0 {
		b.Queue(keysKnownSQL, q.subjects).Query(func(rows pgx.Rows) error {
			var subject string
			_, err := pgx.ForEachRow(rows, []any{&subject}, func() error { f.keys[subject] = true; return nil })
			return err
		})
	}
	return f, conn.SendBatch(ctx, &b).Close()
}

// questions are the distinct things that a batch's preconditions ask about.
type questions struct {
	streams                []string
	claimScopes, claimKeys []string
	windows                []windowKey
	quotaKeys              []string
	quotaSince             []time.Time
	receiptWorkspaces      []uuid.UUID
	receiptKeys            []string
	subjects               []string
}

func collect(batch []*pending) *questions {
	q := &questions{}
	seen := map[any]bool{}
	fresh := func(k any) bool {
		if seen[k] {
			return false
		}
		seen[k] = true
		return true
	}
	for _, p := range batch {
		a := p.append
		for _, s := range a.Streams {
			if fresh(s.Stream) {
				q.streams = append(q.streams, s.Stream)
			}
		}
		for _, g := range a.Guards {
			if fresh(g.Stream) {
				q.streams = append(q.streams, g.Stream)
			}
		}
		for _, c := range a.Claims {
			if fresh(claimKey{c.Scope, c.Key}) {
				q.claimScopes, q.claimKeys = append(q.claimScopes, c.Scope), append(q.claimKeys, c.Key)
			}
		}
		for _, w := range a.Quotas {
			if k := (windowKey{w.Key, w.From}); fresh(k) {
				q.windows = append(q.windows, k)
				q.quotaKeys, q.quotaSince = append(q.quotaKeys, w.Key), append(q.quotaSince, w.From)
			}
		}
		if r := a.Idempotency; r != nil && fresh(receiptKey{r.Workspace, r.Key}) {
			q.receiptWorkspaces, q.receiptKeys = append(q.receiptWorkspaces, r.Workspace), append(q.receiptKeys, r.Key)
		}
		for _, k := range p.newKeys {
			q.subjects = append(q.subjects, k.subject)
		}
	}
	return q
}
