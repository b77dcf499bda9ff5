package projections

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
)

// replayBatch is how many positions one transaction of a replay takes: large enough that a message's whole life
// usually falls into one batch and is written as one row, small enough that memory stays flat.
const replayBatch = 5000

// builder fills the tables of one new revision, or of one state of the past.
type builder struct {
	ledger   *eventstore.Ledger
	p        *Projection
	revision int
	asOf     *time.Time
	into     string
	read     atomic.Int64
	report   func(done, head int64)
}

func (b *builder) build(ctx context.Context) error {
	var active int
	err := pgx.BeginFunc(ctx, b.ledger.Pool(), func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, consumerSQL, b.p.ID).Scan(&active, new(int)); err != nil {
			return err
		}
		var newest int
		if err := tx.QueryRow(ctx, newestSchemaSQL, b.p.ID).Scan(&newest); err != nil {
			return err
		}
		b.revision = max(newest, active) + 1
		for r := active + 1; r < b.revision; r++ { // left over from a replay that did not end
			if _, err := tx.Exec(ctx, "drop schema if exists "+b.p.schema(r)+" cascade"); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, dropCheckpointsSQL, b.p.ID, active); err != nil {
			return err
		}
		b.into = b.p.schema(b.revision)
		if _, err := tx.Exec(ctx, insertCheckpointSQL, b.p.ID, b.revision, b.ledger.Shards()); err != nil {
			return err
		}
		return b.p.createTables(ctx, tx, b.into)
	})
	if err != nil {
		return err
	}
	reached := make([]int64, b.ledger.Shards())
	if err := b.catchUp(ctx, reached); err != nil {
		return err
	}
	if err := pgx.BeginFunc(ctx, b.ledger.Pool(), func(tx pgx.Tx) error { return b.p.createIndexes(ctx, tx, b.into) }); err != nil {
		return err
	}
	if err := b.catchUp(ctx, reached); err != nil { // what came in while indexes were built
		return err
	}
	if err := b.swap(ctx, active, reached); err != nil {
		return err
	}
	return yielding(ctx, b.ledger.Pool(), func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "drop schema if exists "+b.p.schema(active)+" cascade")
		return err
	})
}

const (
	// A reader holds some of a read model's tables and waits for others; so does who replaces or drops them. The server ends one
	// of the two after a second (deadlock_timeout): with less patience than that, it is never the reader.
	yieldSQL   = `set local lock_timeout = '500ms'`
	yieldTries = 40
	yieldPause = 50 * time.Millisecond
)

// yielding runs a transaction that takes tables away from readers. When they hold it up, it gives up what it has and tries
// again.
func yielding(ctx context.Context, pool *pgxpool.Pool, do func(pgx.Tx) error) error {
	for try := 1; ; try++ {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, yieldSQL); err != nil {
				return err
			}
			return do(tx)
		})
		refused := (*pgconn.PgError)(nil)
		inTheWay := errors.As(err, &refused) && (refused.Code == "55P03" || refused.Code == "40P01") // lock not available, deadlock
		if !inTheWay || try == yieldTries {
			return err
		}
		select {
		case <-time.After(yieldPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// swap takes over from the active revision. Its checkpoints are locked, so that nobody reads past what the new one
// has; the little that is still missing is written inside the same transaction.
func (b *builder) swap(ctx context.Context, active int, reached []int64) error {
	caughtUp := reached
	return yielding(ctx, b.ledger.Pool(), func(tx pgx.Tx) error {
		reached := slices.Clone(caughtUp)
		rows, err := tx.Query(ctx, lockCheckpointsSQL, b.p.ID, active)
		if err != nil {
			return err
		}
		var shard int
		var position int64
		goals := map[int]int64{}
		if _, err := pgx.ForEachRow(rows, []any{&shard, &position}, func() error { goals[shard] = position; return nil }); err != nil {
			return err
		}
		for shard, goal := range goals {
			for reached[shard] < goal {
				to := min(goal, reached[shard]+replayBatch)
				found, err := b.fetch(ctx, shard, reached[shard], to)
				if err != nil {
					return err
				}
				var q pgx.Batch
				if err := b.statements(&q, shard, to, found); err != nil {
					return err
				}
				if err := tx.SendBatch(ctx, &q).Close(); err != nil {
					return err
				}
				reached[shard] = to
			}
		}
		// The old checkpoints go, so that a worker that waits for one of them sees that it has moved.
		if _, err := tx.Exec(ctx, dropCheckpointsSQL, b.p.ID, b.revision); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, clearParkedSQL, b.p.ID); err != nil {
			return err
		}
		return b.p.activate(ctx, tx, b.revision)
	})
}

func (b *builder) buildAsOf(ctx context.Context) error {
	if err := pgx.BeginFunc(ctx, b.ledger.Pool(), func(tx pgx.Tx) error {
		for _, t := range b.p.Tables {
			if _, err := tx.Exec(ctx, t.create(b.into)); err != nil {
				return err
			}
		}
		return b.p.createTriggers(ctx, tx, b.into)
	}); err != nil {
		return err
	}
	if err := b.catchUp(ctx, make([]int64, b.ledger.Shards())); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, b.ledger.Pool(), func(tx pgx.Tx) error { return b.p.createIndexes(ctx, tx, b.into) })
}

// catchUp writes every shard from where it has reached to its head of now.
func (b *builder) catchUp(ctx context.Context, reached []int64) error {
	for shard := range reached {
		head, err := b.ledger.Head(ctx, shard)
		if err != nil {
			return err
		}
		if err := b.shard(ctx, shard, reached[shard], head); err != nil {
			return err
		}
		reached[shard] = head
	}
	return nil
}

type stretch struct {
	to     int64
	events []eventstore.Recorded
}

// shard reads, opens and writes in three stages that overlap; at most a few batches are in memory.
func (b *builder) shard(ctx context.Context, shard int, from, head int64) error {
	g, ctx := errgroup.WithContext(ctx)
	ready := make(chan stretch, 1)
	g.Go(func() error {
		defer close(ready)
		for after := from; after < head; {
			to := min(head, after+replayBatch)
			found, err := b.fetch(ctx, shard, after, to)
			if err != nil {
				return err
			}
			select {
			case ready <- stretch{to, found}:
			case <-ctx.Done():
				return ctx.Err()
			}
			after = to
		}
		return nil
	})
	g.Go(func() error {
		after := from
		for s := range ready {
			var q pgx.Batch
			q.Queue("begin")
			q.Queue("set local synchronous_commit = off")
			q.Queue(eventstore.ByIndexSQL)
			if err := b.statements(&q, shard, s.to, s.events); err != nil {
				return err
			}
			q.Queue("commit")
			if err := b.send(ctx, &q); err != nil {
				return fmt.Errorf("shard %d, positions %d to %d: %w", shard, after+1, s.to, err)
			}
			done := b.read.Add(s.to - after)
			after = s.to
			if b.report != nil {
				b.report(done, head)
			}
		}
		return nil
	})
	return g.Wait()
}

func (b *builder) fetch(ctx context.Context, shard int, after, to int64) ([]eventstore.Recorded, error) {
	found, err := b.ledger.Range(ctx, shard, after, to, b.p.Types()...)
	if err != nil {
		return nil, err
	}
	if b.asOf != nil {
		kept := found[:0]
		for i := range found {
			if !found[i].OccurredAt.After(*b.asOf) {
				kept = append(kept, found[i])
			}
		}
		found = kept
	}
	return found, b.ledger.Open(ctx, found)
}

func (b *builder) statements(q *pgx.Batch, shard int, to int64, found []eventstore.Recorded) error {
	if err := b.p.write(q, b.into, found); err != nil {
		return err
	}
	if b.asOf == nil {
		q.Queue(advanceSQL, b.p.ID, b.revision, shard, to)
	}
	return nil
}

func (b *builder) send(ctx context.Context, q *pgx.Batch) error {
	conn, err := b.ledger.Pool().Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if err := conn.SendBatch(ctx, q).Close(); err != nil {
		_ = conn.Conn().Close(context.WithoutCancel(ctx))
		return err
	}
	return nil
}
