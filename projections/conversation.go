package projections

import (
	"time"

	"github.com/google/uuid"

	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/projections/readmodel"
)

// Conversation is a conversation as the API lists it, and defines the columns of its table: see readmodel.TableOf.
type Conversation struct {
	ID             string              `json:"id" doc:"cnv_ id" sql:"text collate \"C\" not null"`
	Contact        ConversationContact `json:"contact"`
	Status         string              `json:"status" enum:"open,snoozed,closed" sql:"text not null"`
	SnoozedUntil   *string             `json:"snoozed_until" format:"date-time" sql:"timestamptz"`
	AssigneeUserID *string             `json:"assignee_user_id" format:"uuid"`
	TeamID         *string             `json:"team_id" format:"uuid"`
	HandledBy      string              `json:"handled_by" doc:"team, agent:<agent id> or workflow:<run id>" sql:"text not null"`
	Labels         []string            `json:"labels" nullable:"false" doc:"The contact's labels"`
	LineID         *string             `json:"line_id" doc:"ln_ id of the line that sent or received the last message" sql:"text collate \"C\""`
	LastMessage    *LastMessage        `json:"last_message"`
	LastMessageAt  *string             `json:"last_message_at" format:"date-time"`
	UnreadCount    int                 `json:"unread_count" minimum:"0" doc:"Messages received since a person of the team last read or answered the conversation" sql:"integer not null"`
	CreatedAt      string              `json:"created_at" format:"date-time" sql:"timestamptz not null"`
	UpdatedAt      string              `json:"updated_at" format:"date-time" sql:"timestamptz not null" merge:"latest"`
}

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

// The key is the contact: a contact has one conversation, and every event that changes a conversation names the
// contact. The zero UUID stands for no assignee and no team, so that an index orders these rows as well. The columns
// last_* and active_at describe the newest message. A conversation without messages has the time of its creation in
// active_at.
var conversationsTable = readmodel.TableOf[Conversation]("conversations", []string{"contact_id"},
	readmodel.Column{Name: "workspace_id", Type: "uuid not null"},
	readmodel.Column{Name: "contact_id", Type: `text collate "C" not null`},
	readmodel.Column{Name: "assignee", Type: "uuid not null"},
	readmodel.Column{Name: "team", Type: "uuid not null"},
	readmodel.Column{Name: "last_message_id", Type: "text"},
	readmodel.Column{Name: "last_direction", Type: "text"},
	readmodel.Column{Name: "last_preview", Type: "text"},
	readmodel.Column{Name: "active_at", Type: "timestamptz not null", Merge: readmodel.Latest},
)

// labelledTable serves lists by label. It has the labels of each contact, with copies of the conversation's columns by
// which such a list filters and sorts. The copies are null until the conversation has started.
var labelledTable = &readmodel.Table{Name: "labelled_conversations", Key: []string{"contact_id", "label_id"}, Columns: []readmodel.Column{
	{Name: "contact_id", Type: `text collate "C" not null`},
	{Name: "label_id", Type: "uuid not null"},
	{Name: "id", Type: `text collate "C"`},
	{Name: "status", Type: "text"},
	{Name: "active_at", Type: "timestamptz"},
}}

// copyToLabelledSQL brings the copies in labelled_conversations up to date for the contacts in $1.
const copyToLabelledSQL = `update @labelled_conversations l set id = v.id, status = v.status, active_at = v.active_at from @conversations v
	where l.contact_id = any($1) and v.contact_id = l.contact_id and (l.id, l.status, l.active_at) is distinct from (v.id, v.status, v.active_at)`

// Conversations is the inbox: every conversation as it is now, with the team's notes. Queries join the contact from
// Contacts and read the messages from Messages.
var Conversations = &readmodel.Projection{
	ID: "conversations", Program: 3,
	Tables: []*readmodel.Table{conversationsTable, labelledTable, notesTable},
	// Each index orders conversations by activity. See Store.Conversations for how a list uses them.
	Indexes: []string{
		`create index on @conversations (workspace_id, active_at desc, id desc)`,
		`create index on @conversations (workspace_id, status, active_at desc, id desc)`,
		`create index on @conversations (workspace_id, assignee, status, active_at desc, id desc)`,
		`create index on @conversations (workspace_id, team, status, active_at desc, id desc)`,
		`create index on @conversations (workspace_id, line_id, status, active_at desc, id desc)`,
		`create unique index on @conversations (id)`,
		`create index on @labelled_conversations (label_id, status, active_at desc, id desc)`,
		`create index on @notes (conversation_id, created_at desc, id desc)`,
		`create index on @notes (contact_id)`,
	},
	Handlers: feed.NewHandlers(
		feed.On(func(c *readmodel.Changes, e *events.ConversationStarted, r *eventstore.Recorded) {
			at := readmodel.Stamp(r.OccurredAt)
			c.Insert(conversationsTable, readmodel.Row{
				"id": e.ConversationID, "workspace_id": r.WorkspaceID, "contact_id": e.ContactID, "status": "open", "assignee": uuid.Nil, "team": uuid.Nil,
				"handled_by": "team", "active_at": at, "unread_count": 0, "created_at": at, "updated_at": at,
			})
			c.After(copyToLabelledSQL, e.ContactID)
		}),
		feed.On(func(c *readmodel.Changes, e *events.ConversationReopened, r *eventstore.Recorded) {
			updateStatus(c, r, e.ContactID, "open", nil)
		}),
		feed.On(func(c *readmodel.Changes, e *events.ConversationSnoozeEnded, r *eventstore.Recorded) {
			updateStatus(c, r, e.ContactID, "open", nil)
		}),
		feed.On(func(c *readmodel.Changes, e *events.ConversationSnoozed, r *eventstore.Recorded) {
			updateStatus(c, r, e.ContactID, "snoozed", &e.Until)
		}),
		feed.On(func(c *readmodel.Changes, e *events.ConversationClosed, r *eventstore.Recorded) {
			updateStatus(c, r, e.ContactID, "closed", nil)
		}),
		feed.On(func(c *readmodel.Changes, e *events.ConversationAssigned, r *eventstore.Recorded) {
			updateConversation(c, r, e.ContactID, readmodel.Row{"assignee": readmodel.NilToZero(e.To)})
		}),
		feed.On(func(c *readmodel.Changes, e *events.ConversationTeamSet, r *eventstore.Recorded) {
			updateConversation(c, r, e.ContactID, readmodel.Row{"team": readmodel.NilToZero(e.To)})
		}),
		feed.On(func(c *readmodel.Changes, e *events.ConversationHandlerChanged, r *eventstore.Recorded) {
			updateConversation(c, r, e.ContactID, readmodel.Row{"handled_by": e.To})
		}),
		feed.On(func(c *readmodel.Changes, e *events.ConversationRead, r *eventstore.Recorded) {
			updateConversation(c, r, e.ContactID, readmodel.Row{"unread_count": 0})
		}),
		feed.On(func(c *readmodel.Changes, e *events.MessageQueued, r *eventstore.Recorded) {
			row := lastMessageRow(e.MessageRef, "outbound", &e.Content, r)
			if e.ByStaff { // a person who answers has read the conversation
				row["unread_count"] = 0
			}
			updateConversation(c, r, e.ContactID, row)
			c.After(copyToLabelledSQL, e.ContactID)
		}),
		feed.On(func(c *readmodel.Changes, e *events.MessageReceived, r *eventstore.Recorded) {
			row := lastMessageRow(e.MessageRef, "inbound", &e.Content, r)
			row["line_id"], row["unread_count"] = readmodel.EmptyToNull(e.LineID), readmodel.Add(1)
			updateConversation(c, r, e.ContactID, row)
			c.After(copyToLabelledSQL, e.ContactID)
		}),
		feed.On(func(c *readmodel.Changes, e *events.MessageRouted, _ *eventstore.Recorded) {
			c.Update(conversationsTable, readmodel.Row{"contact_id": e.ContactID, "line_id": e.LineID})
		}),
		feed.On(noteAdded),
		feed.On(func(c *readmodel.Changes, e *events.ContactCreated, _ *eventstore.Recorded) {
			labelConversation(c, e.ContactID, e.LabelIDs)
		}),
		feed.On(func(c *readmodel.Changes, e *events.ContactLabelsChanged, _ *eventstore.Recorded) {
			for _, id := range e.Removed {
				c.Delete(labelledTable, readmodel.Row{"contact_id": e.ContactID, "label_id": id})
			}
			labelConversation(c, e.ContactID, e.Added)
		}),
		feed.On(func(c *readmodel.Changes, e *events.ContactDeleted, _ *eventstore.Recorded) {
			c.Delete(conversationsTable, readmodel.Row{"contact_id": e.ContactID})
			c.DeleteWhere(labelledTable, "contact_id", e.ContactID)
			c.DeleteWhere(notesTable, "contact_id", e.ContactID)
		}),
	),
}

func updateConversation(c *readmodel.Changes, r *eventstore.Recorded, contactID string, row readmodel.Row) {
	row["contact_id"], row["updated_at"] = contactID, readmodel.Stamp(r.OccurredAt)
	c.Update(conversationsTable, row)
}

func updateStatus(c *readmodel.Changes, r *eventstore.Recorded, contactID, status string, snoozedUntil *time.Time) {
	updateConversation(c, r, contactID, readmodel.Row{"status": status, "snoozed_until": readmodel.StampOrNull(snoozedUntil)})
	c.After(copyToLabelledSQL, contactID)
}

func labelConversation(c *readmodel.Changes, contactID string, labels []uuid.UUID) {
	for _, id := range labels {
		c.Insert(labelledTable, readmodel.Row{"contact_id": contactID, "label_id": id})
	}
	if len(labels) > 0 {
		c.After(copyToLabelledSQL, contactID)
	}
}

func lastMessageRow(ref events.MessageRef, direction string, p *events.MessagePersonal, r *eventstore.Recorded) readmodel.Row {
	return readmodel.Row{
		"last_message_id": ref.MessageID, "last_direction": direction, "last_preview": preview(p), "active_at": readmodel.Stamp(r.OccurredAt),
	}
}

// maxPreview is how many characters of a message a list shows (rule INB-7).
const maxPreview = 200

// preview is the beginning of a message's text, or the name of its first attachment when it has no text.
func preview(p *events.MessagePersonal) string {
	text := p.Body
	if text == "" && len(p.Media) > 0 {
		text = "attachment"
		if name := p.Media[0].Filename; name != nil && *name != "" {
			text = *name
		}
	}
	characters := 0
	for i := range text {
		if characters == maxPreview {
			return text[:i]
		}
		characters++
	}
	return text
}
