package processes

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"ledgerline/test/testpg"
)

// A crowd of rows that wait, and among them 50 that are due (10 of those are leased), and 100 that rest after failures (50
// have rested enough). A tenth as many belong to another process.
const crowdSQL = `
insert into process_todo (process, key, shard, due_at, asked_at_position, lease_until, retry_at)
select case when i > 50000 then 'other' else 'test' end, 'k' || i, 0,
       '2026-03-01 12:00Z'::timestamptz + case when i % 1000 = 0 or i % 500 = 1 then '-1 min'::interval else i * '1 s'::interval end, i,
       case when i % 5000 = 0 then now() + '1 min' end,
       case i % 1000 when 1 then now() - '1 s'::interval when 501 then now() + '1 min' end
from generate_series(1, 55000) i`

// What a transaction has read of the table so far, told by the server itself.
const readsSQL = `select seq_scan, idx_tup_fetch from pg_stat_xact_user_tables where relname = 'process_todo'`

func TestDueKeysAreFoundByIndexAmongManyThatWait(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, statements := range map[string][]string{
		"statistics up to date":        {crowdSQL, "vacuum analyze process_todo"},
		"statistics of an empty table": {"vacuum analyze process_todo", crowdSQL},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := pgxpool.ParseConfig(testpg.Database(t))
			require.NoError(t, err)
			cfg.MaxConns = 1 // so that what is seen is what the runner's own transaction did
			pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
			require.NoError(t, err)
			t.Cleanup(pool.Close)
			_, err = pool.Exec(t.Context(), "alter table process_todo set (autovacuum_enabled = off)")
			require.NoError(t, err)
			for _, statement := range statements {
				_, err = pool.Exec(t.Context(), statement)
				require.NoError(t, err)
			}
			runner := &Runner{cfg: RunnerConfig{Pool: pool, Process: "test", Lease: time.Minute}}
			seen := map[string]bool{}
			var put []ended
			for range 3 {
				tx, err := pool.Begin(t.Context())
				require.NoError(t, err)
				visit := turn{take: 32, now: now, ended: put}
				for _, e := range put {
					visit.renew = append(visit.renew, e.task) // for the cost of it; they are gone by then
				}
				var batch pgx.Batch
				visit.queue(&batch, runner)
				require.NoError(t, tx.SendBatch(t.Context(), &batch).Close())
				var scans, fetched int
				require.NoError(t, tx.QueryRow(t.Context(), readsSQL).Scan(&scans, &fetched))
				require.NoError(t, tx.Commit(t.Context()))
				require.Zero(t, scans)
				require.Less(t, fetched, 500)

				put = nil
				for _, task := range visit.taken {
					require.False(t, task.DueAt.After(now))
					require.False(t, seen[task.Key])
					seen[task.Key] = true
					put = append(put, ended{task: task, done: true})
				}
				require.NotNil(t, visit.next)
				require.NotNil(t, visit.retryIn)
			}
			require.Len(t, seen, 90)
		})
	}
}
