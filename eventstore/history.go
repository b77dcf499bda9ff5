package eventstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
)

// The history of the ledger can go back while a process runs: a standby that lacks the last commits is promoted, or a
// backup is restored. What the process has in memory is then of a history that no longer exists. To write nothing that
// is based on it, the process remembers which events its states were derived from (heads.seen). Each append, and each
// read of a head, verifies in the database that these events are still there. If one of them is not, the ledger has a
// rewind: appends are refused, everything in memory is dropped, and the history is settled (see settle).

// ErrRewound refuses an append or a read because the history of the ledger went back. Nothing was written.
var ErrRewound = errors.New("eventstore: the history of the ledger went back: events that this node had seen are not in the database any more")

// codeRewound is the SQLSTATE of an event that is not where it was.
const codeRewound = "LL005"

// IsRewound tells whether an error is that the history went back.
func IsRewound(err error) bool {
	refused := (*pgconn.PgError)(nil)
	return errors.Is(err, ErrRewound) || errors.As(err, &refused) && refused.Code == codeRewound
}

// Rewind is what a process found out when the history of a shard went back.
type Rewind struct {
	Shard int
	Lost  Point // an event that the process had seen and that is not in the ledger
}

func (r *Rewind) String() string {
	return fmt.Sprintf("the history of the database went back: shard %d had event %s at position %d, and it is not there any more", r.Shard, r.Lost.ID, r.Lost.Position)
}

// seen is what a query about a shard verifies.
type seen struct {
	shard      int
	generation uint64
	points     []Point
}

// args returns the positions and ids of the events as arguments of a query.
func (s *seen) args() (positions []int64, ids []uuid.UUID) {
	positions, ids = make([]int64, len(s.points)), make([]uuid.UUID, len(s.points))
	for i, p := range s.points {
		positions[i], ids[i] = p.Position, p.ID
	}
	return positions, ids
}

// settler is a function that must have succeeded before a rewind is over.
type settler func(context.Context, Rewind) error

// Generation counts the rewinds that this process has found. States of an earlier generation must not be used: an
// append that was decided on such states is refused with ErrRewound.
func (l *Ledger) Generation() uint64 {
	l.heads.mu.Lock()
	defer l.heads.mu.Unlock()
	return l.heads.generation
}

// Rewound returns the rewind that is being settled; nil when there is none. Appends are refused until it is over.
func (l *Ledger) Rewound() *Rewind {
	l.heads.mu.Lock()
	defer l.heads.mu.Unlock()
	return l.heads.rewind
}

// OnRewind registers a function that drops what the process remembers of the ledger. It must not block. Caches whose
// contents decide what is appended also keep the generation with each entry: another one may be read before the rewind
// and arrive in the cache after it.
func (l *Ledger) OnRewind(drop func()) {
	l.heads.mu.Lock()
	defer l.heads.mu.Unlock()
	l.heads.drops = append(l.heads.drops, drop)
}

// OnSettle registers a function that must have succeeded before a rewind is over. It is called again after an error.
func (l *Ledger) OnSettle(settle func(context.Context, Rewind) error) {
	l.heads.mu.Lock()
	defer l.heads.mu.Unlock()
	l.heads.settlers = append(l.heads.settlers, settle)
}

// ReportRewind begins a rewind: an event that a part of this process has seen, in this generation, is not in the ledger
// any more. It returns ErrRewound. A report of an earlier generation changes nothing.
func (l *Ledger) ReportRewind(generation uint64, shard int, lost Point) error {
	h := l.heads
	h.mu.Lock()
	if h.generation != generation || h.rewind != nil || l.committers == nil { // a ledger of ReadOnly only fails
		h.mu.Unlock()
		return ErrRewound
	}
	rewind := &Rewind{shard, lost}
	h.rewind = rewind
	h.generation++
	clear(h.positions)
	clear(h.seen)
	drops := h.drops
	h.mu.Unlock()
	l.log.Error("eventstore: the history of the database went back: a failover or a restored backup has lost the last events. "+
		"This node writes and sends nothing until it has dropped its memory and compared all checkpoints with the ledger",
		"shard", shard, "lost_event", lost.ID, "position", lost.Position)
	l.pool.Reset()
	l.writers.Reset()
	if l.requests != nil {
		l.requests.Reset()
	}
	for _, drop := range drops {
		drop()
	}
	select {
	case l.rewinds <- *rewind:
	default: // one is being settled at a time
	}
	return ErrRewound
}

const insertRewindSQL = `insert into ledger_rewinds (shard, lost_position, lost_event_id, head) select $1, $2, $3, position from ledger_heads where shard = $1`

// settleRewinds settles rewinds until ctx ends.
func (l *Ledger) settleRewinds(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case rewind := <-l.rewinds:
			for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
				err := l.settle(ctx, rewind)
				if err == nil {
					break
				}
				l.log.Warn("eventstore: cannot settle the history yet, trying again", "error", err)
				select {
				case <-ctx.Done():
					return
				case <-time.After(pause):
				}
			}
			heads := make([]int64, l.shards)
			for shard := range heads {
				heads[shard] = l.heads.at(shard)
			}
			l.log.Warn("eventstore: the history is settled: this node works on the ledger as it is in the database now",
				"heads", heads)
		}
	}
}

// settle records a rewind in the database, has its settlers agree, and ends it.
func (l *Ledger) settle(ctx context.Context, rewind Rewind) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if _, err := l.pool.Exec(ctx, insertRewindSQL, rewind.Shard, rewind.Lost.Position, rewind.Lost.ID); err != nil {
		return fmt.Errorf("eventstore: record the rewind: %w", err)
	}
	l.heads.mu.Lock()
	settlers := l.heads.settlers
	l.heads.mu.Unlock()
	for _, settle := range settlers {
		if err := settle(ctx, rewind); err != nil {
			return err
		}
	}
	l.heads.mu.Lock()
	l.heads.rewind = nil
	l.heads.mu.Unlock()
	for shard := range l.shards {
		if _, err := l.Head(ctx, shard); err != nil {
			l.log.Debug("eventstore: cannot read a head after a rewind", "shard", shard, "error", err)
		}
	}
	return nil
}
