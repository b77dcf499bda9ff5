package projections

import (
	"strconv"
	"strings"

	"ledgerline/projections/readmodel"
)

// The list of contacts has many filters. Each may match few or many contacts, among the newest or the oldest. One index
// serves them all: contact_index has, for each contact, all values that a filter can compare as tags, and the text that
// q searches. A GIN index intersects tags and trigrams, but returns rows in no order. So the contacts of a workspace
// are numbered in the order of the ledger, each bucketSize of them are a bucket, and each contact has a tag for its
// bucket. A list queries one bucket after the other, newest first, until the page is full. A query of a bucket costs
// what the rarest of its terms has there, so a list costs at most a small sum for each bucket, whatever the filters
// match.
//
// Triggers maintain the table, because an event that changes one name does not have the other names. A row is written
// only when it changes, so not with every message.

// bucketSize is how many contacts a bucket has: a million contacts are 42 buckets. Smaller buckets mean more queries
// for rare matches, larger ones more rows to sort for frequent matches.
const bucketSize = 24_000

var contactIndexTable = &readmodel.Table{Name: "contact_index", Key: []string{"contact_id"}, Columns: []readmodel.Column{
	{Name: "contact_id", Type: `text collate "C" not null`},
	{Name: "workspace_id", Type: "uuid not null"},
	{Name: "position", Type: "bigint not null"},
	{Name: "bucket", Type: "integer not null"},
	{Name: "tags", Type: `text[] collate "C" not null`},
	{Name: "search", Type: `text collate "C" not null`},
}}

// contact_totals counts, by workspace, the contacts that were ever added, and the changes of contacts.
var contactTotalsTable = &readmodel.Table{Name: "contact_totals", Key: []string{"workspace_id"}, Columns: []readmodel.Column{
	{Name: "workspace_id", Type: "uuid not null"},
	{Name: "added", Type: "bigint not null"},
	{Name: "changes", Type: "bigint not null"},
}}

// label_counts has the number of contacts with a label. The row of a deleted label stays and is not read.
var labelCountsTable = &readmodel.Table{Name: "label_counts", Key: []string{"label_id"}, Columns: []readmodel.Column{
	{Name: "label_id", Type: "uuid not null"},
	{Name: "contacts", Type: "bigint not null"},
}}

// Prefixes of tags. The value follows the colon.
const (
	tagBucket  = "b:" // workspace, colon, number
	tagConsent = "c:"
	tagOwner   = "o:"
	tagLine    = "l:"
	tagLabel   = "L:"
	tagSeenBy  = "v:" // an agent that may see the contact; empty when all agents may
	tagField   = "f:" // a custom field that is a short text: key, equals sign, folded value
)

// longestFieldTag is the longest key, and the longest value, in characters, of a custom field that has a tag.
const longestFieldTag = 100

// indexedColumns are the columns of contacts that tags and search are made from.
var indexedColumns = append([]string{
	"consent_status", "owner_user_id", "assigned_line_id", "has_conversation", "conversation_assignee", "phone", "folded_fields",
}, contactTextColumns("")...)

// contactTextColumns lists the folded columns, each with a prefix.
func contactTextColumns(prefix string) []string {
	columns := make([]string, len(searchedColumns))
	for i, name := range searchedColumns {
		columns[i] = prefix + foldedPrefix + name
	}
	return columns
}

const (
	// contactTagsSQL is the tags of contact c, without the tag of its bucket.
	contactTagsSQL = `array_remove(array['c:' || c.consent_status, 'o:' || c.owner_user_id, 'l:' || c.assigned_line_id, 'v:' || c.owner_user_id,
		case when c.has_conversation then 'v:' || coalesce(c.conversation_assignee::text, '') when c.owner_user_id is null then 'v:' end], null)
		|| coalesce((select array_agg('L:' || cl.label_id) from @contact_labels cl where cl.contact_id = c.id), '{}')
		|| coalesce((select array_agg('f:' || f.key || '=' || (f.value #>> '{}')) from jsonb_each(c.folded_fields) f
			where jsonb_typeof(f.value) = 'string' and char_length(f.key) <= LONGEST and char_length(f.value #>> '{}') <= LONGEST), '{}')`
	contactInsertedSQL = `create function @contacts_inserted() returns trigger language plpgsql as $fn$ begin
		insert into @contact_totals as t (workspace_id, added, changes)
			select workspace_id, count(*), 1 from new_contacts group by workspace_id
			on conflict (workspace_id) do update set added = t.added + excluded.added, changes = t.changes + 1;
		insert into @contact_index (contact_id, workspace_id, position, bucket, tags, search)
			select c.id, c.workspace_id, c.position, n.bucket, ` + contactTagsSQL + ` || ('b:' || c.workspace_id || ':' || n.bucket), SEARCH
			from (select a.id, (t.added - row_number() over (partition by a.workspace_id order by a.position desc)) / BUCKET as bucket
				from new_contacts a join @contact_totals t on t.workspace_id = a.workspace_id) n
			join @contacts c on c.id = n.id
			order by c.position
			on conflict (contact_id) do nothing;
		return null;
	end $fn$`

	contactRefreshSQL = `create function @contacts_refresh(ids text[]) returns void language plpgsql as $fn$ begin
		update @contact_index i set tags = f.tags, search = f.search
			from (select c.id, ` + contactTagsSQL + ` || ('b:' || o.workspace_id || ':' || o.bucket) as tags, SEARCH as search
				from unnest(ids) u (id) join @contacts c on c.id = u.id join @contact_index o on o.contact_id = c.id) f
			where i.contact_id = f.id and (i.tags, i.search) is distinct from (f.tags, f.search);
	end $fn$`

	contactUpdatedSQL = `create function @contacts_updated() returns trigger language plpgsql as $fn$ begin
		update @contact_totals t set changes = changes + 1 where workspace_id in (select workspace_id from new_rows);
		perform @contacts_refresh((select array_agg(n.id) from new_rows n join old_rows o on o.id = n.id
			where (NEW_INDEXED) is distinct from (OLD_INDEXED)));
		return null;
	end $fn$`

	contactDeletedSQL = `create function @contacts_deleted() returns trigger language plpgsql as $fn$ begin
		delete from @contact_index where contact_id in (select id from old_rows);
		update @contact_totals t set changes = changes + 1 where workspace_id in (select workspace_id from old_rows);
		return null;
	end $fn$`

	// Contacts lose a deleted label without a change of their rows.
	labelsDeletedSQL = `create function @labels_deleted() returns trigger language plpgsql as $fn$ begin
		update @contact_totals t set changes = changes + 1 where workspace_id in (select workspace_id from old_rows);
		return null;
	end $fn$`

	// Two functions: SUFFIX is inserted or deleted, SIGN is empty or a minus.
	contactLabelledSQL = `create function @contact_labels_SUFFIX() returns trigger language plpgsql as $fn$ begin
		insert into @label_counts as l (label_id, contacts) select label_id, SIGN count(*) from changed group by label_id order by label_id
			on conflict (label_id) do update set contacts = l.contacts + excluded.contacts;
		update @contact_totals t set changes = changes + 1
			where workspace_id in (select i.workspace_id from changed r join @contact_index i on i.contact_id = r.contact_id);
		perform @contacts_refresh((select array_agg(distinct contact_id) from changed));
		return null;
	end $fn$`
)

// contactTriggers creates the triggers; @ stands for the schema.
func contactTriggers() []string {
	columns := func(row string) string {
		return row + "." + strings.Join(indexedColumns, ", "+row+".")
	}
	fill := strings.NewReplacer(
		"BUCKET", strconv.Itoa(bucketSize), "LONGEST", strconv.Itoa(longestFieldTag), "NEW_INDEXED", columns("n"), "OLD_INDEXED", columns("o"),
		"SEARCH", "concat_ws(' ', "+strings.Join(contactTextColumns("c."), ", ")+", c.phone)")
	labelled := func(suffix, sign string) string {
		return strings.NewReplacer("SUFFIX", suffix, "SIGN", sign).Replace(contactLabelledSQL)
	}
	return []string{
		fill.Replace(contactInsertedSQL), fill.Replace(contactRefreshSQL), fill.Replace(contactUpdatedSQL), contactDeletedSQL, labelsDeletedSQL,
		labelled("inserted", ""), labelled("deleted", "-"),
		`create trigger inserted after insert on @contacts referencing new table as new_contacts for each statement execute function @contacts_inserted()`,
		`create trigger updated after update on @contacts referencing old table as old_rows new table as new_rows for each statement execute function @contacts_updated()`,
		`create trigger deleted after delete on @contacts referencing old table as old_rows for each statement execute function @contacts_deleted()`,
		`create trigger deleted after delete on @labels referencing old table as old_rows for each statement execute function @labels_deleted()`,
		`create trigger inserted after insert on @contact_labels referencing new table as changed for each statement execute function @contact_labels_inserted()`,
		`create trigger deleted after delete on @contact_labels referencing old table as changed for each statement execute function @contact_labels_deleted()`,
	}
}
