package readmodel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
)

// replayBatch is how many positions one transaction of a replay covers. It is so large that most messages reach their
// last status within one batch, which writes them as one row, and so small that the memory for a batch stays moderate.
const replayBatch = 5000

// builder fills the tables of one new revision, or of one state of the past.
type builder struct {
	ledger   *eventstore.Ledger
	p        *Projection
	revision int
	asOf     *time.Time // nil: up to now
	into     string     // schema
	read     atomic.Int64
	report   func(done, head int64)
}

const (
	newestRevisionSQL    = `select coalesce(max(revision), 0) from feed_checkpoints where name = $1`
	deleteCheckpointsSQL = `delete from feed_checkpoints where name = $1 and revision <> $2`
	// A checkpoint that is not in the ledger is of another history: its revision has nothing that the new one must have.
	lockCheckpointsSQL = `select c.shard, case when ` + feed.InLedgerSQL + ` then c.position else 0 end
		from feed_checkpoints c where c.name = $1 and c.revision = $2 order by c.shard for update of c`
	advanceSQL      = `update feed_checkpoints set position = $4, event_id = $5 where name = $1 and revision = $2 and shard = $3`
	deleteParkedSQL = `delete from feed_parked where name = $1`
)

// build fills a new revision, makes it the active one and drops the old one.
func (b *builder) build(ctx context.Context) error {
	active, err := b.begin(ctx)
	if err != nil {
		return err
	}
	reached := make([]eventstore.Point, b.ledger.Shards())
	if err := b.catchUp(ctx, reached); err != nil {
		return err
	}
	if err := pgx.BeginFunc(ctx, b.ledger.Pool(), func(tx pgx.Tx) error { return b.p.createIndexes(ctx, tx, b.into) }); err != nil {
		return err
	}
	if err := b.catchUp(ctx, reached); err != nil { // events that were appended while the indexes were built
		return err
	}
	if err := b.swap(ctx, active, reached); err != nil {
		return err
	}
	return yieldToReaders(ctx, b.ledger.Pool(), func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "drop schema if exists "+b.p.schema(active)+" cascade")
		return err
	})
}

// begin creates the tables of the next revision, and drops the schemas and checkpoints of unfinished replays. It
// returns the active revision.
func (b *builder) begin(ctx context.Context) (active int, err error) {
	err = pgx.BeginFunc(ctx, b.ledger.Pool(), func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, consumerSQL, b.p.ID).Scan(&active, new(int)); err != nil {
			return err
		}
		var newest int
		if err := tx.QueryRow(ctx, newestRevisionSQL, b.p.ID).Scan(&newest); err != nil {
			return err
		}
		b.revision = max(newest, active) + 1
		for r := active + 1; r < b.revision; r++ {
			if _, err := tx.Exec(ctx, "drop schema if exists "+b.p.schema(r)+" cascade"); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, deleteCheckpointsSQL, b.p.ID, active); err != nil {
			return err
		}
		b.into = b.p.schema(b.revision)
		if _, err := tx.Exec(ctx, insertCheckpointSQL, b.p.ID, b.revision, b.ledger.Shards()); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "create schema "+b.into); err != nil {
			return err
		}
		return b.p.createTables(ctx, tx, b.into)
	})
	return active, err
}

const (
	// A reader that holds a lock on one table of a read model and waits for another can deadlock with a transaction that
	// replaces or drops the tables. PostgreSQL ends one of the two after deadlock_timeout, 1 s by default. A shorter
	// lock_timeout makes sure that it is never the reader.
	lockTimeoutSQL  = `set local lock_timeout = '500ms'`
	lockAttempts    = 40
	lockRetryPause  = 50 * time.Millisecond
	lockUnavailable = "55P03"
	deadlock        = "40P01"
)

// yieldToReaders runs a transaction that locks tables which readers use. When the transaction cannot get a lock in
// time, it is rolled back and tried again.
func yieldToReaders(ctx context.Context, pool *pgxpool.Pool, do func(pgx.Tx) error) error {
	for attempt := 1; ; attempt++ {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, lockTimeoutSQL); err != nil {
				return err
			}
			return do(tx)
		})
		refused := (*pgconn.PgError)(nil)
		blocked := errors.As(err, &refused) && (refused.Code == lockUnavailable || refused.Code == deadlock)
		if !blocked || attempt == lockAttempts {
			return err
		}
		select {
		case <-time.After(lockRetryPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// swap makes the new revision the active one. It locks the checkpoints of the old revision, so that no consumer
// advances them. In the same transaction it writes the few events that the old revision has and the new one lacks.
// caughtUp has the new revision's position in each shard.
func (b *builder) swap(ctx context.Context, active int, caughtUp []eventstore.Point) error {
	return yieldToReaders(ctx, b.ledger.Pool(), func(tx pgx.Tx) error {
		reached := slices.Clone(caughtUp) // a failed attempt must not change caughtUp
		rows, err := tx.Query(ctx, lockCheckpointsSQL, b.p.ID, active)
		if err != nil {
			return err
		}
		var shard int
		var position int64
		goals := map[int]int64{} // by shard, the position of the old revision
		if _, err := pgx.ForEachRow(rows, []any{&shard, &position}, func() error { goals[shard] = position; return nil }); err != nil {
			return err
		}
		for shard, goal := range goals {
			for reached[shard].Position < goal {
				found, to, err := b.fetch(ctx, shard, reached[shard], min(goal, reached[shard].Position+replayBatch))
				if err != nil {
					return err
				}
				var batch pgx.Batch
				if err := b.addTo(&batch, shard, to, found); err != nil {
					return err
				}
				if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
					return err
				}
				reached[shard] = to
			}
		}
		// A consumer that waits for one of the old checkpoints finds it deleted and loads the new revision.
		if _, err := tx.Exec(ctx, deleteCheckpointsSQL, b.p.ID, b.revision); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, deleteParkedSQL, b.p.ID); err != nil {
			return err
		}
		return b.p.activate(ctx, tx, b.revision)
	})
}

// buildAsOf fills a schema of its own with the state of the past. It writes no checkpoints.
func (b *builder) buildAsOf(ctx context.Context) error {
	if err := pgx.BeginFunc(ctx, b.ledger.Pool(), func(tx pgx.Tx) error { return b.p.createTables(ctx, tx, b.into) }); err != nil {
		return err
	}
	if err := b.catchUp(ctx, make([]eventstore.Point, b.ledger.Shards())); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, b.ledger.Pool(), func(tx pgx.Tx) error { return b.p.createIndexes(ctx, tx, b.into) })
}

// catchUp writes every shard from the position in reached to its present head, and updates reached.
func (b *builder) catchUp(ctx context.Context, reached []eventstore.Point) error {
	for shard := range reached {
		head, err := b.ledger.Head(ctx, shard)
		if err != nil {
			return err
		}
		if reached[shard], err = b.catchUpShard(ctx, shard, reached[shard], head); err != nil {
			return err
		}
	}
	return nil
}

// eventRange is the events of a range of positions that the projection handles. to is the last point of the range.
type eventRange struct {
	to     eventstore.Point
	events []eventstore.Recorded
}

// catchUpShard writes the events of a shard after from, up to head, and returns the point that it has reached. One
// goroutine reads the next batch while another one writes. At most three batches are in memory.
func (b *builder) catchUpShard(ctx context.Context, shard int, from eventstore.Point, head int64) (eventstore.Point, error) {
	reached := from
	g, ctx := errgroup.WithContext(ctx)
	ready := make(chan eventRange, 1)
	g.Go(func() error {
		defer close(ready)
		for after := from; after.Position < head; {
			found, to, err := b.fetch(ctx, shard, after, min(head, after.Position+replayBatch))
			if err != nil {
				return err
			}
			select {
			case ready <- eventRange{to, found}:
			case <-ctx.Done():
				return ctx.Err()
			}
			after = to
		}
		return nil
	})
	g.Go(func() error {
		for s := range ready {
			var batch pgx.Batch
			batch.Queue("begin")
			batch.Queue("set local synchronous_commit = off")
			batch.Queue(eventstore.ForceIndexScansSQL)
			if err := b.addTo(&batch, shard, s.to, s.events); err != nil {
				return err
			}
			batch.Queue("commit")
			if err := b.send(ctx, &batch); err != nil {
				return fmt.Errorf("shard %d, positions %d to %d: %w", shard, reached.Position+1, s.to.Position, err)
			}
			done := b.read.Add(s.to.Position - reached.Position)
			reached = s.to
			if b.report != nil {
				b.report(done, head)
			}
		}
		return nil
	})
	return reached, g.Wait()
}

// fetch reads the events that the projection handles and decrypts their personal data, up to a position at most. It
// returns the point up to which it has read. For a state of the past it leaves out events that occurred after asOf.
func (b *builder) fetch(ctx context.Context, shard int, after eventstore.Point, upto int64) ([]eventstore.Recorded, eventstore.Point, error) {
	found, to, err := b.ledger.ReadTypes(ctx, shard, after, upto, b.p.Types()...)
	if err == nil && to == after {
		err = fmt.Errorf("shard %d has no events from %d to %d: run audit verify", shard, after.Position+1, upto)
	}
	if err != nil {
		return nil, to, err
	}
	if b.asOf != nil {
		found = slices.DeleteFunc(found, func(r eventstore.Recorded) bool { return r.OccurredAt.After(*b.asOf) })
	}
	return found, to, b.ledger.Decode(ctx, found)
}

// addTo adds statements to a batch that write the rows of events and move the revision's checkpoint to a point. A state
// of the past has no checkpoint.
func (b *builder) addTo(batch *pgx.Batch, shard int, to eventstore.Point, found []eventstore.Recorded) error {
	if err := b.p.write(batch, b.into, found); err != nil {
		return err
	}
	if b.asOf == nil {
		batch.Queue(advanceSQL, b.p.ID, b.revision, shard, to.Position, to.ID)
	}
	return nil
}

// send runs a batch that begins and commits by itself. After an error the connection, which may be within the
// transaction, is closed.
func (b *builder) send(ctx context.Context, batch *pgx.Batch) error {
	conn, err := b.ledger.Pool().Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		_ = conn.Conn().Close(context.WithoutCancel(ctx))
		return err
	}
	return nil
}
