package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"ledgerline/commands"
	"ledgerline/projections"
	"ledgerline/service"
)

// book is the number of contacts in the workspace that is searched.
const book = 1_000_000

// dropSearchIndex drops the search index of contacts and returns the statement that creates it again. Creating it after
// a bulk load is faster than maintaining it row by row; a replay does the same.
func (s *site) dropSearchIndex(ctx context.Context) (restore string, err error) {
	var name string
	if err := s.pool.QueryRow(ctx, `select schemaname || '.' || indexname, indexdef from pg_indexes where tablename = 'contact_index' and indexdef like '%gin%'`).
		Scan(&name, &restore); err != nil {
		return "", fmt.Errorf("find the index of contacts: %w", err)
	}
	if _, err := s.pool.Exec(ctx, "drop index "+name); err != nil {
		return "", err
	}
	return restore, nil
}

// bulk runs statements that fill the read models.
func (s *site) bulk(ctx context.Context, statements ...string) error {
	restore, err := s.dropSearchIndex(ctx)
	if err != nil {
		return err
	}
	for _, sql := range append(statements, restore) {
		if _, err := s.pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("fill: %w", err)
		}
	}
	return nil
}

// fillContacts writes an address book straight into the read model. Names repeat, numbers and addresses do not; the 200
// contacts of a company are consecutive, as after an import; some labels, owners and lines are common, some are rare,
// and some belong to the oldest contacts only.
func (s *site) fillContacts(ctx context.Context, count int) error {
	var labels [4]string
	for i := range labels {
		made, err := s.App.CreateLabel(ctx, s.request(), fmt.Sprint("l", i+1), nil)
		if err != nil {
			return err
		}
		if err := s.Store.WaitForPosition(ctx, made.Shard, made.Position, projections.Contacts); err != nil {
			return err
		}
		labels[i] = "'" + made.Ref + "'::uuid"
	}
	const id = `('00000000-0000-0000-0000-' || lpad(%s::text, 12, '0'))::uuid`
	wsp, most := "'"+s.wsp.String()+"'", fmt.Sprint(count)
	names := `select n, (array['James','Mary','Robert','Patricia','John','Jennifer','Michael','Linda','David','Elizabeth','Zoë','Łukasz'])[1 + (n * 7) % 12] as first,
			(array['Smith','Johnson','Williams','Brown','Jones','Garcia','Miller','Davis','Rodriguez','Martinez'])[1 + (n * 13) % 10] || ' ' || n as last,
			case when n % 3 > 0 then 'Company ' || n / 200 end as company, 'user' || n || '@example.com' as email from generate_series(1, ` + most + `) n`
	return s.bulk(ctx,
		`insert into read.contact_labels (contact_id, label_id)
			select 'ctc_' || lpad(n::text, 26, '0'), id
			from generate_series(1, `+most+`) n, (values (`+labels[0]+`, 2), (`+labels[1]+`, 150), (`+labels[2]+`, 50000)) labels (id, each) where n % each = 0
			union all select 'ctc_' || lpad(n::text, 26, '0'), `+labels[3]+` from generate_series(1, `+most+` / 10) n`,
		`insert into read.contacts (id, workspace_id, position, number_hash, phone, first_name, last_name, company, email, fields, consent_status, assigned_line_id,
				owner_user_id, has_conversation, conversation_assignee, last_inbound_at, created_at, updated_at,
				folded_first_name, folded_last_name, folded_company, folded_email, folded_fields, instants)
			select 'ctc_' || lpad(n::text, 26, '0'), `+wsp+`, n * 3, 'h' || n, '+1415' || lpad(n::text, 7, '0'), first, last, company, email,
				jsonb_build_object('plan', case when n % 3 = 0 then 'gold' else 'free' end, 'seats', n % 500),
				case when n % 1000 = 0 then 'opted_out' when n % 2 = 0 then 'opted_in' else 'unknown' end, 'ln_' || case when n % 40000 = 0 then 'rare' else (n % 10)::text end,
				case when n % 20000 = 1 then `+fmt.Sprintf(id, "51")+` when n % 3 > 0 then `+fmt.Sprintf(id, "(1 + n % 50)")+` end,
				n % 3 = 0, case when n % 3 = 0 then `+fmt.Sprintf(id, "(1 + n % 50)")+` end, case when n % 4 = 0 then now() - (n % 900) * interval '1 day' end,
				now() - (`+most+` - n) * interval '1 second', now(), lower(first), lower(last), lower(company), email,
				jsonb_build_object('plan', case when n % 3 = 0 then 'gold' else 'free' end, 'seats', n % 500), '{}'
			from (`+names+`) x`,
		"vacuum analyze "+s.schemaOf(ctx, "contacts")+".contacts", "vacuum analyze "+s.schemaOf(ctx, "contacts")+".contact_labels",
	)
}

// schemaOf returns the schema of a read model's table.
func (s *site) schemaOf(ctx context.Context, table string) (schema string) {
	_ = s.pool.QueryRow(ctx, `select schemaname from pg_tables where tablename = $1 and schemaname like 'p\_%'`, table).Scan(&schema) // the statement fails without
	return schema
}

// measureContacts times the API's lists of contacts in a workspace of a million contacts.
func measureContacts(ctx context.Context, b *bench) error {
	s, err := b.site(ctx, service.All)
	if err != nil {
		return err
	}
	defer s.Stop()
	b.say(fmt.Sprintf("writing %d contacts", book))
	if err := s.fillContacts(ctx, book); err != nil {
		return err
	}
	if _, err := s.pool.Exec(ctx, "vacuum analyze "+s.schemaOf(ctx, "contact_index")+".contact_index"); err != nil {
		return err
	}
	all := projections.Viewer{Workspace: s.wsp, Shard: s.Ledger.ShardOf(s.org)}
	agent := all
	agent.Agent = uuid.UUID{14: 0, 15: 0x51} // as a number of decimal digits, the 51st
	type list struct {
		what string
		v    projections.Viewer
		by   projections.ContactFilter
	}
	lists := []list{{"all", all, projections.ContactFilter{}}}
	for _, q := range []string{"james", "smith", "example", "łukasz", "company 4", "company 42", "company 4999", "smith 12345", "user7", "zoë jones 100010", "(415) 012-3456", "555-01",
		"012345", "xyzzy", "zzz", "jo", "x", "7", "zq"} {
		lists = append(lists, list{"q=" + q, all, projections.ContactFilter{Q: q}})
	}
	lists = append(lists,
		list{"phone", all, projections.ContactFilter{Phone: "+14150123456"}},
		list{"consent opted_in, a half", all, projections.ContactFilter{ConsentStatus: "opted_in"}}, list{"consent opted_out, 1,000", all, projections.ContactFilter{ConsentStatus: "opted_out"}},
		list{"owner with 13,000", all, projections.ContactFilter{OwnerUserID: "00000000-0000-0000-0000-000000000007"}},
		list{"owner with 50", all, projections.ContactFilter{OwnerUserID: "00000000-0000-0000-0000-000000000051"}},
		list{"line with 100,000", all, projections.ContactFilter{LineID: "ln_3"}}, list{"line with 25", all, projections.ContactFilter{LineID: "ln_rare"}},
		list{"label on a half", all, projections.ContactFilter{Label: "l1"}}, list{"label on 6,666", all, projections.ContactFilter{Label: "l2"}},
		list{"label on 20", all, projections.ContactFilter{Label: "l3"}}, list{"label on the oldest 100,000", all, projections.ContactFilter{Label: "l4"}},
		list{"label on the oldest, q=james", all, projections.ContactFilter{Label: "l4", Q: "james"}},
		list{"label, consent, line and q=james", all, projections.ContactFilter{Label: "l1", ConsentStatus: "opted_in", LineID: "ln_4", Q: "james"}},
		list{"label on 20 and q=james", all, projections.ContactFilter{Label: "l3", Q: "james"}},
		list{"what an agent sees", agent, projections.ContactFilter{}}, list{"what an agent sees, q=smith", agent, projections.ContactFilter{Q: "smith"}},
	)
	for name, definition := range map[string]any{
		"segment: not opted in and plan gold": map[string]any{"all": []any{leaf("consent_status", "ne", "opted_in"), leaf("fields.plan", "eq", "gold")}},
		"segment: wrote within 30 days":       leaf("last_inbound_at", "within_days", 30.0),
		"segment: seats over 498":             leaf("fields.seats", "gt", 498.0),
		"segment: nobody (no index helps)":    leaf("fields.plan", "eq", "none"),
	} {
		made, err := s.App.CreateSegment(ctx, s.request(), name, definition)
		if err != nil {
			return err
		}
		if err := s.Store.WaitForPosition(ctx, made.Shard, made.Position, projections.Segments); err != nil {
			return err
		}
		lists = append(lists, list{name, all, projections.ContactFilter{SegmentID: made.Ref}})
	}
	for _, l := range lists {
		if err := b.timeContacts(ctx, s, l.what, l.v, l.by); err != nil {
			return err
		}
	}
	return b.timeUpkeep(ctx, s, all)
}

func leaf(field, op string, value any) map[string]any {
	return map[string]any{"field": field, "op": op, "value": value}
}

func (b *bench) timeContacts(ctx context.Context, s *site, what string, v projections.Viewer, by projections.ContactFilter) error {
	const times, patience = 40, 4 * time.Second
	var took []time.Duration
	rows := 0
	for begun := time.Now(); len(took) < times && time.Since(begun) < patience; {
		started := time.Now()
		page, err := s.Store.Contacts(ctx, v, by, nil, 50)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		rows = len(page.Rows)
		took = append(took, time.Since(started))
	}
	b.report(Figure{
		Measurement: "contacts", What: fmt.Sprintf("%s: %d rows, p50 %.1f ms, max", what, rows, percentile(took, 0.5)), Value: percentile(took, 1), Unit: "ms", Goal: "under 20 ms",
	})
	return nil
}

// timeUpkeep measures how much the search index slows down writes, and how long counting takes.
func (b *bench) timeUpkeep(ctx context.Context, s *site, v projections.Viewer) error {
	started := time.Now()
	if _, err := s.Store.Labels(ctx, v); err != nil {
		return err
	}
	b.report(Figure{Measurement: "contacts", What: "GET /v1/labels, counts of 600,000 labels on contacts", Value: float64(time.Since(started).Microseconds()) / 1000, Unit: "ms"})
	for _, what := range []string{"counted", "remembered"} {
		started = time.Now()
		if _, err := s.Store.Segments(ctx, v); err != nil {
			return err
		}
		b.report(Figure{Measurement: "contacts", What: "GET /v1/segments, 5 segments over a million contacts, " + what, Value: float64(time.Since(started).Microseconds()) / 1000, Unit: "ms", Goal: "bounded: 1.5 s"})
	}
	const made = 2000
	started = time.Now()
	var last commands.Result
	for n := range made {
		first := "Fresh " + strings.Repeat("x", n%5)
		result, err := s.App.CreateContact(ctx, s.request(), commands.CreateContact{Phone: fmt.Sprintf("+1646%07d", 2000000+n), FirstName: &first, Labels: []string{"l1"}})
		if err != nil {
			return err
		}
		last = result
	}
	if err := s.Store.WaitForPosition(ctx, last.Shard, last.Position, projections.Contacts); err != nil {
		return err
	}
	b.report(Figure{Measurement: "contacts", What: "contacts made one after the other and shown, with a label", Value: made / time.Since(started).Seconds(), Unit: "contacts/s"})
	return nil
}
