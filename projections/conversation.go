package projections

import (
	"github.com/google/uuid"

	"ledgerline/events"
	"ledgerline/eventstore"
)

// A contact has one conversation, and every event that changes it names the contact. Nobody and no team are the zero UUID,
// since an index on null gives no order. last_* and active_at are of the newest message; a conversation without one is as
// old as itself.
var conversationsTable = &Table{Name: "conversations", Key: []string{"contact_id"}, Columns: []Column{
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
	{Name: "active_at", Type: "timestamptz not null", Merge: Latest},
	{Name: "unread_count", Type: "integer not null"},
	{Name: "created_at", Type: "timestamptz not null"},
	{Name: "updated_at", Type: "timestamptz not null", Merge: Latest},
}}

// A contact's labels lie here once more, with what a list by label goes by: status and activity are null until the
// conversation has started.
var labelledTable = &Table{Name: "labelled_conversations", Key: []string{"contact_id", "label_id"}, Columns: []Column{
	{Name: "contact_id", Type: `text collate "C" not null`},
	{Name: "label_id", Type: "uuid not null"},
	{Name: "id", Type: `text collate "C"`},
	{Name: "status", Type: "text"},
	{Name: "active_at", Type: "timestamptz"},
}}

const labelledSQL = `update @labelled_conversations l set id = v.id, status = v.status, active_at = v.active_at from @conversations v
	where l.contact_id = any($1) and v.contact_id = l.contact_id and (l.id, l.status, l.active_at) is distinct from (v.id, v.status, v.active_at)`

var notesTable = &Table{Name: "notes", Key: []string{"id"}, Columns: []Column{
	{Name: "id", Type: "uuid not null"},
	{Name: "conversation_id", Type: `text collate "C" not null`},
	{Name: "contact_id", Type: `text collate "C" not null`},
	{Name: "author_user_id", Type: "uuid"},
	{Name: "body", Type: "text not null"},
	{Name: "created_at", Type: "timestamptz not null"},
}}

// Conversations is the inbox: every conversation as it is now, with the team's notes. Who the contact is comes from
// Contacts when it is asked for, and the messages from Messages.
var Conversations = &Projection{
	ID: "conversations", Program: 2,
	Tables: []*Table{conversationsTable, labelledTable, notesTable},
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
	Wants: events.NamesOf(
		(*events.ConversationStarted)(nil), (*events.ConversationReopened)(nil), (*events.ConversationSnoozed)(nil), (*events.ConversationWoken)(nil),
		(*events.ConversationClosed)(nil), (*events.ConversationAssigned)(nil), (*events.ConversationTeamSet)(nil), (*events.ConversationHandlerChanged)(nil),
		(*events.ConversationRead)(nil), (*events.NoteAdded)(nil), (*events.MessageQueued)(nil), (*events.MessageRouted)(nil), (*events.MessageReceived)(nil),
		(*events.ContactCreated)(nil), (*events.ContactLabelsChanged)(nil), (*events.ContactDeleted)(nil)),
	Project: projectConversation,
}

func projectConversation(r *eventstore.Recorded, c *Changes) {
	at := stamp(r.OccurredAt)
	set := func(contactID string, columns Row) {
		columns["contact_id"] = contactID
		c.Update(conversationsTable, columns)
	}
	moved := func(contactID string, columns Row) { // also within the lists by label
		set(contactID, columns)
		c.After(labelledSQL, contactID)
	}
	label := func(contactID string, labels []uuid.UUID) {
		for _, id := range labels {
			c.Insert(labelledTable, Row{"contact_id": contactID, "label_id": id})
		}
		if len(labels) > 0 {
			c.After(labelledSQL, contactID)
		}
	}
	switch e := r.Event.(type) {
	case *events.ConversationStarted:
		c.Insert(conversationsTable, Row{
			"id": e.ConversationID, "workspace_id": r.WorkspaceID, "contact_id": e.ContactID, "status": "open", "assignee": uuid.Nil, "team": uuid.Nil,
			"handled_by": "team", "active_at": at, "unread_count": 0, "created_at": at, "updated_at": at,
		})
		c.After(labelledSQL, e.ContactID)
	case *events.ConversationReopened:
		moved(e.ContactID, Row{"status": "open", "snoozed_until": nil, "updated_at": at})
	case *events.ConversationWoken:
		moved(e.ContactID, Row{"status": "open", "snoozed_until": nil, "updated_at": at})
	case *events.ConversationSnoozed:
		moved(e.ContactID, Row{"status": "snoozed", "snoozed_until": stamp(e.Until), "updated_at": at})
	case *events.ConversationClosed:
		moved(e.ContactID, Row{"status": "closed", "snoozed_until": nil, "updated_at": at})
	case *events.ConversationAssigned:
		set(e.ContactID, Row{"assignee": nilIsZero(e.To), "updated_at": at})
	case *events.ConversationTeamSet:
		set(e.ContactID, Row{"team": nilIsZero(e.To), "updated_at": at})
	case *events.ConversationHandlerChanged:
		set(e.ContactID, Row{"handled_by": e.To, "updated_at": at})
	case *events.ConversationRead:
		set(e.ContactID, Row{"unread_count": 0, "updated_at": at})
	case *events.MessageQueued:
		row := lastMessage(e.MessageRef, "outbound", &e.Content, at)
		if e.ByStaff { // whoever answers has read
			row["unread_count"] = 0
		}
		moved(e.ContactID, row)
	case *events.MessageReceived:
		row := lastMessage(e.MessageRef, "inbound", &e.Content, at)
		row["line_id"], row["unread_count"] = e.LineID, Add(1)
		moved(e.ContactID, row)
	case *events.MessageRouted:
		set(e.ContactID, Row{"line_id": e.LineID})
	case *events.NoteAdded:
		c.Insert(notesTable, Row{
			"id": e.NoteID, "conversation_id": e.ConversationID, "contact_id": e.ContactID, "author_user_id": e.AuthorUserID,
			"body": e.Content.Body, "created_at": at,
		})
	case *events.ContactCreated:
		label(e.ContactID, e.LabelIDs)
	case *events.ContactLabelsChanged:
		for _, id := range e.Removed {
			c.Delete(labelledTable, Row{"contact_id": e.ContactID, "label_id": id})
		}
		label(e.ContactID, e.Added)
	case *events.ContactDeleted:
		c.Delete(conversationsTable, Row{"contact_id": e.ContactID})
		c.Clear(labelledTable, "contact_id", e.ContactID)
		c.Clear(notesTable, "contact_id", e.ContactID)
	}
}

// nilIsZero is how the table tells nobody.
func nilIsZero(id *uuid.UUID) uuid.UUID {
	if id == nil {
		return uuid.Nil
	}
	return *id
}

func lastMessage(ref events.MessageRef, direction string, p *events.MessagePersonal, at string) Row {
	return Row{
		"last_message_id": ref.MessageID, "last_direction": direction, "last_preview": preview(p), "active_at": at, "updated_at": at,
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
