package projections

import (
	"context"
	"slices"
	"strings"
	"time"

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

// Note is a remark of the team's (interface 2.3).
type Note struct {
	ID             string  `json:"id" format:"uuid"`
	ConversationID string  `json:"conversation_id" doc:"cnv_ id"`
	AuthorUserID   *string `json:"author_user_id" format:"uuid" doc:"null when an API key wrote it"`
	Body           string  `json:"body"`
	CreatedAt      string  `json:"created_at" format:"date-time"`
}

const conversationColumns = `v.id, c.id, c.phone, c.first_name, c.last_name, c.company, v.status, v.snoozed_until, v.assignee, v.team, v.handled_by,
	array(select l.name from read.contact_labels cl join read.labels l on l.id = cl.label_id where cl.contact_id = c.id order by lower(l.name)),
	v.line_id, v.last_message_id, v.last_direction, v.last_preview, v.active_at, v.unread_count, v.created_at, v.updated_at`

func scanConversation(row pgx.CollectableRow) (Conversation, error) {
	var c Conversation
	var snoozed *time.Time
	var created, updated time.Time
	var assignee, team uuid.UUID
	var id, direction, preview *string
	err := row.Scan(&c.ID, &c.Contact.ID, &c.Contact.Phone, &c.Contact.FirstName, &c.Contact.LastName, &c.Contact.Company, &c.Status, &snoozed,
		&assignee, &team, &c.HandledBy, &c.Labels, &c.LineID, &id, &direction, &preview, &c.activeAt, &c.UnreadCount, &created, &updated)
	c.SnoozedUntil, c.AssigneeUserID, c.TeamID = stampOrNull(snoozed), zeroIsNil(assignee), zeroIsNil(team)
	c.CreatedAt, c.UpdatedAt = stamp(created), stamp(updated)
	if id != nil && direction != nil && preview != nil {
		c.LastMessage, c.LastMessageAt = &LastMessage{ID: *id, Direction: *direction, Preview: *preview}, stampOrNull(&c.activeAt)
	}
	return c, err
}

func zeroIsNil(id uuid.UUID) *string {
	if id == uuid.Nil {
		return nil
	}
	text := id.String()
	return &text
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

// lanes are the conditions that, each alone, one index serves in the order of activity: one for every status and
// every assignee that are asked for. A list takes the newest of each lane and the newest of those, so that what is
// rare among a million is found as fast as what is common.
func (by *ConversationFilter) lanes(v Viewer, f *filter) []string {
	people, all := v.assignees(by.Assignee)
	narrow := !all || by.TeamID != nil || by.LineID != ""
	statuses := []string{by.Status}
	if by.Status == "" && narrow {
		statuses = []string{"open", "snoozed", "closed"}
	}
	var lanes []string
	for _, status := range statuses {
		lane := "true"
		if status != "" {
			lane = "x.status = " + f.arg(status)
		}
		if all {
			lanes = append(lanes, lane)
			continue
		}
		for _, person := range people {
			lanes = append(lanes, lane+" and x.assignee = "+f.arg(person))
		}
	}
	return lanes
}

const labelNamedSQL = `select id from read.labels where workspace_id = $1 and lower(name) = lower($2)`

// filter gives the conditions that hold in every lane; false when nothing can fulfil them.
func (by *ConversationFilter) filter(ctx context.Context, s *Store, v Viewer) (*filter, bool, error) {
	f := &filter{}
	f.add("x.workspace_id = %s", v.Workspace)
	if by.TeamID != nil {
		f.add("x.team = %s", *by.TeamID)
	}
	f.equal("x.line_id", by.LineID)
	f.equal("x.contact_id", by.ContactID)
	if by.Label != "" { // asked first, so that the planner knows how common this one is
		label, found, err := single(ctx, s, "label", pgx.RowTo[uuid.UUID], labelNamedSQL, v.Workspace, by.Label)
		if err != nil || !found {
			return nil, false, err
		}
		f.add(`exists (select from read.contact_labels cl where cl.contact_id = x.contact_id and cl.label_id = %s)`, label)
	}
	if by.Q != "" {
		f.add(`exists (select from read.contacts q where q.id = x.contact_id
			and concat_ws(' ', q.first_name, q.last_name, q.phone, q.email, q.company) ilike %s)`, contains(by.Q))
	}
	return f, true, nil
}

// Conversations lists conversations, most recent activity first.
func (s *Store) Conversations(ctx context.Context, v Viewer, by ConversationFilter, after *Cursor, limit int) (Page[Conversation], error) {
	f, possible, err := by.filter(ctx, s, v)
	if err != nil {
		return Page[Conversation]{}, err
	}
	if after != nil {
		f.add("(x.active_at, x.id) < (%s::timestamptz, "+f.arg(after.ID)+")", after.At)
	}
	lanes := by.lanes(v, f)
	if !possible || len(lanes) == 0 {
		return Page[Conversation]{}, nil
	}
	most := f.arg(limit + 1)
	for i, lane := range lanes {
		lanes[i] = `(select x.* from read.conversations x` + f.where(lane) + ` order by x.active_at desc, x.id desc limit ` + most + `)`
	}
	sql := `select ` + conversationColumns + ` from (` + strings.Join(lanes, " union all ") + `) v join read.contacts c on c.id = v.contact_id
		order by v.active_at desc, v.id desc limit ` + most
	found, err := list(ctx, s, "conversations", scanConversation, sql, f.args...)
	if err != nil {
		return Page[Conversation]{}, err
	}
	return page(found, limit, func(c *Conversation) Cursor { return Cursor{stamp(c.activeAt), c.ID} }), nil
}

// Conversation finds a conversation that the viewer can see; found is false when there is none.
func (s *Store) Conversation(ctx context.Context, v Viewer, id string) (c Conversation, found bool, err error) {
	f := &filter{}
	f.add("v.workspace_id = %s", v.Workspace)
	f.equal("v.id", id)
	if v.Agent != uuid.Nil {
		f.add("v.assignee in (%s, '"+uuid.Nil.String()+"')", v.Agent)
	}
	return single(ctx, s, "conversation", scanConversation,
		`select `+conversationColumns+` from read.conversations v join read.contacts c on c.id = v.contact_id`+f.where(), f.args...)
}

const unreadSQL = `select unread_count from read.conversations where id = $1 and workspace_id = $2`

// Unread counts what came into a conversation since a person of the team read or answered; 0 when there is none.
func (s *Store) Unread(ctx context.Context, v Viewer, id string) (int, error) {
	count, _, err := single(ctx, s, "unread", pgx.RowTo[int], unreadSQL, id, v.Workspace)
	return count, err
}

// RecentNotes is how many notes a conversation shows.
const RecentNotes = 50

const (
	noteColumns = `n.id::text, n.conversation_id, n.author_user_id::text, n.body, n.created_at`
	notesSQL    = `select ` + noteColumns + ` from read.notes n where n.conversation_id = $1 order by n.created_at desc, n.id desc limit $2`
	noteSQL     = `select ` + noteColumns + ` from read.notes n join read.conversations v on v.id = n.conversation_id where n.id = $1 and v.workspace_id = $2`
)

func scanNote(row pgx.CollectableRow) (n Note, err error) {
	var created time.Time
	err = row.Scan(&n.ID, &n.ConversationID, &n.AuthorUserID, &n.Body, &created)
	n.CreatedAt = stamp(created)
	return n, err
}

// Notes lists the newest notes of a conversation that the caller was found to see, newest first.
func (s *Store) Notes(ctx context.Context, conversationID string) ([]Note, error) {
	return list(ctx, s, "notes", scanNote, notesSQL, conversationID, RecentNotes)
}

// Note finds a note of the workspace; found is false when there is none.
func (s *Store) Note(ctx context.Context, v Viewer, id uuid.UUID) (Note, bool, error) {
	return single(ctx, s, "note", scanNote, noteSQL, id, v.Workspace)
}
