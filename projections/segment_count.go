package projections

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/eventstore"
	"ledgerline/fairqueue"
	"ledgerline/projections/readmodel"
)

// Segments are counted on request, over the contacts that the viewer may see. A count is kept until the workspace's
// contacts or the definition change; that of a definition which depends on the time is kept for timedCountAge at most.
// A request waits countWait for all its counts together, and gets null for the others (rule CON-39). Those are still
// counted, so that the next request gets them.

const (
	countWait     = 1500 * time.Millisecond
	countTimeout  = 30 * time.Second
	maxCounting   = 2                // counts at the same time; one of a workspace
	maxUncounted  = 1000             // counts of a workspace that wait
	uncountedWait = 10 * time.Minute // for their turn
	timedCountAge = time.Minute      // by the service's clock
	maxCounts     = 10_000
)

// segmentCounts keeps the counts of segments in memory.
type segmentCounts struct {
	mu    sync.Mutex
	known map[countKey]*segmentCount
	slots *fairqueue.Queue[uuid.UUID] // workspaces take turns
	ctx   context.Context             //nolint:containedctx // a count outlives the request that started it, but not the store
	close context.CancelFunc
}

// countKey names a count: agents see fewer contacts than others, each of them other ones.
type countKey struct {
	segment string
	agent   uuid.UUID // uuid.Nil for viewers of the whole workspace
}

// segmentCount is one count. It is running until done is closed; the last two fields are set then.
type segmentCount struct {
	changes string // the state of the workspace's contacts at the start
	text    string // the definition
	at      time.Time
	timed   bool
	done    chan struct{}
	count   int64
	err     error
}

func newSegmentCounts() *segmentCounts {
	ctx, cancel := context.WithCancel(eventstore.ForRequest(context.Background()))
	slots := fairqueue.New[uuid.UUID](fairqueue.Config{Total: maxCounting, PerOwner: 1, Waiting: maxUncounted, Wait: uncountedWait})
	return &segmentCounts{known: map[countKey]*segmentCount{}, slots: slots, ctx: ctx, close: cancel}
}

// The state of the contacts: the number of their changes, and the revision of the read model, which counts from 0.
const contactChangesSQL = `select 'read.contact_totals'::regclass::oid || ' ' || coalesce((select changes from read.contact_totals where workspace_id = $1), 0)`

// fill sets the counts that are known in time.
func (sc *segmentCounts) fill(ctx context.Context, s *Store, v Viewer, rows []segmentRow) error {
	if len(rows) == 0 {
		return nil
	}
	var changes string
	if err := s.DB(ctx).QueryRow(ctx, contactChangesSQL, v.Workspace).Scan(&changes); err != nil {
		return fmt.Errorf("projections: changes of contacts: %w", err)
	}
	wait := time.NewTimer(countWait)
	defer wait.Stop()
	late := false
	for i := range rows {
		c := sc.count(s, v, &rows[i], changes)
		if !late {
			select {
			case <-c.done:
			case <-wait.C:
				late = true
			case <-ctx.Done():
				return fmt.Errorf("projections: count segments: %w", ctx.Err())
			}
		}
		select {
		case <-c.done:
			if c.err == nil {
				count := c.count
				rows[i].ContactCount = &count
			}
		default:
		}
	}
	return nil
}

// count returns the count that is kept or running, or starts one.
func (sc *segmentCounts) count(s *Store, v Viewer, row *segmentRow, changes string) *segmentCount {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	now := s.Ledger().Now()
	key := countKey{row.ID, v.Agent}
	known := sc.known[key]
	if known != nil && known.text == row.Stored && known.changes == changes && !(known.timed && now.Sub(known.at).Abs() >= timedCountAge) {
		select {
		case <-known.done:
			if known.err == nil {
				return known
			}
		default:
			return known
		}
	}
	if len(sc.known) >= maxCounts { // the next request counts again
		clear(sc.known)
	}
	c := &segmentCount{changes: changes, text: row.Stored, at: now, timed: row.node.ChangesWithTime(), done: make(chan struct{})}
	sc.known[key] = c
	f := v.contacts()
	f.Conditions = append(f.Conditions, segmentSQL(row.node, f, now))
	go func() {
		defer close(c.done)
		leave, err := sc.slots.Enter(sc.ctx, v.Workspace, 1)
		if err != nil {
			c.err = err
			return
		}
		defer leave()
		ctx, cancel := context.WithTimeout(sc.ctx, countTimeout)
		defer cancel()
		c.count, c.err = s.countContacts(ctx, f)
	}()
	return c
}

func (s *Store) countContacts(ctx context.Context, f *readmodel.Filter) (count int64, err error) {
	err = pgx.BeginTxFunc(ctx, s.DB(ctx), pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, readmodel.StatementTimeout(countTimeout)); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `select count(*) from read.contacts c`+f.Where(), f.Args...).Scan(&count)
	})
	if err != nil {
		return 0, fmt.Errorf("projections: count a segment: %w", err)
	}
	return count, nil
}
