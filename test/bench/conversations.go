package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"ledgerline/projections"
	"ledgerline/projections/readmodel"
	"ledgerline/service"
)

// inbox is the number of conversations in the workspace.
const inbox = 1_000_000

// measureConversations times the API's lists of conversations in a workspace of a million conversations.
func measureConversations(ctx context.Context, b *bench) error {
	s, err := b.site(ctx, service.All)
	if err != nil {
		return err
	}
	defer s.Stop()
	b.say(fmt.Sprintf("filling an inbox of %d", inbox))
	if err := s.fillInbox(ctx, inbox); err != nil {
		return err
	}
	person := func(n int) *uuid.UUID { id := personID(n); return &id }
	all := projections.Viewer{Workspace: s.wsp, Shard: s.Ledger.ShardOf(s.org)}
	agent := all
	agent.Agent = personID(51)
	first, err := s.Store.Conversations(ctx, all, projections.ConversationFilter{}, nil, 100)
	if err != nil {
		return err
	}
	deep := first.Next
	for range 50 {
		next, err := s.Store.Conversations(ctx, all, projections.ConversationFilter{}, deep, 100)
		if err != nil {
			return err
		}
		deep = next.Next
	}
	for _, list := range []struct {
		what  string
		v     projections.Viewer
		by    projections.ConversationFilter
		after *readmodel.Cursor
	}{
		{"all", all, projections.ConversationFilter{}, nil},
		{"all, the page after 5,000", all, projections.ConversationFilter{}, deep},
		{"open", all, projections.ConversationFilter{Status: "open"}, nil},
		{"snoozed", all, projections.ConversationFilter{Status: "snoozed"}, nil},
		{"assigned to somebody", all, projections.ConversationFilter{Assignee: person(1)}, nil},
		{"assigned to somebody, open", all, projections.ConversationFilter{Assignee: person(1), Status: "open"}, nil},
		{"assigned to somebody with 100", all, projections.ConversationFilter{Assignee: person(51)}, nil},
		{"assigned to a stranger", all, projections.ConversationFilter{Assignee: person(99)}, nil},
		{"unassigned", all, projections.ConversationFilter{Assignee: person(0)}, nil},
		{"what an agent sees", agent, projections.ConversationFilter{}, nil},
		{"what an agent sees, open", agent, projections.ConversationFilter{Status: "open"}, nil},
		{"of a team", all, projections.ConversationFilter{TeamID: person(3)}, nil},
		{"of a team and somebody, open", all, projections.ConversationFilter{TeamID: person(3), Assignee: person(1), Status: "open"}, nil},
		{"of a line", all, projections.ConversationFilter{LineID: "ln_3"}, nil},
		{"of a line, snoozed", all, projections.ConversationFilter{LineID: "ln_3", Status: "snoozed"}, nil},
		{"with a label on 333,333", all, projections.ConversationFilter{Label: "common"}, nil},
		{"with a label on 7,000", all, projections.ConversationFilter{Label: "middle"}, nil},
		{"with a label on 7,000, open", all, projections.ConversationFilter{Label: "middle", Status: "open"}, nil},
		{"with a label on 333,333, snoozed", all, projections.ConversationFilter{Label: "common", Status: "snoozed"}, nil},
		{"with a label on 7,000, what an agent sees", agent, projections.ConversationFilter{Label: "middle"}, nil},
		{"with a label on 20", all, projections.ConversationFilter{Label: "rare"}, nil},
		{"of a contact", all, projections.ConversationFilter{ContactID: contactID(77)}, nil},
		{"searched, found often", all, projections.ConversationFilter{Q: "ann"}, nil},
		{"searched, found often, open, what an agent sees", agent, projections.ConversationFilter{Q: "ann", Status: "open"}, nil},
		{"searched, found 200 times", all, projections.ConversationFilter{Q: "company 4321"}, nil},
		{"searched, found once", all, projections.ConversationFilter{Q: "p77777@"}, nil},
		{"searched, found by nobody", all, projections.ConversationFilter{Q: "nobody at all"}, nil},
	} {
		var took []time.Duration
		rows := 0
		for range 100 {
			started := time.Now()
			page, err := s.Store.Conversations(ctx, list.v, list.by, list.after, 50)
			if err != nil {
				return err
			}
			rows = len(page.Rows)
			took = append(took, time.Since(started))
		}
		b.report(Figure{
			Measurement: "inbox", What: fmt.Sprintf("%s: %d rows, p50 %.1f ms, p95", list.what, rows, percentile(took, 0.5)), Value: percentile(took, 0.95), Unit: "ms", Goal: "under 20 ms",
		})
	}
	return nil
}

// personID is 0 for nobody.
func personID(n int) uuid.UUID {
	var id uuid.UUID
	id[14], id[15] = byte(n>>8), byte(n)
	return id
}

func contactID(n int) string { return fmt.Sprintf("ctc_%026d", n) }

// fillInbox writes the rows of the read models directly, because only reading is measured. Of 100 conversations 94 are
// closed, 5 open and one snoozed. A fifth is unassigned, the rest is assigned to 50 users. One more user has 100 of the
// million conversations, spread evenly.
func (s *site) fillInbox(ctx context.Context, count int) error {
	const person = `('00000000-0000-0000-0000-' || lpad(to_hex(%s), 12, '0'))::uuid`
	statements := []string{
		`insert into read.labels (id, workspace_id, name, folded_name, created_at)
			select ` + fmt.Sprintf(person, "n") + `, '` + s.wsp.String() + `', (array['common','middle','rare'])[n], (array['common','middle','rare'])[n], now() from generate_series(1, 3) n`,
		`insert into read.contact_labels (contact_id, label_id)
			select 'ctc_' || lpad(n::text, 26, '0'), ` + fmt.Sprintf(person, "l") + `
			from generate_series(1, ` + fmt.Sprint(count) + `) n, (values (1, 3), (2, 143), (3, 50000)) labels (l, each) where n % each = 0`,
		`insert into read.contacts (id, workspace_id, position, number_hash, phone, first_name, last_name, company, email, fields, consent_status, has_conversation, created_at, updated_at,
				folded_first_name, folded_last_name, folded_company, folded_email, folded_fields, instants)
			select 'ctc_' || lpad(n::text, 26, '0'), '` + s.wsp.String() + `', 2000000 - n, 'h' || n, '+1415' || lpad(n::text, 7, '0'),
				(array['Ann','Bea','Cat','Dan','Eve','Flo','Gus','Hal','Ian','Joe'])[1 + n % 10], left(md5(n::text), 8), 'Company ' || n % 5000, 'p' || n || '@example.com',
				'{}', 'unknown', true, now() - n * '1 s'::interval, now(),
				(array['ann','bea','cat','dan','eve','flo','gus','hal','ian','joe'])[1 + n % 10], left(md5(n::text), 8), 'company ' || n % 5000, 'p' || n || '@example.com', '{}', '{}'
			from generate_series(1, ` + fmt.Sprint(count) + `) n`,
		`insert into read.conversations (id, workspace_id, contact_id, status, assignee, team, handled_by, line_id, last_message_id, last_direction, last_preview, active_at, unread_count, created_at, updated_at)
			select 'cnv_' || lpad(n::text, 26, '0'), '` + s.wsp.String() + `', 'ctc_' || lpad(n::text, 26, '0'),
				case when n % 100 < 94 then 'closed' when n % 100 < 99 then 'open' else 'snoozed' end,
				` + fmt.Sprintf(person, "case when n % 10000 = 7 then 51 when n % 5 = 0 then 0 else 1 + (n / 7) % 50 end") + `,
				` + fmt.Sprintf(person, "(n / 3) % 9") + `, 'team', 'ln_' || n % 10, 'msg_' || n, 'inbound', 'A message of some length, as people write them ' || n,
				now() - ((n::bigint * 7919) % 31536000) * '1 s'::interval, n % 3, now(), now()
			from generate_series(1, ` + fmt.Sprint(count) + `) n`,
		`insert into read.labelled_conversations (contact_id, label_id, id, status, active_at)
			select v.contact_id, l.label_id, v.id, v.status, v.active_at from read.contact_labels l join read.conversations v on v.contact_id = l.contact_id`,
	}
	if err := s.bulk(ctx, statements...); err != nil {
		return err
	}
	for _, table := range []string{"contacts", "contact_index", "labels", "contact_labels", "conversations", "labelled_conversations"} {
		var of string
		if err := s.pool.QueryRow(ctx, `select schemaname || '.' || tablename from pg_tables where tablename = $1 and schemaname like 'p\_%'`, table).Scan(&of); err != nil {
			return err
		}
		if _, err := s.pool.Exec(ctx, "vacuum analyze "+of); err != nil {
			return err
		}
	}
	return nil
}
