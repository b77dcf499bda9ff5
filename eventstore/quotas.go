package eventstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// QuotaWindow asks what a quota's counter holds from a moment on.
type QuotaWindow struct {
	Key  string
	From time.Time
}

// QuotaBucket is what was added to a counter in one bucket of time.
type QuotaBucket struct {
	At   time.Time
	Used int64
}

const bucketsSQL = `select u.i, q.bucket, q.used
	from unnest($1::text[], $2::timestamptz[]) with ordinality u (key, since, i) join ledger_quotas q on q.key = u.key and q.bucket >= u.since
	where q.used <> 0 order by u.i, q.bucket`

// QuotaUsage reads counters, one list of buckets for each window, oldest first. What it reads may have grown when it is used: the
// append alone decides whether there is room.
func (l *Ledger) QuotaUsage(ctx context.Context, windows []QuotaWindow) ([][]QuotaBucket, error) {
	keys, since := make([]string, len(windows)), make([]time.Time, len(windows))
	for i, w := range windows {
		keys[i], since[i] = w.Key, w.From
	}
	rows, err := l.pool.Query(ctx, bucketsSQL, keys, since)
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
