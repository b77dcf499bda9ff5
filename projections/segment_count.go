package projections

import (
	"context"
	"fmt"
	"sync"
	"time"

	"ledgerline/projections/readmodel"

	"github.com/google/uuid"
)

// A segment is counted when somebody asks, and the count is remembered until the workspace's contacts or the definition
// change; one that also changes with time is counted anew after movingFor. Whoever asks waits countPatience for the counts
// of all segments together and gets null for the rest, which are counted to their end meanwhile, so that who asks again
// gets them.

const (
	countPatience = 1500 * time.Millisecond
	countTimeout  = 30 * time.Second
	countsAtOnce  = 2
	movingFor     = time.Minute // of the service's clock
	countsKept    = 10_000
)

// segmentCounts remembers counts.
type segmentCounts struct {
	mu    sync.Mutex
	known map[string]*segmentCount
	turns chan struct{}
	ctx   context.Context //nolint:containedctx // counts outlive the requests that ask for them, but not the store
	close context.CancelFunc
}

// segmentCount is one count, under way until done is closed.
type segmentCount struct {
	changes string // the state of the workspace's contacts when it was asked for
	text    string // the definition
	at      time.Time
	moving  bool
	done    chan struct{}
	count   int64
	err     error
}

func newSegmentCounts() *segmentCounts {
	ctx, cancel := context.WithCancel(context.Background())
	return &segmentCounts{known: map[string]*segmentCount{}, turns: make(chan struct{}, countsAtOnce), ctx: ctx, close: cancel}
}

// The state of contacts: how often they have changed, and in which revision of the read model, since each counts for itself.
const contactChangesSQL = `select 'read.contact_totals'::regclass::oid || ' ' || coalesce((select changes from read.contact_totals where workspace_id = $1), 0)`

// fill gives every row the count that is known in time.
func (sc *segmentCounts) fill(ctx context.Context, s *Store, v Viewer, rows []segmentRow) error {
	if len(rows) == 0 {
		return nil
	}
	var changes string
	if err := s.DB().QueryRow(ctx, contactChangesSQL, v.Workspace).Scan(&changes); err != nil {
		return fmt.Errorf("projections: changes of contacts: %w", err)
	}
	patience := time.NewTimer(countPatience)
	defer patience.Stop()
	late := false
	for i := range rows {
		c := sc.count(s, v.Workspace, &rows[i], changes)
		if !late {
			select {
			case <-c.done:
			case <-patience.C:
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

// count gives the count that is remembered or under way, or begins it.
func (sc *segmentCounts) count(s *Store, workspace uuid.UUID, row *segmentRow, changes string) *segmentCount {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	now := s.Ledger().Now()
	known := sc.known[row.ID]
	if known != nil && known.text == row.text && known.changes == changes && !(known.moving && now.Sub(known.at).Abs() >= movingFor) {
		select {
		case <-known.done:
			if known.err == nil {
				return known
			}
		default:
			return known
		}
	}
	if len(sc.known) >= countsKept { // whoever asks again has it counted again
		clear(sc.known)
	}
	c := &segmentCount{changes: changes, text: row.text, at: now, moving: row.node.ChangesWithTime(), done: make(chan struct{})}
	sc.known[row.ID] = c
	f := &readmodel.Filter{}
	f.Add("c.workspace_id = %s", workspace)
	f.Conditions = append(f.Conditions, segmentSQL(row.node, f, now))
	go func() {
		defer close(c.done)
		sc.turns <- struct{}{}
		defer func() { <-sc.turns }()
		ctx, cancel := context.WithTimeout(sc.ctx, countTimeout)
		defer cancel()
		c.count, c.err = s.countContacts(ctx, f)
	}()
	return c
}

func (s *Store) countContacts(ctx context.Context, f *readmodel.Filter) (count int64, err error) {
	if err := s.DB().QueryRow(ctx, `select count(*) from read.contacts c`+f.Where(), f.Args...).Scan(&count); err != nil {
		return 0, fmt.Errorf("projections: count a segment: %w", err)
	}
	return count, nil
}
