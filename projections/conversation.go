package projections

import (
	"time"

	"github.com/google/uuid"

	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/projections/readmodel"
)

// A contact has one conversation, and every event that changes it names the contact. Nobody and no team are the zero UUID,
// since an index on null gives no order. last_* and active_at are of the newest message; a conversation without one is as
// old as itself.
var conversationsTable = &readmodel.Table{Name: "conversations", Key: []string{"contact_id"}, Columns: []readmodel.Column{
	{Name: "id", Type: `text collate "C" not null`},
	{Name: "workspace_id", Type: "uuid not null"},
	{Name: "contact_id", Type: `text collate "C" not null`},
	{Name: "status", Type: "text not null"},
	{Name: "snoozed_until", Type: "timestamptz"},
	{Name: "assignee", Type: "uuid not null"},
	{Name: "team", Type: "uuid not null"},
	{Name: "handled_by", Type: "text not null"},
	{Name: "line_id", Type: `text collate "C"`},
	{Name: "last_message_id", Type: "text"},
	{Name: "last_direction", Type: "text"},
	{Name: "last_preview", Type: "text"},
	{Name: "active_at", Type: "timestamptz not null", Merge: readmodel.Latest},
	{Name: "unread_count", Type: "integer not null"},
	{Name: "created_at", Type: "timestamptz not null"},
	{Name: "updated_at", Type: "timestamptz not null", Merge: readmodel.Latest},
}}

// A contact's labels lie here once more, with what a list by label goes by: status and activity are null until the
// conversation has started.
var labelledTable = &readmodel.Table{Name: "labelled_conversations", Key: []string{"contact_id", "label_id"}, Columns: []readmodel.Column{
	{Name: "contact_id", Type: `text collate "C" not null`},
	{Name: "label_id", Type: "uuid not null"},
	{Name: "id", Type: `text collate "C"`},
	{Name: "status", Type: "text"},
	{Name: "active_at", Type: "timestamptz"},
}}

const copyToLabelledSQL = `update @labelled_conversations l set id = v.id, status = v.status, active_at = v.active_at from @conversations v
	where l.contact_id = any($1) and v.contact_id = l.contact_id and (l.id, l.status, l.active_at) is distinct from (v.id, v.status, v.active_at)`

// Conversations is the inbox: every conversation as it is now, with the team's notes. Who the contact is comes from
// Contacts when it is asked for, and the messages from Messages.
var Conversations = &readmodel.Projection{
	ID: "conversations", Program: 2,
	Tables: []*readmodel.Table{conversationsTable, labelledTable, notesTable},
	// Each index gives its conversations by last activity; see Conversations for how a list uses them.
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
		feed.On(func(c *readmodel.Changes, e *events.ConversationWoken, r *eventstore.Recorded) {
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
			row["line_id"], row["unread_count"] = e.LineID, readmodel.Add(1)
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

// maxPreview is how much of a message a list shows, in characters (interface 2.5).
const maxPreview = 200

// preview is the beginning of a message's text; of one without text, the name of what is attached.
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
