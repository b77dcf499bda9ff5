package processes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"ledgerline/testkit"
)

// A crowd of rows that wait, are leased or rest after failures, with a handful that are due, and some of another process.
const crowdSQL = `
insert into process_todo (process, key, shard, due_at, asked_at_position, lease_until, retry_at)
select case when i % 10 = 0 then 'other' else 'test' end, 'k' || i, 0,
       '2026-03-01 12:00Z'::timestamptz + case when i % 1000 = 1 then '-1 min'::interval else i * '1 s'::interval end, i,
       case when i % 5000 = 1 then now() + '1 min' end,
       case when i % 7 = 0 then now() + '1 min' end
from generate_series(1, 50000) i`

func TestDueKeysAreFoundByIndexAmongManyThatWait(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), testkit.Database(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = pool.Exec(t.Context(), crowdSQL)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `vacuum analyze process_todo`)
	require.NoError(t, err)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

	// The plan for any parameters, which is the one that a runner's prepared statement ends up with.
	plan := func(name, sql string, args ...string) string {
		t.Helper()
		conn, err := pool.Acquire(t.Context())
		require.NoError(t, err)
		defer conn.Release()
		for _, statement := range []string{"set plan_cache_mode = force_generic_plan", "prepare " + name + " as " + sql} {
			_, err = conn.Exec(t.Context(), statement, pgx.QueryExecModeSimpleProtocol)
			require.NoError(t, err)
		}
		rows, err := conn.Query(t.Context(), fmt.Sprintf("explain (analyze, costs off, timing off, summary off) execute %s(%s)",
			name, strings.Join(args, ", ")), pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		return strings.Join(lines, "\n")
	}
	moment := "'" + now.Format(time.RFC3339) + "'"
	lease := plan("lease", todoLeaseSQL, "'test'", moment, "32", "15")
	next := plan("next", todoNextSQL, "'test'", moment)
	for _, got := range []string{lease, next} {
		require.NotContains(t, got, "Seq Scan")
		require.NotContains(t, got, "Sort Key")
		require.Contains(t, got, "process_todo_due")
		require.Contains(t, got, "process_todo_retry")
	}

	// And it takes what is due, no more: 50 of a thousand each, less those leased and those resting.
	runner := &Runner{cfg: RunnerConfig{Pool: pool, Process: "test", Lease: time.Minute}}
	visit := turn{take: 100, now: now}
	require.NoError(t, visit.run(t.Context(), runner))
	var due int
	for _, task := range visit.taken {
		require.False(t, task.DueAt.After(now))
		due++
	}
	var left int
	require.NoError(t, pool.QueryRow(t.Context(), `select count(*) from process_todo
		where process = 'test' and due_at <= $1 and retry_at is null and lease_until is null`, now).Scan(&left))
	require.Zero(t, left)
	require.Positive(t, due)
	require.NotNil(t, visit.next)
	require.NotNil(t, visit.retryIn)
}
