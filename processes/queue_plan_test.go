package processes

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ledgerline/test/testpg"
)

// Fifty thousand who wait in one queue, a fiftieth of them for room of ten others as well, as many who rest, and ten who wait elsewhere.
const queuesSQL = `
insert into sending_waiting (contact_id, queue, position, stage, not_before, judged_at, elsewhere)
select 'c' || i, case when i > 100000 then 'few' else 'many' end, i, case when i % 2 = 0 or i > 100000 then 'waiting' when i % 4 = 1 then 'quiet' else 'unfit' end,
       case when i % 2 = 1 and i <= 100000 then '2026-03-02 13:00Z'::timestamptz end, i, case when i % 100 = 0 then 'other' || i / 10000 else '' end
from generate_series(1, 100010) i`

func TestWhoWaitsInALongQueueIsReadByNobodyElse(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	asked := map[string]func(queue string) []any{
		aheadSQL:          func(queue string) []any { return []any{queue, 50_000, true} },
		beforeSQL:         func(queue string) []any { return []any{queue, 50_000, 100} },
		restedSQL:         func(queue string) []any { return []any{queue, now} },
		judgedSQL:         func(queue string) []any { return []any{queue, 5} },
		othersSQL:         func(queue string) []any { return []any{queue} },
		goingSQL:          func(queue string) []any { return []any{queue} },
		letGoSQL:          func(queue string) []any { return []any{queue, 20} },
		letGoElsewhereSQL: func(queue string) []any { return []any{queue, 20, []string{"other1", "other7"}} },
		leftSQL:           func(queue string) []any { return []any{queue} },
	}
	const most = 200
	for name, statements := range map[string][]string{
		"statistics up to date":        {queuesSQL, "vacuum analyze sending_waiting"},
		"statistics of an empty table": {"vacuum analyze sending_waiting", queuesSQL},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := pgx.Connect(t.Context(), testpg.Database(t))
			require.NoError(t, err)
			defer func() { require.NoError(t, conn.Close(t.Context())) }()
			for _, statement := range append([]string{"alter table sending_waiting set (autovacuum_enabled = off)"}, statements...) {
				_, err := conn.Exec(t.Context(), statement)
				require.NoError(t, err)
			}
			for _, queue := range []string{"many", "few", "none"} {
				for sql, args := range asked {
					require.LessOrEqual(t, rowsRead(t, conn, sql, args(queue)), most, "%s: %s", queue, sql)
				}
			}
		})
	}
}

// rowsRead carries a statement out, for a look, and tells how many rows of the queues it has read; all of them when it went over the table.
func rowsRead(t *testing.T, conn *pgx.Conn, sql string, args []any) int {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
	so := func() (far int) {
		err := tx.QueryRow(t.Context(), `select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables where relname = 'sending_waiting'`).Scan(&far)
		require.NoError(t, err)
		return far
	}
	before := so()
	_, err = tx.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
	return so() - before
}
