package eventstore

import (
	"context"
	"fmt"
	"time"
)

const (
	pruneRecordsSQL = `delete from ledger_idempotency_records
		where ctid = any(array(select ctid from ledger_idempotency_records where created_at < $1 limit 5000))`
	pruneQuotasSQL = `delete from ledger_quotas where ctid = any(array(select ctid from ledger_quotas where bucket < $1 limit 5000))`
)

// Prune deletes idempotency records that have expired, and buckets of quotas that are older than quotaLifetime. It
// deletes a limited number of rows and returns how many; call it again until that is 0.
func (l *Ledger) Prune(ctx context.Context, quotaLifetime time.Duration) (int64, error) {
	now := l.clock.Now()
	records, err := l.DB(ctx).Exec(ctx, pruneRecordsSQL, now.Add(-IdempotencyRecordLifetime))
	if err != nil {
		return 0, fmt.Errorf("eventstore: prune idempotency records: %w", err)
	}
	quotas, err := l.DB(ctx).Exec(ctx, pruneQuotasSQL, now.Add(-quotaLifetime))
	if err != nil {
		return 0, fmt.Errorf("eventstore: prune quotas: %w", err)
	}
	return records.RowsAffected() + quotas.RowsAffected(), nil
}
