package projections

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/projections/readmodel"
)

var messagesTable = &readmodel.Table{Name: "messages", Key: []string{"id"}, Columns: []readmodel.Column{
	{Name: "id", Type: `text collate "C" not null`},
	{Name: "workspace_id", Type: "uuid not null"},
	{Name: "conversation_id", Type: `text collate "C" not null`},
	{Name: "contact_id", Type: `text collate "C" not null`},
	{Name: "direction", Type: "text not null"},
	{Name: "channel", Type: "text not null"},
	{Name: "status", Type: "text not null"},
	{Name: "body", Type: "text not null"},
	{Name: "sender", Type: "text"},
	{Name: "recipient", Type: "text"},
	{Name: "line_id", Type: `text collate "C"`},
	{Name: "external_id", Type: "text"},
	{Name: "is_test", Type: "boolean not null"},
	{Name: "media", Type: "jsonb not null"},
	{Name: "metadata", Type: "jsonb not null"},
	{Name: "error_code", Type: "text"},
	{Name: "error_details", Type: "jsonb"},
	{Name: "source", Type: "text"},
	{Name: "sent_by_staff", Type: "boolean not null"},
	{Name: "scheduled_for", Type: "timestamptz"},
	{Name: "sent_at", Type: "timestamptz"},
	{Name: "delivered_at", Type: "timestamptz"},
	{Name: "read_at", Type: "timestamptz"},
	{Name: "created_at", Type: "timestamptz not null"},
	{Name: "updated_at", Type: "timestamptz not null", Merge: readmodel.Latest},
}}

// Messages is every message as it is now. Its timeline is not kept here: that is the message's own stream.
var Messages = &readmodel.Projection{
	ID: "messages", Program: 2,
	Tables: []*readmodel.Table{messagesTable},
	Indexes: []string{
		`create index on @messages (workspace_id, created_at desc, id desc)`,
		`create index on @messages (contact_id, created_at desc, id desc)`,
		`create index on @messages (workspace_id, external_id) where external_id is not null`,
	},
	Handlers: feed.NewHandlers(
		feed.On(func(c *readmodel.Changes, e *events.MessageQueued, r *eventstore.Recorded) {
			c.Insert(messagesTable, queuedRow(r, e))
		}),
		feed.On(func(c *readmodel.Changes, e *events.MessageReceived, r *eventstore.Recorded) {
			c.Insert(messagesTable, receivedRow(r, e))
		}),
		feed.On(func(c *readmodel.Changes, e *events.MessageScheduled, r *eventstore.Recorded) {
			updateMessage(c, r, e.MessageRef, readmodel.Row{"status": "scheduled", "scheduled_for": readmodel.Stamp(e.Until)})
		}),
		feed.On(func(c *readmodel.Changes, e *events.MessageDue, r *eventstore.Recorded) {
			updateMessage(c, r, e.MessageRef, readmodel.Row{"status": "queued"})
		}),
		feed.On(func(c *readmodel.Changes, e *events.MessageRouted, r *eventstore.Recorded) {
			updateMessage(c, r, e.MessageRef, readmodel.Row{"line_id": e.LineID, "sender": e.From})
		}),
		feed.On(func(c *readmodel.Changes, e *events.MessageDeferred, r *eventstore.Recorded) {
			updateMessage(c, r, e.MessageRef, readmodel.Row{"scheduled_for": readmodel.StampOrNull(e.Until)})
		}),
		feed.On(func(c *readmodel.Changes, e *events.MessageSending, r *eventstore.Recorded) {
			row := readmodel.Row{"scheduled_for": nil, "channel": e.Channel}
			if !e.AfterSent {
				row["status"] = "sending"
			}
			updateMessage(c, r, e.MessageRef, row)
		}),
		feed.On(func(c *readmodel.Changes, e *events.MessageFellBack, r *eventstore.Recorded) {
			updateMessage(c, r, e.MessageRef, readmodel.Row{"channel": "sms", "scheduled_for": nil})
		}),
		feed.On(func(c *readmodel.Changes, e *events.MessageSent, r *eventstore.Recorded) {
			updateMessage(c, r, e.MessageRef, readmodel.Row{"status": "sent", "sent_at": readmodel.Stamp(r.OccurredAt), "channel": e.Channel})
		}),
		// The status stays "sending": a status never goes back.
		feed.On(func(c *readmodel.Changes, e *events.MessageRetried, r *eventstore.Recorded) {
			updateMessage(c, r, e.MessageRef, readmodel.Row{"scheduled_for": readmodel.Stamp(e.Until)})
		}),
		feed.On(func(c *readmodel.Changes, e *events.MessageDelivered, r *eventstore.Recorded) {
			updateMessage(c, r, e.MessageRef, readmodel.Row{"status": "delivered", "delivered_at": readmodel.Stamp(e.At)})
		}),
		feed.On(func(c *readmodel.Changes, e *events.MessageRead, r *eventstore.Recorded) {
			updateMessage(c, r, e.MessageRef, readmodel.Row{"status": "read", "read_at": readmodel.Stamp(e.At)})
		}),
		feed.On(func(c *readmodel.Changes, e *events.MessageFailed, r *eventstore.Recorded) {
			updateMessage(c, r, e.MessageRef, readmodel.Row{"status": "failed", "error_code": e.Code, "error_details": e.Details, "scheduled_for": nil})
		}),
		feed.On(func(c *readmodel.Changes, e *events.ContactDeleted, _ *eventstore.Recorded) {
			c.DeleteWhere(messagesTable, "contact_id", e.ContactID)
		}),
	),
}

func updateMessage(c *readmodel.Changes, r *eventstore.Recorded, ref events.MessageRef, row readmodel.Row) {
	row["id"], row["updated_at"] = ref.MessageID, readmodel.Stamp(r.OccurredAt)
	c.Update(messagesTable, row)
}

func messageRow(r *eventstore.Recorded, ref events.MessageRef, p *events.MessagePersonal) readmodel.Row {
	media, metadata := p.Media, p.Metadata
	if media == nil {
		media = []events.Media{}
	}
	if metadata == nil {
		metadata = map[string]any{}
	}
	return readmodel.Row{
		"id": ref.MessageID, "workspace_id": r.WorkspaceID, "conversation_id": ref.ConversationID, "contact_id": ref.ContactID,
		"is_test": ref.IsTest, "body": p.Body, "media": media, "metadata": metadata, "external_id": p.ExternalID,
		"created_at": readmodel.Stamp(r.OccurredAt), "updated_at": readmodel.Stamp(r.OccurredAt), "sent_by_staff": false,
	}
}

func queuedRow(r *eventstore.Recorded, e *events.MessageQueued) readmodel.Row {
	row := messageRow(r, e.MessageRef, &e.Content)
	row["direction"], row["channel"], row["status"] = "outbound", e.Channel, "queued"
	row["recipient"], row["line_id"], row["source"], row["sent_by_staff"] = readmodel.EmptyToNull(e.Content.To), e.LineID, e.Source, e.ByStaff
	return row
}

func receivedRow(r *eventstore.Recorded, e *events.MessageReceived) readmodel.Row {
	row := messageRow(r, e.MessageRef, &e.Content)
	row["direction"], row["channel"], row["status"] = "inbound", e.Channel, "received"
	row["sender"], row["recipient"], row["line_id"] = readmodel.EmptyToNull(e.Content.From), readmodel.EmptyToNull(e.Content.To), e.LineID
	return row
}

// complete gives attachments that lie behind the service, of which the ledger has the path alone, the address under which it is
// reached now.
func complete(media []Media, base string) {
	for i := range media {
		if strings.HasPrefix(media[i].URL, "/") {
			media[i].URL = base + media[i].URL
		}
	}
}

// Media is one attachment as the API shows it.
type Media struct {
	URL      string  `json:"url"`
	Filename *string `json:"filename"`
	MIME     *string `json:"mime"`
	Size     *int64  `json:"size" minimum:"0" doc:"Bytes"`
}

// Message is a message as the API shows it (interface 2.4).
type Message struct {
	ID             string          `json:"id" doc:"msg_ id"`
	ConversationID string          `json:"conversation_id" doc:"cnv_ id"`
	ContactID      string          `json:"contact_id" doc:"ctc_ id"`
	Direction      string          `json:"direction" enum:"outbound,inbound"`
	Channel        string          `json:"channel" enum:"chat,sms"`
	Status         string          `json:"status" enum:"queued,scheduled,sending,sent,delivered,read,failed,received"`
	Body           string          `json:"body"`
	From           *string         `json:"from" doc:"E.164"`
	To             *string         `json:"to" doc:"E.164"`
	LineID         *string         `json:"line_id" doc:"ln_ id"`
	ExternalID     *string         `json:"external_id" doc:"The caller's own reference"`
	IsTest         bool            `json:"is_test" doc:"True for sandbox traffic"`
	Media          []Media         `json:"media" nullable:"false"`
	Metadata       map[string]any  `json:"metadata"`
	ErrorCode      *string         `json:"error_code"`
	ErrorDetails   *map[string]any `json:"error_details"`
	Source         *string         `json:"source" enum:"api,dashboard,workflow,agent,outreach,mcp"`
	SentByStaff    bool            `json:"sent_by_staff"`
	ScheduledFor   *string         `json:"scheduled_for" format:"date-time"`
	SentAt         *string         `json:"sent_at" format:"date-time"`
	DeliveredAt    *string         `json:"delivered_at" format:"date-time"`
	ReadAt         *string         `json:"read_at" format:"date-time"`
	CreatedAt      string          `json:"created_at" format:"date-time"`
	UpdatedAt      string          `json:"updated_at" format:"date-time"`
}

// Queued is the message that its first event tells of, so that an accepted message is answered without waiting for
// the read model. It is what the projection makes of that event.
func Queued(e *events.MessageQueued, at time.Time) Message {
	m := Message{
		ID: e.MessageID, ConversationID: e.ConversationID, ContactID: e.ContactID, Direction: "outbound", Channel: e.Channel,
		Status: "queued", Body: e.Content.Body, To: readmodel.EmptyToNull(e.Content.To), LineID: e.LineID, ExternalID: e.Content.ExternalID,
		IsTest: e.IsTest, Media: []Media{}, Metadata: e.Content.Metadata, Source: e.Source, SentByStaff: e.ByStaff,
		CreatedAt: readmodel.Stamp(at), UpdatedAt: readmodel.Stamp(at),
	}
	for _, x := range e.Content.Media {
		m.Media = append(m.Media, Media(x))
	}
	if m.Metadata == nil {
		m.Metadata = map[string]any{}
	}
	return m
}

// Accepted is an outbound message of the workspace as it was when it was accepted, from its first event in the ledger;
// found is false when there is none or its contact was erased.
func (s *Store) Accepted(ctx context.Context, v Viewer, id string) (m Message, found bool, err error) {
	recorded, err := s.Ledger().Load(ctx, id, 0)
	if err != nil || len(recorded) == 0 {
		return Message{}, false, err
	}
	first := &recorded[0]
	e, ok := first.Event.(*events.MessageQueued)
	if !ok || first.Erased || first.WorkspaceID != v.Workspace {
		return Message{}, false, nil
	}
	return Queued(e, first.OccurredAt), true, nil
}

const messageColumns = `m.id, m.conversation_id, m.contact_id, m.direction, m.channel, m.status, m.body, m.sender, m.recipient, m.line_id,
	m.external_id, m.is_test, m.media, m.metadata, m.error_code, m.error_details, m.source, m.sent_by_staff,
	m.scheduled_for, m.sent_at, m.delivered_at, m.read_at, m.created_at, m.updated_at`

// scanMessage reads messages as they are now. A hold whose end has passed while the message still waits, for there was no room for it
// then, has no end that is known: so a million that wait need not be told anew every hour.
func (s *Store) scanMessage(row pgx.CollectableRow) (Message, error) {
	var m Message
	var scheduled, sent, delivered, read *time.Time
	var created, updated time.Time
	err := row.Scan(&m.ID, &m.ConversationID, &m.ContactID, &m.Direction, &m.Channel, &m.Status, &m.Body, &m.From, &m.To, &m.LineID,
		&m.ExternalID, &m.IsTest, &m.Media, &m.Metadata, &m.ErrorCode, &m.ErrorDetails, &m.Source, &m.SentByStaff,
		&scheduled, &sent, &delivered, &read, &created, &updated)
	if scheduled != nil && m.Status != "scheduled" && !scheduled.After(s.Ledger().Now()) {
		scheduled = nil
	}
	m.ScheduledFor, m.SentAt, m.DeliveredAt, m.ReadAt = readmodel.StampOrNull(scheduled), readmodel.StampOrNull(sent), readmodel.StampOrNull(delivered), readmodel.StampOrNull(read)
	m.CreatedAt, m.UpdatedAt = readmodel.Stamp(created), readmodel.Stamp(updated)
	complete(m.Media, s.base)
	return m, err
}

// messages limits an agent to the conversations that are its own or nobody's (interface 4.3 rule 1).
func (v Viewer) messages() *readmodel.Filter {
	f := &readmodel.Filter{}
	f.Add("m.workspace_id = %s", v.Workspace)
	if v.Agent != uuid.Nil {
		f.Add(`exists (select from read.contacts c where c.id = m.contact_id
			and (c.conversation_assignee is null or c.conversation_assignee = %s))`, v.Agent)
	}
	return f
}

// Message finds a message that the viewer can see; found is false when there is none.
func (s *Store) Message(ctx context.Context, v Viewer, id string) (m Message, found bool, err error) {
	f := v.messages()
	f.Add("m.id = %s", id)
	return readmodel.One(ctx, s.Reader, "message", s.scanMessage, `select `+messageColumns+` from read.messages m`+f.Where(), f.Args...)
}

// MessageFilter are the filters of the message list (decisions, section 7); empty ones do not filter.
type MessageFilter struct {
	ContactID, ConversationID, LineID, Status, Direction, ExternalID string
}

// Messages lists messages, newest first.
func (s *Store) Messages(ctx context.Context, v Viewer, by MessageFilter, after *readmodel.Cursor, limit int) (readmodel.Page[Message], error) {
	f := v.messages()
	f.Equal("m.contact_id", by.ContactID)
	if by.ConversationID != "" { // found through its contact, which has no other conversation
		f.Add(`m.conversation_id = %s and m.contact_id = (select v.contact_id from read.conversations v where v.id = %s)`, by.ConversationID)
	}
	f.Equal("m.line_id", by.LineID)
	f.Equal("m.status", by.Status)
	f.Equal("m.direction", by.Direction)
	f.Equal("m.external_id", by.ExternalID)
	if after != nil {
		f.Add("(m.created_at, m.id) < (%s::timestamptz, "+f.Arg(after.ID)+")", after.At)
	}
	sql := `select ` + messageColumns + ` from read.messages m` + f.Where() + ` order by m.created_at desc, m.id desc limit ` + f.Arg(limit+1)
	found, err := readmodel.List(ctx, s.Reader, "messages", s.scanMessage, sql, f.Args...)
	if err != nil {
		return readmodel.Page[Message]{}, err
	}
	return readmodel.PageOf(found, limit, func(m *Message) readmodel.Cursor { return readmodel.Cursor{At: m.CreatedAt, ID: m.ID} }), nil
}

// MessageAt is a message as the read model showed it after the event with a version of its stream, and its status before
// that event. history is the message's stream from its first event on. ok is false when the message did not exist yet or
// its contact was erased.
func (s *Store) MessageAt(history []eventstore.Recorded, version int) (m Message, before string, ok bool) {
	c := readmodel.NewChanges(messagesTable)
	for i := range history {
		if history[i].Version > version {
			break
		}
		if history[i].Erased {
			return Message{}, "", false
		}
		before, _ = c.Only(messagesTable)["status"].(string)
		Messages.Handlers.Handle(c, history[i:i+1])
	}
	row := c.Only(messagesTable)
	if row == nil {
		return Message{}, "", false
	}
	m = messageOf(row)
	complete(m.Media, s.base)
	return m, before, true
}

// messageOf is the message that a row of its table holds.
func messageOf(r readmodel.Row) Message {
	m := Message{
		ID: textIn(r, "id"), ConversationID: textIn(r, "conversation_id"), ContactID: textIn(r, "contact_id"), Direction: textIn(r, "direction"),
		Channel: textIn(r, "channel"), Status: textIn(r, "status"), Body: textIn(r, "body"), From: optionalIn(r, "sender"),
		To: optionalIn(r, "recipient"), LineID: optionalIn(r, "line_id"), ExternalID: optionalIn(r, "external_id"), Media: []Media{},
		ErrorCode: optionalIn(r, "error_code"), Source: optionalIn(r, "source"), ScheduledFor: optionalIn(r, "scheduled_for"),
		SentAt: optionalIn(r, "sent_at"), DeliveredAt: optionalIn(r, "delivered_at"), ReadAt: optionalIn(r, "read_at"),
		CreatedAt: textIn(r, "created_at"), UpdatedAt: textIn(r, "updated_at"),
	}
	m.IsTest, _ = r["is_test"].(bool)
	m.SentByStaff, _ = r["sent_by_staff"].(bool)
	if m.Metadata, _ = r["metadata"].(map[string]any); m.Metadata == nil {
		m.Metadata = map[string]any{}
	}
	if details, _ := r["error_details"].(map[string]any); details != nil {
		m.ErrorDetails = &details
	}
	media, _ := r["media"].([]events.Media)
	for _, x := range media {
		m.Media = append(m.Media, Media(x))
	}
	return m
}

func textIn(r readmodel.Row, column string) string {
	if text := optionalIn(r, column); text != nil {
		return *text
	}
	return ""
}

func optionalIn(r readmodel.Row, column string) *string {
	switch value := r[column].(type) {
	case string:
		return &value
	case *string:
		return value
	}
	return nil
}
