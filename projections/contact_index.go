package projections

import (
	"ledgerline/projections/readmodel"
	"strconv"
	"strings"
)

// The list of contacts has many filters, and any of them may be rare or common, near the beginning or far down. One index
// serves them all: contact_index says, for each contact, everything that a filter can ask as tags, next to the text that q
// searches. A GIN index intersects tags and trigrams, but gives rows in no order; so every contact also has a tag for its
// place: contacts are numbered by workspace in the order of the ledger, and bucketSize of them in a row are one bucket. A list
// asks one bucket after the other, newest first, until it is full. Each question costs what the rarest of its terms has in
// that bucket, so that a list costs at most a fixed small sum for each bucket, whatever the filters find.
//
// The table is kept by triggers, and not by the projection's own statements, because a change of one name needs the other
// names, which the event does not have. It changes only when something in it does: that a contact wrote is not among it.

// bucketSize is how many contacts one question of a list covers: a million are 42 questions. Smaller buckets would be more
// questions for what is rare, larger ones more rows to sort for what is common.
const bucketSize = 24_000

var contactIndexTable = &readmodel.Table{Name: "contact_index", Key: []string{"contact_id"}, Columns: []readmodel.Column{
	{Name: "contact_id", Type: `text collate "C" not null`},
	{Name: "workspace_id", Type: "uuid not null"},
	{Name: "position", Type: "bigint not null"},
	{Name: "bucket", Type: "integer not null"},
	{Name: "tags", Type: `text[] collate "C" not null`},
	{Name: "search", Type: `text collate "C" not null`},
}}

// contact_places counts, by workspace, the contacts that were ever placed, and how often contacts have changed.
var contactPlacesTable = &readmodel.Table{Name: "contact_places", Key: []string{"workspace_id"}, Columns: []readmodel.Column{
	{Name: "workspace_id", Type: "uuid not null"},
	{Name: "placed", Type: "bigint not null"},
	{Name: "changes", Type: "bigint not null"},
}}

// label_counts says how many contacts have a label. The row of a deleted label stays and means nothing.
var labelCountsTable = &readmodel.Table{Name: "label_counts", Key: []string{"label_id"}, Columns: []readmodel.Column{
	{Name: "label_id", Type: "uuid not null"},
	{Name: "contacts", Type: "bigint not null"},
}}

// The kinds of tags; what follows the colon is the value.
const (
	tagBucket  = "b:" // workspace, colon, number
	tagConsent = "c:"
	tagOwner   = "o:"
	tagLine    = "l:"
	tagLabel   = "L:"
	tagSeenBy  = "v:" // the agent that may see the contact; nobody's name when all may
	tagField   = "f:" // a custom field that is a short text: key, equals sign, folded value
)

// longestFieldTag is the longest key, and the longest value, of a custom field that makes a tag, in characters.
const longestFieldTag = 100

const (
	// contactTagsSQL are the tags of contact c but for its place.
	contactTagsSQL = `array_remove(array['c:' || c.consent_status, 'o:' || c.owner_user_id, 'l:' || c.assigned_line_id, 'v:' || c.owner_user_id,
		case when c.has_conversation then 'v:' || coalesce(c.conversation_assignee::text, '') when c.owner_user_id is null then 'v:' end], null)
		|| coalesce((select array_agg('L:' || cl.label_id) from @contact_labels cl where cl.contact_id = c.id), '{}')
		|| coalesce((select array_agg('f:' || f.key || '=' || (f.value #>> '{}')) from jsonb_each(c.folded_fields) f
			where jsonb_typeof(f.value) = 'string' and char_length(f.key) <= LONGEST and char_length(f.value #>> '{}') <= LONGEST), '{}')`
	contactSearchSQL = `concat_ws(' ', c.folded_first_name, c.folded_last_name, c.folded_company, c.folded_email, c.phone)`

	contactInsertedSQL = `create function @contacts_inserted() returns trigger language plpgsql as $fn$ begin
		insert into @contact_places as p (workspace_id, placed, changes)
			select workspace_id, count(*), 1 from added group by workspace_id
			on conflict (workspace_id) do update set placed = p.placed + excluded.placed, changes = p.changes + 1;
		insert into @contact_index (contact_id, workspace_id, position, bucket, tags, search)
			select c.id, c.workspace_id, c.position, n.bucket, ` + contactTagsSQL + ` || ('b:' || c.workspace_id || ':' || n.bucket), ` + contactSearchSQL + `
			from (select a.id, (p.placed - row_number() over (partition by a.workspace_id order by a.position desc)) / BUCKET as bucket
				from added a join @contact_places p on p.workspace_id = a.workspace_id) n
			join @contacts c on c.id = n.id
			order by c.position
			on conflict (contact_id) do nothing;
		return null;
	end $fn$`

	contactRefreshSQL = `create function @contacts_refresh(ids text[]) returns void language plpgsql as $fn$ begin
		update @contact_index i set tags = f.tags, search = f.search
			from (select c.id, ` + contactTagsSQL + ` || ('b:' || o.workspace_id || ':' || o.bucket) as tags, ` + contactSearchSQL + ` as search
				from unnest(ids) u (id) join @contacts c on c.id = u.id join @contact_index o on o.contact_id = c.id) f
			where i.contact_id = f.id and (i.tags, i.search) is distinct from (f.tags, f.search);
	end $fn$`

	contactUpdatedSQL = `create function @contacts_updated() returns trigger language plpgsql as $fn$ begin
		update @contact_places p set changes = changes + 1 where workspace_id in (select workspace_id from now);
		perform @contacts_refresh((select array_agg(n.id) from now n join before b on b.id = n.id
			where (n.consent_status, n.owner_user_id, n.assigned_line_id, n.has_conversation, n.conversation_assignee, n.folded_first_name,
					n.folded_last_name, n.folded_company, n.folded_email, n.phone, n.folded_fields) is distinct from
				(b.consent_status, b.owner_user_id, b.assigned_line_id, b.has_conversation, b.conversation_assignee, b.folded_first_name,
					b.folded_last_name, b.folded_company, b.folded_email, b.phone, b.folded_fields)));
		return null;
	end $fn$`

	contactDeletedSQL = `create function @contacts_deleted() returns trigger language plpgsql as $fn$ begin
		delete from @contact_index where contact_id in (select id from gone);
		update @contact_places p set changes = changes + 1 where workspace_id in (select workspace_id from gone);
		return null;
	end $fn$`

	// A deleted label is on nobody any more, without a change to anybody's row.
	labelsDeletedSQL = `create function @labels_deleted() returns trigger language plpgsql as $fn$ begin
		update @contact_places p set changes = changes + 1 where workspace_id in (select workspace_id from gone);
		return null;
	end $fn$`

	// Of both functions on labels: the table of changes is called rows.
	contactLabelledSQL = `create function @contact_labels_SUFFIX() returns trigger language plpgsql as $fn$ begin
		insert into @label_counts as l (label_id, contacts) select label_id, SIGN count(*) from rows group by label_id order by label_id
			on conflict (label_id) do update set contacts = l.contacts + excluded.contacts;
		update @contact_places p set changes = changes + 1
			where workspace_id in (select i.workspace_id from rows r join @contact_index i on i.contact_id = r.contact_id);
		perform @contacts_refresh((select array_agg(distinct contact_id) from rows));
		return null;
	end $fn$`
)

// contactTriggers are made with the tables; @ stands for their schema.
func contactTriggers() []string {
	labelled := func(suffix, sign string) string {
		return strings.NewReplacer("SUFFIX", suffix, "SIGN", sign).Replace(contactLabelledSQL)
	}
	sized := strings.NewReplacer("BUCKET", strconv.Itoa(bucketSize), "LONGEST", strconv.Itoa(longestFieldTag))
	return []string{
		sized.Replace(contactInsertedSQL), sized.Replace(contactRefreshSQL), contactUpdatedSQL, contactDeletedSQL, labelsDeletedSQL,
		labelled("inserted", ""), labelled("deleted", "-"),
		`create trigger inserted after insert on @contacts referencing new table as added for each statement execute function @contacts_inserted()`,
		`create trigger updated after update on @contacts referencing old table as before new table as now for each statement execute function @contacts_updated()`,
		`create trigger deleted after delete on @contacts referencing old table as gone for each statement execute function @contacts_deleted()`,
		`create trigger deleted after delete on @labels referencing old table as gone for each statement execute function @labels_deleted()`,
		`create trigger inserted after insert on @contact_labels referencing new table as rows for each statement execute function @contact_labels_inserted()`,
		`create trigger deleted after delete on @contact_labels referencing old table as rows for each statement execute function @contact_labels_deleted()`,
	}
}
