package dispatch

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ledgerline/test/testpg"
)

// Fifty thousand entries that want the same capacity, as many in quiet hours that end at two times, ten that want
// something else, and ten in another workspace.
const entriesOfATestSQL = `
insert into capacity_queue (message_id, contact_id, workspace_id, wants_key, wants, not_before, rank)
select 'm' || i, 'c' || i,
       case when i > 100010 then '00000000-0000-0000-0000-000000000002' else '00000000-0000-0000-0000-000000000001' end::uuid,
       case when i > 100000 and i <= 100010 then '\x02' else '\x01' end::bytea, '{}',
       case when i % 2 = 0 or i > 100000 then '1970-01-01 00:00Z' when i % 4 = 1 then '2026-03-02 13:00Z' else '2026-03-02 16:00Z' end::timestamptz, i
from generate_series(1, 100020) i`

func TestTheQueueIsReadByIndexHoweverLongItIs(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	const one, two = "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"
	groups := [][]byte{{1}, {2}}
	times := []time.Time{now, now}
	statements := map[string]func(workspace string) []any{
		groupsSQL:  func(workspace string) []any { return []any{workspace} },
		entriesSQL: func(workspace string) []any { return []any{workspace, groups, times, []int64{40_000, 0}, 20} },
		countSQL:   func(workspace string) []any { return []any{workspace, groups, times, 50_000, 50} },
		outboxSQL:  func(string) []any { return []any{"ctc_1", 0, 100, false} },
	}
	const most = 200
	for name, prepare := range map[string][]string{
		"statistics up to date":        {entriesOfATestSQL, "vacuum analyze capacity_queue"},
		"statistics of an empty table": {"vacuum analyze capacity_queue", entriesOfATestSQL},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := pgx.Connect(t.Context(), testpg.Database(t))
			require.NoError(t, err)
			defer func() { require.NoError(t, conn.Close(t.Context())) }()
			for _, statement := range append([]string{"alter table capacity_queue set (autovacuum_enabled = off)"}, prepare...) {
				_, err := conn.Exec(t.Context(), statement)
				require.NoError(t, err)
			}
			for _, workspace := range []string{one, two} {
				for sql, args := range statements {
					require.LessOrEqual(t, rowsRead(t, conn, sql, args(workspace)), most, "%s: %s", workspace, sql)
				}
			}
		})
	}
}

// rowsRead runs a statement in a transaction that is rolled back, and gives the number of rows of the queue that it
// read.
func rowsRead(t *testing.T, conn *pgx.Conn, sql string, args []any) int {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
	read := func() (n int) {
		err := tx.QueryRow(t.Context(), `select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables where relname = 'capacity_queue'`).Scan(&n)
		require.NoError(t, err)
		return n
	}
	before := read()
	_, err = tx.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
	return read() - before
}
