package feed

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"ledgerline/eventstore"
)

// InLedgerSQL is the SQL condition that tells whether a checkpoint c is an event of the ledger, at most at the head of
// its shard.
const InLedgerSQL = `(c.position = 0 or exists (select from ledger_events e join ledger_heads h on h.shard = e.shard and h.position >= e.position
	where e.shard = c.shard and e.position = c.position and e.id = c.event_id))`

const foreignSQL = `select c.name, c.shard, c.position, coalesce(h.position, 0) from feed_checkpoints c join feed_consumers f on f.name = c.name and f.revision = c.revision
	left join ledger_heads h on h.shard = c.shard where not ` + InLedgerSQL + ` order by c.shard, c.name`

// ForeignCheckpoint is a checkpoint that is not in the ledger: the rows that its consumer has written are of another
// history.
type ForeignCheckpoint struct {
	Consumer string
	Shard    int
	Position int64
	Head     int64 // of the shard
}

func (f *ForeignCheckpoint) String() string {
	if f.Position > f.Head {
		return fmt.Sprintf("%s has applied shard %d up to position %d, and the shard ends at %d: the end was cut off, or the head was moved",
			f.Consumer, f.Shard, f.Position, f.Head)
	}
	return fmt.Sprintf("%s has applied another event at position %d of shard %d than the one that is there", f.Consumer, f.Position, f.Shard)
}

// ForeignCheckpoints compares the checkpoints of all consumers with the ledger, and returns those that are not in it:
// after the head of their shard, or at another event.
func ForeignCheckpoints(ctx context.Context, ledger *eventstore.Ledger) ([]ForeignCheckpoint, error) {
	rows, err := ledger.Pool().Query(ctx, foreignSQL)
	if err != nil {
		return nil, fmt.Errorf("feed: verify checkpoints: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ForeignCheckpoint])
	if err != nil {
		return nil, fmt.Errorf("feed: verify checkpoints: %w", err)
	}
	return found, nil
}
