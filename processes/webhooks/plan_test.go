package webhooks

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"ledgerline/eventstore"
	"ledgerline/test/testpg"
)

// 50,000 pending deliveries: ten are of the endpoint whk_3, the others of two more endpoints.
const manyDeliveriesSQL = `insert into webhook_deliveries (id, endpoint_id, event_id, event_type, test, status, created_at, next_attempt_at)
	select gen_random_uuid(), 'whk_' || case when i <= 10 then 3 else i % 2 end, gen_random_uuid(), 'contact.created', false, 'pending',
		'2026-03-01 12:00Z', '2026-03-01 12:00Z' from generate_series(1, 50000) i`

const readsSQL = `select coalesce(sum(seq_scan), 0), coalesce(sum(idx_tup_fetch + seq_tup_read), 0) from pg_stat_xact_user_tables
	where relname in ('webhook_deliveries', 'webhook_events', 'webhook_started_attempts')`

func TestDeliveriesAreFoundByIndexAmongManyOfOtherEndpoints(t *testing.T) {
	t.Parallel()
	for name, statements := range map[string][]string{
		"statistics up to date":        {manyDeliveriesSQL, "vacuum analyze webhook_deliveries"},
		"statistics of an empty table": {"vacuum analyze webhook_deliveries", manyDeliveriesSQL},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, err := pgxpool.New(t.Context(), testpg.Database(t))
			require.NoError(t, err)
			t.Cleanup(pool.Close)
			for _, statement := range append([]string{"alter table webhook_deliveries set (autovacuum_enabled = off)"}, statements...) {
				_, err = pool.Exec(t.Context(), statement)
				require.NoError(t, err)
			}
			var ids []uuid.UUID
			rows, err := pool.Query(t.Context(), `select id from webhook_deliveries where endpoint_id = 'whk_3'`)
			require.NoError(t, err)
			ids, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
			require.NoError(t, err)
			noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			one, texts := []int32{1}, []string{"failed"}
			for name, addTo := range map[string]func(*pgx.Batch){
				"due":      func(b *pgx.Batch) { b.Queue(dueSQL, "whk_3", noon, 64) },
				"earliest": func(b *pgx.Batch) { b.Queue(earliestDueSQL, "whk_3") },
				"pending":  func(b *pgx.Batch) { b.Queue(pendingSQL, "whk_3", noon, 500) },
				"start":    func(b *pgx.Batch) { b.Queue(startSQL, []string{"whk_3"}, ids[:1], one, []int64{1}, noon) },
				"given up": func(b *pgx.Batch) { b.Queue(giveUpSQL, ids[:1], "erased") },
				"replayed": func(b *pgx.Batch) { b.Queue(replaySQL, ids[:1], []time.Time{noon}) },
				"attempted": func(b *pgx.Batch) {
					b.Queue(applyAttemptsSQL, ids[:1], one, texts, []*int{nil}, []*int{nil}, []*string{nil}, []*time.Time{nil}, []*time.Time{nil}, []string{"{}"})
				},
			} {
				tx, err := pool.Begin(t.Context())
				require.NoError(t, err)
				var b pgx.Batch
				b.Queue(eventstore.ForceIndexScansSQL)
				addTo(&b)
				require.NoError(t, tx.SendBatch(t.Context(), &b).Close(), name)
				var scans, fetched int
				require.NoError(t, tx.QueryRow(t.Context(), readsSQL).Scan(&scans, &fetched))
				require.NoError(t, tx.Rollback(t.Context()))
				require.Zero(t, scans, name)
				require.Less(t, fetched, 200, name)
			}
		})
	}
}
