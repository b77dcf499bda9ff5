package projections

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"ledgerline/projections/readmodel"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// ConversationContact is what a conversation shows of its contact.
type ConversationContact struct {
	ID        string  `json:"id" doc:"ctc_ id"`
	Phone     string  `json:"phone" doc:"E.164"`
	FirstName *string `json:"first_name"`
	LastName  *string `json:"last_name"`
	Company   *string `json:"company"`
}

// LastMessage is what a conversation shows of its newest message.
type LastMessage struct {
	Direction string `json:"direction" enum:"outbound,inbound"`
	ID        string `json:"id" doc:"msg_ id"`
	Preview   string `json:"preview" maxLength:"200" doc:"The beginning of the text, or the name of an attachment"`
}

// Conversation is a conversation as the API lists it (interface 2.5).
type Conversation struct {
	ID             string              `json:"id" doc:"cnv_ id"`
	Contact        ConversationContact `json:"contact"`
	Status         string              `json:"status" enum:"open,snoozed,closed"`
	SnoozedUntil   *string             `json:"snoozed_until" format:"date-time"`
	AssigneeUserID *string             `json:"assignee_user_id" format:"uuid"`
	TeamID         *string             `json:"team_id" format:"uuid"`
	HandledBy      string              `json:"handled_by" doc:"team, agent:<agent id> or workflow:<run id>"`
	Labels         []string            `json:"labels" nullable:"false" doc:"The contact's labels"`
	LineID         *string             `json:"line_id" doc:"ln_ id of the line that was written on last"`
	LastMessage    *LastMessage        `json:"last_message"`
	LastMessageAt  *string             `json:"last_message_at" format:"date-time"`
	UnreadCount    int                 `json:"unread_count" minimum:"0" doc:"Messages that came in since a person of the team read or answered"`
	CreatedAt      string              `json:"created_at" format:"date-time"`
	UpdatedAt      string              `json:"updated_at" format:"date-time"`

	activeAt time.Time
}

const conversationColumns = `v.id, c.id, c.phone, c.first_name, c.last_name, c.company, v.status, v.snoozed_until, v.assignee, v.team, v.handled_by,
	array(select l.name from read.contact_labels cl join read.labels l on l.id = cl.label_id where cl.contact_id = c.id order by l.folded_name),
	v.line_id, v.last_message_id, v.last_direction, v.last_preview, v.active_at, v.unread_count, v.created_at, v.updated_at`

func scanConversation(row pgx.CollectableRow) (Conversation, error) {
	var c Conversation
	var snoozed *time.Time
	var created, updated time.Time
	var assignee, team uuid.UUID
	var id, direction, preview *string
	err := row.Scan(&c.ID, &c.Contact.ID, &c.Contact.Phone, &c.Contact.FirstName, &c.Contact.LastName, &c.Contact.Company, &c.Status, &snoozed,
		&assignee, &team, &c.HandledBy, &c.Labels, &c.LineID, &id, &direction, &preview, &c.activeAt, &c.UnreadCount, &created, &updated)
	c.SnoozedUntil, c.AssigneeUserID, c.TeamID = readmodel.StampOrNull(snoozed), readmodel.ZeroToNil(assignee), readmodel.ZeroToNil(team)
	c.CreatedAt, c.UpdatedAt = readmodel.Stamp(created), readmodel.Stamp(updated)
	if id != nil && direction != nil && preview != nil {
		c.LastMessage, c.LastMessageAt = &LastMessage{ID: *id, Direction: *direction, Preview: *preview}, readmodel.StampOrNull(&c.activeAt)
	}
	return c, err
}

// ConversationFilter are the filters of the inbox (interface 4.3); empty ones do not filter.
type ConversationFilter struct {
	Status    string
	Assignee  *uuid.UUID // uuid.Nil: assigned to nobody
	TeamID    *uuid.UUID
	Label     string
	LineID    string
	ContactID string
	Q         string // within the contact's name, phone, e-mail address and company
}

// assignees are whom a viewer may ask about; all is true when it does not matter.
func (v Viewer) assignees(asked *uuid.UUID) (list []uuid.UUID, all bool) {
	switch {
	case v.Agent == uuid.Nil && asked == nil:
		return nil, true
	case v.Agent == uuid.Nil:
		return []uuid.UUID{*asked}, false
	}
	list = []uuid.UUID{v.Agent, uuid.Nil} // an agent's own and nobody's (interface 4.3 rule 1)
	if asked == nil {
		return list, false
	}
	return slices.DeleteFunc(list, func(id uuid.UUID) bool { return id != *asked }), false
}

// probed is how many of the newest conversations are looked through for a text before an index is asked for all contacts
// that have it. What is common is found among them; what is not has few contacts.
const probed = 2000

// inbox is a list on its way to becoming a statement.
type inbox struct {
	f      *readmodel.Filter
	by     *ConversationFilter
	v      Viewer
	people []uuid.UUID // who may have them; everybody when all
	all    bool
	label  *uuid.UUID
	after  *readmodel.Cursor
}

// newInbox looks up what the filters name; nil when nothing can fulfil them.
func (s *Store) newInbox(ctx context.Context, v Viewer, by *ConversationFilter, after *readmodel.Cursor) (*inbox, error) {
	i := &inbox{f: &readmodel.Filter{}, by: by, v: v, after: after}
	if i.people, i.all = v.assignees(by.Assignee); !i.all && len(i.people) == 0 {
		return nil, nil //nolint:nilnil // nothing is an answer here
	}
	if by.Label != "" {
		label, found, err := s.labelNamed(ctx, v, by.Label)
		if err != nil || !found {
			return nil, err
		}
		i.label = &label
	}
	i.f.Add("x.workspace_id = %s", v.Workspace)
	if by.TeamID != nil {
		i.f.Add("x.team = %s", *by.TeamID)
	}
	i.f.Equal("x.line_id", by.LineID)
	i.f.Equal("x.contact_id", by.ContactID)
	return i, nil
}

// lane is the newest conversations under some conditions, from one index in its order.
func (i *inbox) lane(most string, conditions ...string) string {
	from, at := "read.conversations x", "x"
	if i.label != nil {
		from, at = "read.labelled_conversations l join read.conversations x on x.contact_id = l.contact_id", "l"
		conditions = append(conditions, "l.label_id = "+i.f.Arg(*i.label))
	}
	if i.after != nil {
		conditions = append(conditions, fmt.Sprintf("(%[1]s.active_at, %[1]s.id) < (%[2]s::timestamptz, %[3]s)", at, i.f.Arg(i.after.At), i.f.Arg(i.after.ID)))
	}
	return fmt.Sprintf("(select x.* from %s%s order by %[3]s.active_at desc, %[3]s.id desc limit %[4]s)", from, i.f.Where(conditions...), at, most)
}

// lanes are one lane for every status and every assignee that are asked for. A list takes the newest of each and of those
// the newest, so that what is rare among a million is found as fast as what is common.
func (i *inbox) lanes(most string) string {
	statuses := []string{i.by.Status}
	if i.by.Status == "" && (!i.all || i.by.TeamID != nil || i.by.LineID != "" || i.label != nil) {
		statuses = []string{"open", "snoozed", "closed"}
	}
	var lanes []string
	for _, status := range statuses {
		var conditions []string
		switch {
		case status == "":
		case i.label != nil: // the same said of x as well would count twice with the planner
			conditions = append(conditions, "l.status = "+i.f.Arg(status))
		default:
			conditions = append(conditions, "x.status = "+i.f.Arg(status))
		}
		if i.all {
			lanes = append(lanes, i.lane(most, conditions...))
		}
		for _, person := range i.people {
			lanes = append(lanes, i.lane(most, append(slices.Clip(conditions), "x.assignee = "+i.f.Arg(person))...))
		}
	}
	return strings.Join(lanes, " union all ")
}

// recent looks for a text in the contacts of the newest conversations only.
func (i *inbox) recent(limit int) string {
	most := i.f.Arg(probed)
	newest := `select * from (` + i.lanes(most) + `) n order by n.active_at desc, n.id desc limit ` + most
	match, _ := searchSQL(i.f, i.by.Q)
	return i.show(`select n.* from (`+newest+`) n join read.contact_index i on i.contact_id = n.contact_id where `+match, limit)
}

// few goes from the contacts that are meant to their conversations.
func (i *inbox) few(limit int) string {
	i.f.Equal("x.status", i.by.Status)
	if !i.all {
		i.f.Add("x.assignee = any(%s)", i.people)
	}
	if i.by.Q != "" {
		match, _ := searchSQL(i.f, i.by.Q)
		i.f.Add(`x.contact_id in (select i.contact_id from read.contact_index i where i.workspace_id = %s and `+match+`)`, i.v.Workspace)
	}
	return i.show(i.lane(i.f.Arg(limit+1)), limit)
}

// show is the statement that gives the newest of some conversations as they are shown.
func (i *inbox) show(conversations string, limit int) string {
	return `select ` + conversationColumns + ` from (` + conversations + `) v join read.contacts c on c.id = v.contact_id
		order by v.active_at desc, v.id desc limit ` + i.f.Arg(limit+1)
}

// Conversations lists conversations, most recent activity first.
func (s *Store) Conversations(ctx context.Context, v Viewer, by ConversationFilter, after *readmodel.Cursor, limit int) (readmodel.Page[Conversation], error) {
	by.Q = strings.TrimSpace(by.Q)
	ask := func(statement func(i *inbox) string) ([]Conversation, error) {
		i, err := s.newInbox(ctx, v, &by, after)
		if err != nil || i == nil {
			return nil, err
		}
		sql := statement(i)
		// Planned each time for what is asked: one plan for all labels and people would be a bad one for most.
		args := append([]any{pgx.QueryExecModeCacheDescribe}, i.f.Args...)
		return readmodel.List(ctx, s.Reader, "conversations", scanConversation, sql, args...)
	}
	var found []Conversation
	var err error
	switch {
	case by.ContactID != "":
		found, err = ask(func(i *inbox) string { return i.few(limit) })
	case by.Q != "":
		found, err = ask(func(i *inbox) string { return i.recent(limit) })
		if err == nil && len(found) <= limit { // what is older may have been left out
			found, err = ask(func(i *inbox) string { return i.few(limit) })
		}
	default:
		found, err = ask(func(i *inbox) string { return i.show(i.lanes(i.f.Arg(limit+1)), limit) })
	}
	if err != nil {
		return readmodel.Page[Conversation]{}, err
	}
	return readmodel.PageOf(found, limit, func(c *Conversation) readmodel.Cursor {
		return readmodel.Cursor{At: readmodel.Stamp(c.activeAt), ID: c.ID}
	}), nil
}

// Conversation finds a conversation that the viewer can see; found is false when there is none.
func (s *Store) Conversation(ctx context.Context, v Viewer, id string) (c Conversation, found bool, err error) {
	f := &readmodel.Filter{}
	f.Add("v.workspace_id = %s", v.Workspace)
	f.Add("v.id = %s", id)
	if v.Agent != uuid.Nil {
		f.Add("v.assignee in (%s, '"+uuid.Nil.String()+"')", v.Agent)
	}
	return readmodel.One(ctx, s.Reader, "conversation", scanConversation,
		`select `+conversationColumns+` from read.conversations v join read.contacts c on c.id = v.contact_id`+f.Where(), f.Args...)
}

const assignedSQL = `select v.id from read.conversations v where v.workspace_id = $1 and v.assignee = $2 limit $3`

// AssignedTo finds conversations of a workspace that are assigned to somebody, whatever their status, in no order.
func (s *Store) AssignedTo(ctx context.Context, workspace, user uuid.UUID, most int) ([]string, error) {
	return readmodel.List(ctx, s.Reader, "assigned conversations", pgx.RowTo[string], assignedSQL, workspace, user, most)
}

const unreadSQL = `select unread_count from read.conversations where id = $1 and workspace_id = $2`

// Unread counts what came into a conversation since a person of the team read or answered; 0 when there is none.
func (s *Store) Unread(ctx context.Context, v Viewer, id string) (int, error) {
	count, _, err := readmodel.One(ctx, s.Reader, "unread", pgx.RowTo[int], unreadSQL, id, v.Workspace)
	return count, err
}

const conversationsByIDSQL = `select ` + conversationColumns + ` from unnest($1::text[]) u (id) join read.conversations v on v.id = u.id
	join read.contacts c on c.id = v.contact_id`

// ConversationsByID finds conversations of any workspace in no order; ids that do not exist are left out.
func (s *Store) ConversationsByID(ctx context.Context, ids []string) ([]Conversation, error) {
	return readmodel.List(ctx, s.Reader, "conversations by id", scanConversation, conversationsByIDSQL, ids)
}
