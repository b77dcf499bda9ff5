package eventstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// QuotaWindow is a quota's counter from a moment on.
type QuotaWindow struct {
	Key  string
	From time.Time
}

// QuotaBucket is how much was added to a quota's counter in one bucket of time.
type QuotaBucket struct {
	At   time.Time // start of the bucket
	Used int64
}

const bucketsSQL = `select u.i, q.bucket, q.used
	from unnest($1::text[], $2::timestamptz[]) with ordinality u (key, since, i) join ledger_quotas q on q.key = u.key and q.bucket >= u.since
	where q.used <> 0 order by u.i, q.bucket`

// QuotaUsage reads counters: for each window its buckets that are not 0, oldest first. The counters may change right
// afterwards; only an append with a Quota is certain to stay within the limit.
func (l *Ledger) QuotaUsage(ctx context.Context, windows []QuotaWindow) ([][]QuotaBucket, error) {
	keys, since := make([]string, len(windows)), make([]time.Time, len(windows))
	for i, w := range windows {
		keys[i], since[i] = w.Key, w.From
	}
	rows, err := l.DB(ctx).Query(ctx, bucketsSQL, keys, since)
	if err != nil {
		return nil, fmt.Errorf("eventstore: quotas: %w", err)
	}
	used := make([][]QuotaBucket, len(windows))
	var i int
	var b QuotaBucket
	_, err = pgx.ForEachRow(rows, []any{&i, &b.At, &b.Used}, func() error {
		used[i-1] = append(used[i-1], b)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("eventstore: quotas: %w", err)
	}
	return used, nil
}

const oldestBucketSQL = `select bucket from ledger_quotas where key = $1 and bucket >= $2 and used > 0 order by bucket limit 1`

// OldestQuotaBucket returns the oldest bucket of a counter, from a moment on, that is not 0; found is false when there
// is none.
func (l *Ledger) OldestQuotaBucket(ctx context.Context, key string, from time.Time) (bucket time.Time, found bool, err error) {
	err = l.DB(ctx).QueryRow(ctx, oldestBucketSQL, key, from).Scan(&bucket)
	if errors.Is(err, pgx.ErrNoRows) {
		return bucket, false, nil
	}
	if err != nil {
		return bucket, false, fmt.Errorf("eventstore: quota: %w", err)
	}
	return bucket, true, nil
}
