package webhooks

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
	// cleanupKey is the key of the task that removes what has expired, once a day.
	cleanupKey   = "cleanup"
	cleanupEvery = 24 * time.Hour
	// Finished deliveries are kept for deliveryLife (rule WHK-18). Bodies are kept a little longer, so that no delivery is
	// without its body.
	deliveryLife = 30 * 24 * time.Hour
	bodyLife     = deliveryLife + 4*24*time.Hour
	rateLife     = 8 * 24 * time.Hour

	// Ids are UUIDv7, which begin with their time, so the primary key finds the rows that may be old enough.
	expiredDeliveriesSQL = `with removed as (delete from webhook_deliveries where id = any(array(
			select id from webhook_deliveries where id < $1 and created_at < $2 and coalesce(status, '') <> 'pending' order by id limit 5000))
		returning 1) select count(*) from removed`
	expiredEventsSQL = `with removed as (delete from webhook_events where id = any(array(
			select id from webhook_events where id < $1 and created_at < $2 order by id limit 5000))
		returning 1) select count(*) from removed`
	expiredRatesSQL    = `with removed as (delete from webhook_rates where hour < $2 and $1::uuid is not null returning 1) select count(*) from removed`
	scheduleCleanupSQL = `insert into scheduled_tasks (process, key, shard, due_at, scheduled_at_position) values ($1, $2, 0, $3, 0) on conflict do nothing`
)

// scheduleCleanup schedules the cleanup task, unless it is scheduled.
func (p *Process) scheduleCleanup(ctx context.Context) error {
	_, err := p.ledger.Pool().Exec(ctx, scheduleCleanupSQL, processName, cleanupKey, p.clock.Now().Add(cleanupEvery))
	if err != nil {
		return fmt.Errorf("webhooks: schedule the cleanup: %w", err)
	}
	return nil
}

// cleanup removes what has expired, in pages.
func (p *Process) cleanup(ctx context.Context) (tasks.Result, error) {
	now := p.clock.Now()
	for _, expired := range []struct {
		sql  string
		life time.Duration
	}{{expiredDeliveriesSQL, deliveryLife}, {expiredEventsSQL, bodyLife}, {expiredRatesSQL, rateLife}} {
		before := now.Add(-expired.life)
		for n := 1; n > 0 && ctx.Err() == nil; {
			var b pgx.Batch
			b.Queue(expired.sql, firstID(before), before).QueryRow(func(row pgx.Row) error { return row.Scan(&n) })
			if err := p.execByIndex(ctx, &b); err != nil {
				return tasks.Finished, err
			}
		}
	}
	return tasks.RunAgain(now.Add(cleanupEvery)), nil
}

// firstID returns the smallest UUIDv7 of a time.
func firstID(at time.Time) uuid.UUID {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:8], uint64(at.UnixMilli())<<16) //nolint:gosec // after 1970
	id[6] = 0x70
	return id
}
