package tasks

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"ledgerline/test/testpg"
)

// manyTasksSQL inserts 50,000 tasks, most of which are not due: 50 are due, of which 10 are leased; 100 wait for a
// retry after a failure, of which 50 may be retried. 5,000 more belong to another process.
const manyTasksSQL = `
insert into scheduled_tasks (process, key, shard, due_at, scheduled_at_position, lease_until, retry_at)
select case when i > 50000 then 'other' else 'test' end, 'k' || i, 0,
       '2026-03-01 12:00Z'::timestamptz + case when i % 1000 = 0 or i % 500 = 1 then '-1 min'::interval else i * '1 s'::interval end, i,
       case when i % 5000 = 0 then now() + '1 min' end,
       case i % 1000 when 1 then now() - '1 s'::interval when 501 then now() + '1 min' end
from generate_series(1, 55000) i`

// readsSQL returns what the transaction has read of the table so far, by the statistics of the server.
const readsSQL = `select seq_scan, idx_tup_fetch from pg_stat_xact_user_tables where relname = 'scheduled_tasks'`

func TestDueTasksAreFoundByIndexAmongManyThatAreNotDue(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, statements := range map[string][]string{
		"statistics up to date":        {manyTasksSQL, "vacuum analyze scheduled_tasks"},
		"statistics of an empty table": {"vacuum analyze scheduled_tasks", manyTasksSQL},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := pgxpool.ParseConfig(testpg.Database(t))
			require.NoError(t, err)
			cfg.MaxConns = 1 // so that the statistics are those of the round trip's transaction
			pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
			require.NoError(t, err)
			t.Cleanup(pool.Close)
			_, err = pool.Exec(t.Context(), "alter table scheduled_tasks set (autovacuum_enabled = off)")
			require.NoError(t, err)
			for _, statement := range statements {
				_, err = pool.Exec(t.Context(), statement)
				require.NoError(t, err)
			}
			runner := &Runner{cfg: RunnerConfig{Pool: pool, Process: "test", Lease: time.Minute}}
			seen := map[string]bool{}
			var results []ended
			for range 3 {
				tx, err := pool.Begin(t.Context())
				require.NoError(t, err)
				trip := roundTrip{limit: 32, now: now, ended: results}
				for _, e := range results {
					trip.renew = append(trip.renew, e.task) // for its cost; the tasks are removed by then
				}
				var batch pgx.Batch
				trip.addTo(&batch, runner)
				require.NoError(t, tx.SendBatch(t.Context(), &batch).Close())
				var scans, fetched int
				require.NoError(t, tx.QueryRow(t.Context(), readsSQL).Scan(&scans, &fetched))
				require.NoError(t, tx.Commit(t.Context()))
				require.Zero(t, scans)
				require.Less(t, fetched, 1000)

				results = nil
				for _, task := range trip.leased {
					require.False(t, task.DueAt.After(now))
					require.False(t, seen[task.Key])
					seen[task.Key] = true
					results = append(results, ended{task: task, finished: true})
				}
				require.NotNil(t, trip.nextDue)
				require.NotNil(t, trip.retryIn)
			}
			require.Len(t, seen, 90)
		})
	}
}
