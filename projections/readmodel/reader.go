package readmodel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"ledgerline/domain/fault"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
)

// WaitLimit is how long a read or a write waits for the read models before it fails.
const WaitLimit = 5 * time.Second

// pollInterval is how long a wait relies on notifications before it asks the database again.
const pollInterval = 100 * time.Millisecond

// Reader runs queries on the read models, and waits until they show the events in the ledger: a caller that got the
// answer to a write sees it in every later read, on any node. A Reader may be used concurrently.
type Reader struct {
	ledger   *eventstore.Ledger
	progress *feed.Progress
}

// NewReader makes a reader of a ledger's read models. progress is what this process knows of its consumers.
func NewReader(ledger *eventstore.Ledger, progress *feed.Progress) *Reader {
	return &Reader{ledger: ledger, progress: progress}
}

// Ledger is the ledger that the read models are built from.
func (r *Reader) Ledger() *eventstore.Ledger { return r.ledger }

// DB returns the connections to the database with the read models for work in this context.
func (r *Reader) DB(ctx context.Context) *pgxpool.Pool { return r.ledger.DB(ctx) }

// WaitForHead waits until the projections show every event that is in the ledger now. After WaitLimit it fails with
// fault.Unavailable.
func (r *Reader) WaitForHead(ctx context.Context, shard int, ps ...*Projection) error {
	return r.wait(ctx, shard, -1, names(ps))
}

// WaitForHeadByName is WaitForHead for consumers of the feed, by name.
func (r *Reader) WaitForHeadByName(ctx context.Context, shard int, consumers ...string) error {
	return r.wait(ctx, shard, -1, consumers)
}

// WaitForPosition waits until the projections show the event at a position. After WaitLimit it fails with
// fault.Unavailable.
func (r *Reader) WaitForPosition(ctx context.Context, shard int, position int64, ps ...*Projection) error {
	return r.WaitForPositionByName(ctx, shard, position, names(ps)...)
}

// WaitForPositionByName is WaitForPosition for consumers of the feed, by name.
func (r *Reader) WaitForPositionByName(ctx context.Context, shard int, position int64, consumers ...string) error {
	for _, name := range consumers {
		if r.progress.Reached(name, shard) < position {
			return r.wait(ctx, shard, position, consumers)
		}
	}
	return nil
}

// ConfirmPositionByName is WaitForPositionByName that always asks the database. The progress that this process has
// stored may be from before a crash of the database server: consumers commit without waiting for the disk, so a crash
// may lose their last rows, which are then written again.
func (r *Reader) ConfirmPositionByName(ctx context.Context, shard int, position int64, consumers ...string) error {
	return r.wait(ctx, shard, position, consumers)
}

func names(ps []*Projection) []string {
	list := make([]string, len(ps))
	for i, p := range ps {
		list[i] = p.ID
	}
	return list
}

// $1 shard, $2 consumers, $3 position, or -1 for the head.
const reachedSQL = `select h.position, ` + feed.EpochSQL + `,
	array(select f.name from feed_consumers f join feed_checkpoints c on c.name = f.name and c.revision = f.revision and c.shard = h.shard
		where f.name = any($2) and c.position >= case when $3::bigint < 0 then h.position else $3 end)
	from ledger_heads h where h.shard = $1`

// wait waits until consumers have reached a position; -1 stands for the head at the time of the call.
func (r *Reader) wait(ctx context.Context, shard int, position int64, consumers []string) error {
	ctx, cancel := context.WithTimeout(ctx, WaitLimit)
	defer cancel()
	for {
		var head, epoch int64
		var reached []string
		if err := r.DB(ctx).QueryRow(ctx, reachedSQL, shard, consumers, position).Scan(&head, &epoch, &reached); err != nil {
			return unavailable(ctx, err)
		}
		if position < 0 {
			position = head
		}
		// Progress from notifications counts only for this run of the database server: after a crash the server may
		// have lost checkpoints.
		r.progress.SetEpoch(epoch)
		behind := slices.DeleteFunc(slices.Clone(consumers), func(n string) bool { return slices.Contains(reached, n) })
		polling, stop := context.WithTimeout(ctx, pollInterval)
		err := r.progress.Wait(polling, shard, position, behind...)
		stop()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return unavailable(ctx, ctx.Err())
		}
	}
}

// unavailable returns the error of a wait that failed, for example because the database does not answer. It is
// fault.Unavailable, unless the caller has canceled the wait.
func unavailable(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("projections: wait: %w", err)
	}
	return &fault.Fault{Code: fault.Unavailable, Message: "The read models are behind. Try again shortly.", RetryAfter: time.Second, Cause: err}
}
