package processes

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/processes/tasks"
)

const (
	// tidyKey stands among the endpoints that ask for work, and asks every day.
	tidyKey   = "tidy"
	tidyEvery = 24 * time.Hour
	// Finished deliveries are shown, and can be replayed, for so long; what they sent is kept a little longer, so that no
	// delivery is without it.
	deliveryLife = 30 * 24 * time.Hour
	bodyLife     = deliveryLife + 4*24*time.Hour
	rateLife     = 8 * 24 * time.Hour

	// Ids are as old as what they name, so that their index finds what may be old enough.
	tidyDeliveriesSQL = `with gone as (delete from webhook_deliveries where id = any(array(
			select id from webhook_deliveries where id < $1 and created_at < $2 and coalesce(status, '') <> 'pending' order by id limit 5000))
		returning 1) select count(*) from gone`
	tidyEventsSQL = `with gone as (delete from webhook_events where id = any(array(
			select id from webhook_events where id < $1 and created_at < $2 order by id limit 5000))
		returning 1) select count(*) from gone`
	tidyRatesSQL = `with gone as (delete from webhook_rates where hour < $2 and $1::uuid is not null returning 1) select count(*) from gone`
	askTidySQL   = `insert into scheduled_tasks (process, key, shard, due_at, scheduled_at_position) values ($1, $2, 0, $3, 0) on conflict do nothing`
)

// askToTidy makes sure that somebody tidies up.
func (w *Webhooks) askToTidy(ctx context.Context) error {
	_, err := w.ledger.Pool().Exec(ctx, askTidySQL, webhooksProcess, tidyKey, w.clock.Now().Add(tidyEvery))
	if err != nil {
		return fmt.Errorf("processes: webhooks: %w", err)
	}
	return nil
}

// tidy removes what is older than anybody is shown, page by page.
func (w *Webhooks) tidy(ctx context.Context) (tasks.Result, error) {
	now := w.clock.Now()
	for _, part := range []struct {
		sql  string
		life time.Duration
	}{{tidyDeliveriesSQL, deliveryLife}, {tidyEventsSQL, bodyLife}, {tidyRatesSQL, rateLife}} {
		before := now.Add(-part.life)
		for n := 1; n > 0 && ctx.Err() == nil; {
			var q pgx.Batch
			q.Queue(part.sql, firstID(before), before).QueryRow(func(row pgx.Row) error { return row.Scan(&n) })
			if err := w.byIndex(ctx, &q); err != nil {
				return tasks.Finished, err
			}
		}
	}
	return tasks.RunAgain(now.Add(tidyEvery)), nil
}

// firstID is the smallest UUIDv7 of a time.
func firstID(at time.Time) uuid.UUID {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:8], uint64(at.UnixMilli())<<16) //nolint:gosec // after 1970
	id[6] = 0x70
	return id
}
