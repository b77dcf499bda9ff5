package projections

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	counts   *segmentCounts
	base     string // see ShownAt
}

// NewStore makes a store.
func NewStore(ledger *eventstore.Ledger, progress *feed.Progress) *Store {
	return &Store{pool: ledger.Pool(), ledger: ledger, progress: progress, counts: newSegmentCounts()}
}

// ShownAt says where the service is reached, without a slash at its end: what lies behind addresses of its own is shown there.
// Call it before anything is read.
func (s *Store) ShownAt(base string) { s.base = strings.TrimSuffix(base, "/") }

// Close ends what is still being counted. Queries are the caller's to end.
func (s *Store) Close() { s.counts.close() }

// Ledger gives what is read from the ledger itself, the timelines.
func (s *Store) Ledger() *eventstore.Ledger { return s.ledger }

const reachedSQL = `select h.position, ` + feed.EpochSQL + `,
	array(select f.name from feed_consumers f join feed_checkpoints c on c.name = f.name and c.revision = f.revision and c.shard = h.shard
		where f.name = any($2) and c.position >= case when $3::bigint < 0 then h.position else $3 end)
	from ledger_heads h where h.shard = $1`

// Current waits until the projections show everything that the ledger holds at this moment. Past the bound it is a
// fault Unavailable.
func (s *Store) Current(ctx context.Context, shard int, ps ...*Projection) error {
	return s.wait(ctx, shard, -1, ps)
}

// CurrentOf is Current for any consumers of the feed, by name.
func (s *Store) CurrentOf(ctx context.Context, shard int, names ...string) error {
	return s.waitFor(ctx, shard, -1, names)
}

// ReachedBy is Reached for any consumers of the feed, by name.
func (s *Store) ReachedBy(ctx context.Context, shard int, position int64, names ...string) error {
	for _, name := range names {
		if s.progress.Reached(name, shard) < position {
			return s.waitFor(ctx, shard, position, names)
		}
	}
	return nil
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
	names := make([]string, len(ps))
	for i, p := range ps {
		names[i] = p.ID
	}
	return s.waitFor(ctx, shard, goal, names)
}

func (s *Store) waitFor(ctx context.Context, shard int, goal int64, names []string) error {
	ctx, cancel := context.WithTimeout(ctx, Bound)
	defer cancel()
	for {
		var head, epoch int64
		var there []string
		if err := s.pool.QueryRow(ctx, reachedSQL, shard, names, goal).Scan(&head, &epoch, &there); err != nil {
			return s.behind(ctx, err)
		}
		if goal < 0 {
			goal = head
		}
		// What notifications told counts only if it was learned of this run of the server: one that crashed may have
		// gone back.
		s.progress.Epoch(epoch)
		behind := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(there, n) })
		short, done := context.WithTimeout(ctx, askAgain)
		err := s.progress.Wait(short, shard, goal, behind...)
		done()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return s.behind(ctx, ctx.Err())
		}
	}
}

// askAgain is after what time without a notification the database is asked again.
const askAgain = 100 * time.Millisecond

// behind is what a read answers that could not be sure of seeing everything: also when the database is away.
func (s *Store) behind(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("projections: wait: %w", err)
	}
	return &fault.Fault{Code: fault.Unavailable, Message: "The read models are behind. Try again shortly.", RetryAfter: time.Second, Cause: err}
}
