package projections

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"ledgerline/domain/fault"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
)

// Bound is how long a read or a write waits for the read models before it gives up.
const Bound = 5 * time.Second

// Store answers queries from the read models, and waits for them where that is needed: whoever got the answer to a
// write sees it in every later read, on any node.
type Store struct {
	pool     *pgxpool.Pool
	ledger   *eventstore.Ledger
	progress *feed.Progress
}

// NewStore makes a store.
func NewStore(ledger *eventstore.Ledger, progress *feed.Progress) *Store {
	return &Store{pool: ledger.Pool(), ledger: ledger, progress: progress}
}

// Ledger gives what is read from the ledger itself, the timelines.
func (s *Store) Ledger() *eventstore.Ledger { return s.ledger }

const reachedSQL = `select h.position, coalesce(min(c.position), 0), count(c.position)
	from ledger_heads h
	left join feed_consumers f on f.name = any($2)
	left join feed_checkpoints c on c.name = f.name and c.revision = f.revision and c.shard = h.shard
	where h.shard = $1 group by h.position`

// Current waits until the projections show everything that the ledger holds at this moment. Past the bound it is a
// fault Unavailable.
func (s *Store) Current(ctx context.Context, shard int, ps ...*Projection) error {
	return s.wait(ctx, shard, -1, ps)
}

// Reached waits until the projections show a position, as Current does for the head.
func (s *Store) Reached(ctx context.Context, shard int, position int64, ps ...*Projection) error {
	for _, p := range ps {
		if s.progress.Reached(p.ID, shard) < position {
			return s.wait(ctx, shard, position, ps)
		}
	}
	return nil
}

func (s *Store) wait(ctx context.Context, shard int, goal int64, ps []*Projection) error {
	ctx, cancel := context.WithTimeout(ctx, Bound)
	defer cancel()
	names := make([]string, len(ps))
	for i, p := range ps {
		names[i] = p.ID
	}
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		var head, reached int64
		var found int
		if err := s.pool.QueryRow(ctx, reachedSQL, shard, names).Scan(&head, &reached, &found); err != nil {
			return s.behind(ctx, err)
		}
		if goal < 0 {
			goal = head
		}
		if found == len(names) && reached >= goal {
			return nil
		}
		// The database is asked again even when a notification says that the goal is reached: a server that crashed
		// may have gone back.
		short, done := context.WithTimeout(ctx, pause)
		err := s.progress.Wait(short, shard, goal, names...)
		done()
		if err == nil && reached < goal {
			err = s.pause(ctx)
		}
		if err != nil && ctx.Err() != nil {
			return s.behind(ctx, ctx.Err())
		}
	}
}

// pause lets a moment pass when memory and database disagree, so that the loop does not spin.
func (s *Store) pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Millisecond):
		return nil
	}
}

func (s *Store) behind(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &fault.Fault{Code: fault.Unavailable, Message: "The read models are behind. Try again shortly.", RetryAfter: time.Second, Cause: err}
	}
	return fmt.Errorf("projections: wait: %w", err)
}
