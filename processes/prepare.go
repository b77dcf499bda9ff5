package processes

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
)

// Consumers are the processes as readers of the ledger: good for their names and for the events that they want, not to
// be run.
func Consumers() []feed.Consumer {
	return []feed.Consumer{&Sending{}, &Snooze{}, &Lines{}, &Importing{}, &Webhooks{}, &Leaving{}}
}

const (
	registerSQL   = `insert into feed_consumers (name, revision, program, changed_at) values ($1, 1, 1, now()) on conflict do nothing`
	checkpointSQL = `insert into feed_checkpoints (name, revision, shard, position)
		select $1, 1, s, 0 from generate_series(0, $2 - 1) s on conflict do nothing`
)

// Prepare gives processes their checkpoints, once: from then on they move only forward, whatever is replayed.
func Prepare(ctx context.Context, ledger *eventstore.Ledger, names ...string) error {
	for _, name := range names {
		err := pgx.BeginFunc(ctx, ledger.Pool(), func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, registerSQL, name); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, checkpointSQL, name, ledger.Shards())
			return err
		})
		if err != nil {
			return fmt.Errorf("processes: prepare %s: %w", name, err)
		}
	}
	return nil
}
