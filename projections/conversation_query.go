package projections

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/projections/readmodel"
)

// conversationExpressions gives SQL for the fields that are not columns of conversations. In it v is the conversation
// and c its contact.
var conversationExpressions = map[string]string{
	"contact.id": "c.id", "contact.phone": "c.phone", "contact.first_name": "c.first_name", "contact.last_name": "c.last_name",
	"contact.company":  "c.company",
	"assignee_user_id": "nullif(v.assignee, '" + uuid.Nil.String() + "')::text",
	"team_id":          "nullif(v.team, '" + uuid.Nil.String() + "')::text",
	"labels":           contactLabelsSQL,
	"last_message": `case when v.last_message_id is not null
		then json_build_object('id', v.last_message_id, 'direction', v.last_direction, 'preview', v.last_preview) end`,
	"last_message_at": "case when v.last_message_id is not null then v.active_at end",
}

// listedConversation is a conversation with its sort key.
type listedConversation struct {
	Conversation
	ActiveAt string `json:"-" column:"active_at" format:"date-time"`
}

var (
	conversationFields       = readmodel.Select[Conversation](conversationsTable, "v", conversationExpressions)
	listedConversationFields = readmodel.Select[listedConversation](conversationsTable, "v", conversationExpressions)
)

// ConversationFilter has the filters of the inbox. An empty one does not apply.
type ConversationFilter struct {
	Status    string
	Assignee  *uuid.UUID // uuid.Nil: assigned to nobody
	TeamID    *uuid.UUID
	Label     string
	LineID    string
	ContactID string
	Q         string // part of the contact's name, phone number, e-mail address or company
}

// assignees lists the assignees whose conversations a list shows; uuid.Nil stands for nobody. anyone is true when the
// list shows conversations whatever their assignee. An agent sees its own conversations and those that are assigned to
// nobody (rule ACC-18).
func (v Viewer) assignees(filter *uuid.UUID) (list []uuid.UUID, anyone bool) {
	switch {
	case v.Agent == uuid.Nil && filter == nil:
		return nil, true
	case v.Agent == uuid.Nil:
		return []uuid.UUID{*filter}, false
	}
	list = []uuid.UUID{v.Agent, uuid.Nil}
	if filter == nil {
		return list, false
	}
	return slices.DeleteFunc(list, func(id uuid.UUID) bool { return id != *filter }), false
}

// recentConversations is how many of the newest conversations a text search reads before it asks the search index for
// all matching contacts. A frequent text is found among them; a rare one matches few contacts.
const recentConversations = 2000

// inboxQuery builds the statement of a list. In the inner selects the conversation is x; selectSQL selects from them as
// v.
type inboxQuery struct {
	f         *readmodel.Filter
	by        *ConversationFilter
	v         Viewer
	assignees []uuid.UUID
	anyone    bool // conversations of any assignee are listed
	label     *uuid.UUID
	after     *readmodel.Cursor
}

// newInboxQuery reads the id of the label in the filter, and adds the conditions that all statements share. It returns
// nil when no conversation can match.
func (s *Store) newInboxQuery(ctx context.Context, v Viewer, by *ConversationFilter, after *readmodel.Cursor) (*inboxQuery, error) {
	q := &inboxQuery{f: &readmodel.Filter{}, by: by, v: v, after: after}
	if q.assignees, q.anyone = v.assignees(by.Assignee); !q.anyone && len(q.assignees) == 0 {
		return nil, nil //nolint:nilnil // an empty list is no error
	}
	if by.Label != "" {
		label, found, err := s.labelNamed(ctx, v, by.Label)
		if err != nil || !found {
			return nil, err
		}
		q.label = &label
	}
	q.f.Add("x.workspace_id = %s", v.Workspace)
	if by.TeamID != nil {
		q.f.Add("x.team = %s", *by.TeamID)
	}
	q.f.Equal("x.line_id", by.LineID)
	q.f.Equal("x.contact_id", by.ContactID)
	return q, nil
}

// newestSQL selects the newest conversations that meet further conditions. It sorts by the columns of one table,
// sorted, so that one index gives the order.
func (q *inboxQuery) newestSQL(limitArg string, conditions ...string) string {
	from, sorted := "read.conversations x", "x"
	if q.label != nil {
		from, sorted = "read.labelled_conversations l join read.conversations x on x.contact_id = l.contact_id", "l"
		conditions = append(conditions, "l.label_id = "+q.f.Arg(*q.label))
	}
	if q.after != nil {
		conditions = append(conditions, fmt.Sprintf("(%[1]s.active_at, %[1]s.id) < (%[2]s::timestamptz, %[3]s)", sorted, q.f.Arg(q.after.At), q.f.Arg(q.after.ID)))
	}
	return fmt.Sprintf("(select x.* from %s%s order by %[3]s.active_at desc, %[3]s.id desc limit %[4]s)", from, q.f.Where(conditions...), sorted, limitArg)
}

// filteredSQL selects the newest conversations of every status and every assignee that the list shows. The list merges
// them. Each part reads one index in its order, so that a rare status or assignee among a million conversations is
// found as fast as a frequent one.
func (q *inboxQuery) filteredSQL(limitArg string) string {
	statuses := []string{q.by.Status}
	if q.by.Status == "" && (!q.anyone || q.by.TeamID != nil || q.by.LineID != "" || q.label != nil) {
		statuses = []string{"open", "snoozed", "closed"}
	}
	var parts []string
	for _, status := range statuses {
		var conditions []string
		switch {
		case status == "":
		case q.label != nil: // on l alone: with a second condition on x the planner would estimate too few rows
			conditions = append(conditions, "l.status = "+q.f.Arg(status))
		default:
			conditions = append(conditions, "x.status = "+q.f.Arg(status))
		}
		if q.anyone {
			parts = append(parts, q.newestSQL(limitArg, conditions...))
		}
		for _, assignee := range q.assignees {
			parts = append(parts, q.newestSQL(limitArg, append(slices.Clip(conditions), "x.assignee = "+q.f.Arg(assignee))...))
		}
	}
	return strings.Join(parts, " union all ")
}

// listSQL is the list without a text search.
func (q *inboxQuery) listSQL(limit int) string {
	return q.selectSQL(q.filteredSQL(q.f.Arg(limit+1)), limit)
}

// searchRecentSQL searches the text in the contacts of the newest conversations only.
func (q *inboxQuery) searchRecentSQL(limit int) string {
	count := q.f.Arg(recentConversations)
	newest := `select * from (` + q.filteredSQL(count) + `) n order by n.active_at desc, n.id desc limit ` + count
	match, _ := searchSQL(q.f, q.by.Q)
	return q.selectSQL(`select n.* from (`+newest+`) n join read.contact_index i on i.contact_id = n.contact_id where `+match, limit)
}

// byContactSQL finds the contacts first and then their conversations.
func (q *inboxQuery) byContactSQL(limit int) string {
	q.f.Equal("x.status", q.by.Status)
	if !q.anyone {
		q.f.Add("x.assignee = any(%s)", q.assignees)
	}
	if q.by.Q != "" {
		match, _ := searchSQL(q.f, q.by.Q)
		q.f.Add(`x.contact_id in (select i.contact_id from read.contact_index i where i.workspace_id = %s and `+match+`)`, q.v.Workspace)
	}
	return q.selectSQL(q.newestSQL(q.f.Arg(limit+1)), limit)
}

// selectSQL selects the newest of the conversations that a statement returns, with all that the API shows.
func (q *inboxQuery) selectSQL(conversations string, limit int) string {
	return `select ` + listedConversationFields.SQL + ` from (` + conversations + `) v join read.contacts c on c.id = v.contact_id
		order by v.active_at desc, v.id desc limit ` + q.f.Arg(limit+1)
}

// Conversations lists conversations, most recent activity first.
func (s *Store) Conversations(ctx context.Context, v Viewer, by ConversationFilter, after *readmodel.Cursor, limit int) (readmodel.Page[Conversation], error) {
	by.Q = strings.TrimSpace(by.Q)
	query := func(statement func(q *inboxQuery, limit int) string) ([]listedConversation, error) {
		q, err := s.newInboxQuery(ctx, v, &by, after)
		if err != nil || q == nil {
			return nil, err
		}
		sql := statement(q, limit)
		// This mode plans every execution for its arguments: a shared plan would be bad for most labels and assignees.
		args := append([]any{pgx.QueryExecModeCacheDescribe}, q.f.Args...)
		return readmodel.List(ctx, s.Reader, "conversations", listedConversationFields.Scan, sql, args...)
	}
	var found []listedConversation
	var err error
	switch {
	case by.ContactID != "":
		found, err = query((*inboxQuery).byContactSQL)
	case by.Q != "":
		found, err = query((*inboxQuery).searchRecentSQL)
		if err == nil && len(found) <= limit { // older conversations may match
			found, err = query((*inboxQuery).byContactSQL)
		}
	default:
		found, err = query((*inboxQuery).listSQL)
	}
	if err != nil {
		return readmodel.Page[Conversation]{}, err
	}
	listed := readmodel.PageOf(found, limit, func(c *listedConversation) readmodel.Cursor { return readmodel.Cursor{At: c.ActiveAt, ID: c.ID} })
	conversations := readmodel.Page[Conversation]{Rows: make([]Conversation, len(listed.Rows)), Next: listed.Next}
	for i := range listed.Rows {
		conversations.Rows[i] = listed.Rows[i].Conversation
	}
	return conversations, nil
}

var conversationSQL = `select ` + conversationFields.SQL + ` from read.conversations v join read.contacts c on c.id = v.contact_id`

// Conversation finds a conversation that the viewer may see; found is false when there is none.
func (s *Store) Conversation(ctx context.Context, v Viewer, id string) (c Conversation, found bool, err error) {
	f := &readmodel.Filter{}
	f.Add("v.workspace_id = %s", v.Workspace)
	f.Add("v.id = %s", id)
	if v.Agent != uuid.Nil {
		f.Add("v.assignee in (%s, '"+uuid.Nil.String()+"')", v.Agent)
	}
	return readmodel.One(ctx, s.Reader, "conversation", conversationFields.Scan, conversationSQL+f.Where(), f.Args...)
}

// ConversationsByID finds conversations of any workspace in no order; ids that do not exist are left out.
func (s *Store) ConversationsByID(ctx context.Context, ids []string) ([]Conversation, error) {
	return readmodel.List(ctx, s.Reader, "conversations by id", conversationFields.Scan, conversationSQL+` where v.id = any($1)`, ids)
}

const assignedSQL = `select v.id from read.conversations v where v.workspace_id = $1 and v.assignee = $2 limit $3`

// AssignedTo finds at most limit conversations of a workspace that are assigned to a user, whatever their status, in no
// order.
func (s *Store) AssignedTo(ctx context.Context, workspace, user uuid.UUID, limit int) ([]string, error) {
	return readmodel.List(ctx, s.Reader, "assigned conversations", pgx.RowTo[string], assignedSQL, workspace, user, limit)
}

const unreadSQL = `select unread_count from read.conversations where id = $1 and workspace_id = $2`

// Unread is the unread_count of a conversation; 0 when there is no such conversation.
func (s *Store) Unread(ctx context.Context, v Viewer, id string) (int, error) {
	count, _, err := readmodel.One(ctx, s.Reader, "unread count", pgx.RowTo[int], unreadSQL, id, v.Workspace)
	return count, err
}
