package projections

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"ledgerline/clock"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/projections/readmodel"
	"ledgerline/test/testpg"
)

// crowdedBookSQL inserts 40,000 contacts, two buckets, directly into the read model; the triggers fill the derived
// tables. Label 1 is on half of the contacts, label 2 on the oldest tenth, label 3 on two. Person 51 owns two contacts.
// Contacts of one company follow each other.
var crowdedBookSQL = []string{
	`create function person(n bigint) returns uuid immutable language sql as $$ select ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid $$`,
	`insert into read.labels (id, workspace_id, name, folded_name, created_at) select person(n), person(1), 'L' || n, 'l' || n, now() from generate_series(1, 3) n`,
	`insert into read.contact_labels (contact_id, label_id) select 'ctc_' || n, person(l) from generate_series(1, 40000) n, generate_series(1, 3) l
		where l = 1 and n % 2 = 0 or l = 2 and n < 4000 or l = 3 and n % 20000 = 7`,
	`insert into read.contacts (id, workspace_id, position, number_hash, phone, first_name, last_name, company, email, fields, consent_status, assigned_line_id, owner_user_id,
			has_conversation, conversation_assignee, created_at, updated_at, folded_first_name, folded_last_name, folded_company, folded_email, folded_fields, instants)
		select 'ctc_' || n, person(1), n * 2, 'h' || n, '+1415' || lpad(n::text, 7, '0'), 'First', 'Last ' || n, 'Company ' || n / 500, 'u' || n || '@example.com',
			jsonb_build_object('plan', case when n % 9000 = 3 then 'gold' else 'free' end), (array['unknown', 'opted_in', 'opted_out'])[1 + n % 3], 'ln_' || n % 10,
			case when n % 20000 = 9 then person(51) when n % 3 = 0 then person(n % 20) end, n % 5 = 0, case when n % 10 = 0 then person(n % 20) end, now(), current_timestamp,
			'first', 'last ' || n, 'company ' || n / 500, 'u' || n || '@example.com', jsonb_build_object('plan', case when n % 9000 = 3 then 'gold' else 'free' end), '{}'
		from generate_series(1, 40000) n`,
}

// testLedger opens a ledger of one shard in a new database.
func testLedger(t *testing.T) (*eventstore.Ledger, *pgxpool.Pool) {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), testpg.Database(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	ring, _, err := eventstore.NewKeyring()
	require.NoError(t, err)
	ledger, err := eventstore.Open(t.Context(), eventstore.Config{Pool: pool, Keyring: ring, Clock: clock.System(), Shards: 1})
	require.NoError(t, err)
	t.Cleanup(ledger.Close)
	return ledger, pool
}

func crowdedBook(t *testing.T) (*Store, *pgxpool.Pool) {
	t.Helper()
	ledger, pool := testLedger(t)
	require.NoError(t, Prepare(t.Context(), ledger, slog.New(slog.DiscardHandler)))
	var name, restore string // as in a replay, the index is built at the end, which is faster
	require.NoError(t, pool.QueryRow(t.Context(), `select schemaname || '.' || indexname, indexdef from pg_indexes where tablename = 'contact_index' and indexdef like '%gin%'`).Scan(&name, &restore))
	for _, sql := range append(append([]string{"drop index " + name}, crowdedBookSQL...), restore, "analyze") {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	store := NewStore(ledger, feed.NewProgress())
	t.Cleanup(store.Close)
	return store, pool
}

// node is a node of a query plan, from explain (format json).
type node struct {
	Kind     string  `json:"Node Type"`
	Relation string  `json:"Relation Name"`
	Rows     float64 `json:"Actual Rows"`
	Loops    float64 `json:"Actual Loops"`
	Filtered float64 `json:"Rows Removed by Filter"`
	Plans    []node  `json:"Plans"`
}

// read sums the rows that were read from tables. It fails the test when a whole table is read.
func (n *node) read(t *testing.T, about string) (rows float64) {
	t.Helper()
	if n.Relation != "" {
		rows = (n.Rows + n.Filtered) * n.Loops
		require.False(t, n.Kind == "Seq Scan" && n.Relation != "labels", "%s reads all of %s", about, n.Relation)
	}
	for i := range n.Plans {
		rows += n.Plans[i].read(t, about)
	}
	return rows
}

func TestContactListReadsNoWholeTableWithAnyFilter(t *testing.T) {
	t.Parallel()
	store, pool := crowdedBook(t)
	person := func(n int) uuid.UUID { return uuid.MustParse(fmt.Sprintf("00000000-0000-0000-0000-%012d", n)) }
	all, agent := Viewer{Workspace: person(1)}, Viewer{Workspace: person(1), Agent: person(51)}
	for _, list := range []struct {
		v    Viewer
		by   ContactFilter
		most float64 // rows that may be read
	}{
		{all, ContactFilter{}, 300},
		{all, ContactFilter{Q: "first"}, bucketSize + 300},
		{all, ContactFilter{Q: "last 31"}, 3000},
		{all, ContactFilter{Q: "company 7"}, bucketSize + 300}, // of the oldest
		{all, ContactFilter{Q: "(415) 001-2345"}, 20},
		{all, ContactFilter{Q: "001-23"}, 600},
		{all, ContactFilter{Q: "nobody"}, 20},
		{all, ContactFilter{Phone: "+14150012345"}, 20},
		{all, ContactFilter{ConsentStatus: "opted_out"}, bucketSize + 300},
		{all, ContactFilter{OwnerUserID: person(51).String()}, 50},
		{all, ContactFilter{LineID: "ln_3"}, 3000},
		{all, ContactFilter{LineID: "ln_none"}, 20},
		{all, ContactFilter{Label: "l1"}, bucketSize + 300},
		{all, ContactFilter{Label: "L2"}, 5000},
		{all, ContactFilter{Label: "l3"}, 50},
		{all, ContactFilter{Label: "l3", Q: "first", ConsentStatus: "opted_in"}, 50},
		{agent, ContactFilter{}, 2 * bucketSize},
		{agent, ContactFilter{Label: "l3"}, 50},
	} {
		about := fmt.Sprintf("%+v", list.by)
		q, err := list.by.query(t.Context(), store, list.v)
		require.NoError(t, err)
		var text []byte
		sql := q.sql(listedContactFields.SQL, nil, 51)
		require.NoError(t, pool.QueryRow(t.Context(), "explain (analyze, format json) "+sql, q.Args...).Scan(&text), about)
		var found []struct {
			Plan node `json:"Plan"`
		}
		require.NoError(t, json.Unmarshal(text, &found))
		require.LessOrEqual(t, found[0].Plan.read(t, about), list.most, about)
	}
}

func TestContactFiltersFindTheSameContactsByIndexAndByTable(t *testing.T) {
	t.Parallel()
	store, pool := crowdedBook(t)
	seed := uint64(eventstore.NewID().ID())
	r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // repeatable
	one := func(list ...string) string { return list[r.IntN(len(list))] }
	person := func(n int) uuid.UUID { return uuid.MustParse(fmt.Sprintf("00000000-0000-0000-0000-%012d", n)) }
	some := 0
	for range 60 {
		v := Viewer{Workspace: person(1)}
		if r.IntN(3) == 0 {
			v.Agent = person([]int{51, 10, 19}[r.IntN(3)])
		}
		by := ContactFilter{
			Q:     one("", "", "first", "LAST 399", "company 7", "99", "9", "(415) 003-99", "+1415", "3 9", "nobody", "%", "_9"),
			Label: one("", "", "", "l1", "L2", "l3"), ConsentStatus: one("", "", "opted_in", "opted_out"), LineID: one("", "", "", "ln_9", "ln_2", "ln_none"),
			OwnerUserID: one("", "", "", person(51).String(), person(9).String()), Phone: one("", "", "", "", "", "+14150039999"),
		}
		about := fmt.Sprintf("seed %d: %+v %+v", seed, by, v)
		f, empty, err := by.allSQL(t.Context(), store, v)
		require.NoError(t, err)
		require.False(t, empty)
		rows, err := pool.Query(t.Context(), "select c.id from read.contacts c"+f.Where()+" order by c.position desc limit 250", f.Args...)
		require.NoError(t, err, about)
		want, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		if len(want) > 0 {
			some++
		}
		var got []string
		var after *readmodel.Cursor
		for len(got) < 250 {
			page, err := store.Contacts(t.Context(), v, by, after, 50)
			require.NoError(t, err, about)
			for i := range page.Rows {
				got = append(got, page.Rows[i].ID)
			}
			if after = page.Next; after == nil {
				break
			}
		}
		require.Equal(t, want, append([]string{}, got...), about)
	}
	require.Greater(t, some, 5)
}
