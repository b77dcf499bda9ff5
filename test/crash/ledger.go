package crash

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/jackc/pgx/v5"

	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/projections"
	"ledgerline/projections/readmodel"
)

// checkLedger stops the node and compares the ledger with its own rules, the simulator, the answers and the read
// models.
func (t *trial) checkLedger(ctx context.Context) error {
	var seen simulated
	if err := t.control(ctx, http.MethodGet, "/simulator", &seen); err != nil {
		return err
	}
	t.report.Sends = seen.Sends
	if seen.Duplicates > 0 {
		t.violations.add("messages sent twice", "the simulator counts %d", seen.Duplicates)
	}
	if err := t.node.stop(); err != nil {
		t.violations.add("the node does not stop in order", "%v, see %s", err, t.logFile())
	}
	if err := t.checkLog(); err != nil {
		return err
	}
	n, err := t.nodeWithoutRoles(ctx)
	if err != nil {
		return err
	}
	defer n.Stop()
	t.say("checking the ledger")
	h := newHistory(&t.violations)
	if err := t.expectConsents(ctx, h); err != nil {
		return err
	}
	for shard := range t.shards {
		if err := h.walk(ctx, n.Ledger, shard); err != nil {
			return err
		}
		verified, err := n.Ledger.Verify(ctx, shard, eventstore.VerifyOptions{})
		if tampering := (*eventstore.Tampering)(nil); errors.As(err, &tampering) {
			t.violations.add("audit verify fails", "%v", err)
		} else if err != nil {
			return err
		}
		t.report.Events += verified.Events
	}
	h.checkFinished()
	h.compareWithSimulator(seen.Messages)
	t.report.Messages, t.report.Reconciled, t.report.Asked = len(h.messages), h.reconciled, h.asked
	for _, w := range t.writes {
		if w.kind == "message" && w.status == http.StatusCreated && h.messages[w.ref] == nil {
			t.violations.add("an answered write is not in the ledger", "%s (%s)", w.ref, w.key)
		}
	}
	for _, look := range []func(context.Context) error{t.checkRows, func(ctx context.Context) error { return t.checkStatuses(ctx, h) }} {
		if err := look(ctx); err != nil {
			return err
		}
	}
	t.say("replaying the read models")
	return t.compareReplay(ctx, n.Ledger)
}

// walk reads a shard from its first event to its head, in order.
func (h *history) walk(ctx context.Context, ledger *eventstore.Ledger, shard int) error {
	const page = 5000
	head, err := ledger.Head(ctx, shard)
	if err != nil {
		return err
	}
	for after := int64(0); after < head; after += page {
		found, err := ledger.ReadRange(ctx, shard, after, min(head, after+page))
		if err != nil {
			return err
		}
		for i := range found {
			r := &found[i]
			if want := after + int64(i) + 1; r.Position != want {
				h.violations.add("a gap in the positions", "shard %d: %d where %d should be", shard, r.Position, want)
				return nil
			}
			if r.Event, err = events.Default.Decode(r.Type, r.Schema, r.Data, nil); err != nil {
				h.violations.add("an event that cannot be read", "shard %d, %d: %v", shard, r.Position, err)
				continue
			}
			if _, made := r.Event.(*events.ContactCreated); made { // checkQuietHours needs its number
				if err := ledger.Decode(ctx, found[i:i+1]); err != nil {
					return err
				}
			}
			h.apply(r)
		}
		if want := min(page, head-after); int64(len(found)) != want {
			h.violations.add("a gap in the positions", "shard %d: %d events after %d, not %d", shard, len(found), after, want)
		}
	}
	return nil
}

const expectSQL = `select key, ref, status, shard, position from ledger_idempotency_records where workspace_id = $1`

// expectConsents checks that every answered write has its idempotency record. The positions in these records tell where
// an answered change of consent must hold.
func (t *trial) expectConsents(ctx context.Context, h *history) error {
	type record struct {
		Key, Ref string
		Status   int
		Shard    int
		Position int64
	}
	found := map[string]record{}
	for _, o := range t.tenants {
		rows, err := t.pool.Query(ctx, expectSQL, o.workspace)
		if err != nil {
			return fmt.Errorf("read idempotency records: %w", err)
		}
		list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[record])
		if err != nil {
			return fmt.Errorf("read idempotency records: %w", err)
		}
		for _, r := range list {
			found[r.Key] = r
		}
	}
	for _, w := range t.writes {
		r, ok := found[w.key]
		switch {
		case !w.answered():
		case !ok || r.Status != w.status || w.ref != "" && w.status < http.StatusBadRequest && r.Ref != w.ref:
			t.violations.add("an answered write without its idempotency record", "%s (%s): %d, the record: %+v", w.kind, w.key, w.status, r)
		case w.kind == "consent":
			at := ledgerPosition{r.Shard, r.Position}
			h.expected[at] = append(h.expected[at], expectation{w.ref, w.want})
		}
	}
	return nil
}

// rowChecks are queries for rows that must not exist; each returns a count that must be 0.
var rowChecks = []struct{ what, sql string }{
	{"streams with gaps or double versions", `select count(*) from (select from ledger_events group by stream having count(*) <> max(version) or min(version) <> 1) s`},
	{"streams on two shards", `select count(*) from (select from ledger_events group by stream having min(shard) <> max(shard)) s`},
	{"event ids used twice", `select count(*) from (select from ledger_events group by id having count(*) > 1) s`},
	{"heads that are not the last position", `select count(*) from ledger_heads h
		where position <> (select coalesce(max(position), 0) from ledger_events e where e.shard = h.shard)`},
	{"parked events", `select count(*) from feed_parked`},
	{"messages left in the outbox", `select count(*) from sending_outbox`},
	{"tasks of the sending process left", `select count(*) from scheduled_tasks where process = 'sending'`},
	{"two messages under one key", `select count(*) from (select from read.messages where direction = 'outbound' and external_id is not null
		group by workspace_id, external_id having count(*) > 1) s`},
	{"two contacts with one number", `select count(*) from (select from read.contacts group by workspace_id, phone having count(*) > 1) s`},
}

func (t *trial) checkRows(ctx context.Context) error {
	for _, c := range rowChecks {
		var n int64
		if err := t.pool.QueryRow(ctx, c.sql).Scan(&n); err != nil {
			return fmt.Errorf("look for %s: %w", c.what, err)
		}
		if n > 0 {
			t.violations.add(c.what, "%d", n)
		}
	}
	return nil
}

const statusesSQL = `select id, status from read.messages`

// checkStatuses compares the statuses in the read model with the streams.
func (t *trial) checkStatuses(ctx context.Context, h *history) error {
	rows, err := t.pool.Query(ctx, statusesSQL)
	if err != nil {
		return fmt.Errorf("read statuses: %w", err)
	}
	var id, status string
	n := 0
	if _, err := pgx.ForEachRow(rows, []any{&id, &status}, func() error {
		n++
		if m := h.messages[id]; m == nil || m.status() != status {
			t.violations.add("a status in the read model that differs from the ledger", "%s is %s", id, status)
		}
		return nil
	}); err != nil {
		return fmt.Errorf("read statuses: %w", err)
	}
	if n != len(h.messages) {
		t.violations.add("messages missing from the read model", "%d of %d", len(h.messages)-n, len(h.messages))
	}
	return nil
}

const (
	// contact_totals is left out: it counts how often its rows were written, and a replay writes them less often.
	tablesSQL = `select table_name from information_schema.views where table_schema = 'read' and table_name <> 'contact_totals' order by table_name`
	keepSQL   = `create table crash_before.%[1]s as select to_jsonb(r) as row from read.%[1]s r`
	// Rows that are only in one of the two tables, in either direction. Duplicate rows count separately.
	differSQL = `select count(*), coalesce(min(which || ' ' || row::text), '') from (
		(select 'only before: ' as which, row from (select row from crash_before.%[1]s except all select to_jsonb(r) from read.%[1]s r) b)
		union all
		(select 'only after: ', row from (select to_jsonb(r) as row from read.%[1]s r except all select row from crash_before.%[1]s) a)) d`
)

// compareReplay replays all read models and compares every row with what was there before.
func (t *trial) compareReplay(ctx context.Context, ledger *eventstore.Ledger) error {
	rows, err := t.pool.Query(ctx, tablesSQL)
	if err != nil {
		return fmt.Errorf("list the read models: %w", err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("list the read models: %w", err)
	}
	if _, err := t.pool.Exec(ctx, `create schema crash_before`); err != nil {
		return fmt.Errorf("copy the read models: %w", err)
	}
	for _, table := range tables {
		if _, err := t.pool.Exec(ctx, fmt.Sprintf(keepSQL, table)); err != nil {
			return fmt.Errorf("copy the read models: %w", err)
		}
	}
	if _, err := readmodel.ReplayAll(ctx, ledger, projections.All(), nil); err != nil {
		t.violations.add("a replay fails", "%v", err)
		return nil
	}
	for _, table := range tables {
		var n int
		var first string
		if err := t.pool.QueryRow(ctx, fmt.Sprintf(differSQL, table)).Scan(&n, &first); err != nil {
			return fmt.Errorf("compare the read models: %w", err)
		}
		if n > 0 {
			t.violations.add("a replay gives other rows", "%s: %d differ, %s", table, n, first)
		}
	}
	return nil
}
