package feed

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"ledgerline/eventstore"
)

const aheadSQL = `select format('%s has applied shard %s up to position %s, and the shard ends at %s: the end was cut off, or the head was moved', c.name, c.shard, c.position, coalesce(h.position, 0))
	from feed_checkpoints c left join ledger_heads h on h.shard = c.shard where c.position > coalesce(h.position, 0) order by c.shard, c.name`

// VerifyCheckpoints compares the checkpoints of all consumers with the heads of the shards, and returns those that are
// after the head: events that were applied are missing.
func VerifyCheckpoints(ctx context.Context, ledger *eventstore.Ledger) ([]string, error) {
	rows, err := ledger.Pool().Query(ctx, aheadSQL)
	if err != nil {
		return nil, fmt.Errorf("feed: verify checkpoints: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("feed: verify checkpoints: %w", err)
	}
	return found, nil
}
