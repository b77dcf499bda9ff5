package projections

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"ledgerline/eventstore/feed"
	"ledgerline/projections/readmodel"
)

// crowdedInboxSQL inserts 60,000 conversations directly into the read models. Of each hundred, 94 are closed and one is
// snoozed. A fifth is assigned to nobody, 30 far apart to person 51. Label 1 is on a third, label 2 on 420, label 3 on
// two.
var crowdedInboxSQL = []string{
	`create function person(n bigint) returns uuid immutable language sql as $$ select ('00000000-0000-0000-0000-' || lpad(to_hex(n), 12, '0'))::uuid $$`,
	`insert into read.conversations (id, workspace_id, contact_id, status, assignee, team, handled_by, line_id, active_at, unread_count, created_at, updated_at)
		select 'cnv_' || n, person(1), 'ctc_' || n, case when n % 100 < 94 then 'closed' when n % 100 < 99 then 'open' else 'snoozed' end,
			person(case when n % 2000 = 7 then 51 when n % 5 = 0 then 0 else 1 + (n / 7) % 50 end), person((n / 3) % 9), 'team', 'ln_' || n % 10,
			now() - ((n * 7919) % 31536000) * '1 s'::interval, 0, now(), now()
		from generate_series(1, 60000) n`,
	`insert into read.labelled_conversations (contact_id, label_id, id, status, active_at)
		select v.contact_id, person(l), v.id, v.status, v.active_at
		from read.conversations v, (values (1, 3), (2, 143), (3, 30000)) labels (l, each) where substr(v.id, 5)::int % each = 0`,
	`analyze`,
}

// explained is a node of a query plan, from explain (format json).
type explained struct {
	Kind     string      `json:"Node Type"`
	Relation string      `json:"Relation Name"`
	Rows     float64     `json:"Actual Rows"`
	Loops    float64     `json:"Actual Loops"`
	Filtered float64     `json:"Rows Removed by Filter"`
	Plans    []explained `json:"Plans"`
}

// read sums the rows that were read from tables, and lists the tables that were read as a whole.
func (e *explained) read() (rows float64, whole []string) {
	if strings.Contains(e.Kind, "Scan") {
		rows = (e.Rows + e.Filtered) * e.Loops
	}
	if e.Kind == "Seq Scan" && strings.HasSuffix(e.Relation, "conversations") { // the other tables are empty here
		whole = append(whole, e.Relation)
	}
	for i := range e.Plans {
		r, w := e.Plans[i].read()
		rows, whole = rows+r, append(whole, w...)
	}
	return rows, whole
}

func TestConversationListReadsFewRowsWithAnyFilter(t *testing.T) {
	t.Parallel()
	ledger, pool := testLedger(t)
	require.NoError(t, Prepare(t.Context(), ledger, slog.New(slog.DiscardHandler)))
	for _, sql := range crowdedInboxSQL {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	store := NewStore(ledger, feed.NewProgress())
	person := func(n byte) *uuid.UUID { return &uuid.UUID{15: n} }
	all := Viewer{Workspace: *person(1)}
	agent := Viewer{Workspace: *person(1), Agent: *person(51)}
	const limit = 50
	for name, list := range map[string]struct {
		v     Viewer
		by    ConversationFilter
		label *uuid.UUID
		after *readmodel.Cursor
	}{
		"all":                         {v: all},
		"deep":                        {v: all, after: &readmodel.Cursor{At: "2026-01-01T00:00:00.000Z", ID: "cnv_1"}},
		"status":                      {v: all, by: ConversationFilter{Status: "snoozed"}},
		"a person":                    {v: all, by: ConversationFilter{Assignee: person(1)}},
		"a person with few":           {v: all, by: ConversationFilter{Assignee: person(51)}},
		"a person with none":          {v: all, by: ConversationFilter{Assignee: person(99)}},
		"nobody":                      {v: all, by: ConversationFilter{Assignee: person(0), Status: "open"}},
		"an agent":                    {v: agent},
		"an agent, by status":         {v: agent, by: ConversationFilter{Status: "snoozed"}},
		"an agent, deep":              {v: agent, after: &readmodel.Cursor{At: "2026-01-01T00:00:00.000Z", ID: "cnv_1"}},
		"a team":                      {v: all, by: ConversationFilter{TeamID: person(2)}},
		"a team, by status":           {v: all, by: ConversationFilter{TeamID: person(2), Status: "open"}},
		"a line":                      {v: all, by: ConversationFilter{LineID: "ln_3"}},
		"a line and a status":         {v: all, by: ConversationFilter{LineID: "ln_3", Status: "snoozed"}},
		"a common label":              {v: all, label: person(1)},
		"a common label and a status": {v: all, by: ConversationFilter{Status: "snoozed"}, label: person(1)},
		"a label":                     {v: all, label: person(2)},
		"a rare label":                {v: all, label: person(3)},
		"an agent, by a label":        {v: agent, label: person(2)},
	} {
		i, err := store.newInboxQuery(t.Context(), list.v, &list.by, list.after)
		require.NoError(t, err)
		i.label = list.label
		rows, whole := plan(t, pool, i.listSQL(limit), i.f.Args)
		require.Empty(t, whole, name)
		require.Less(t, rows, 1500.0, name) // six lanes of 51, each row by way of two tables, and shown with its contact
	}
}

// plan runs a statement and returns what it read.
func plan(t *testing.T, pool *pgxpool.Pool, sql string, args []any) (rows float64, whole []string) {
	t.Helper()
	var text []byte
	require.NoError(t, pool.QueryRow(t.Context(), "explain (analyze, format json) "+sql, args...).Scan(&text))
	var found []struct {
		Plan explained `json:"Plan"`
	}
	require.NoError(t, json.Unmarshal(text, &found))
	return found[0].Plan.read()
}
