package projections

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/events"
	"ledgerline/eventstore"
)

var messagesTable = &Table{Name: "messages", Key: []string{"id"}, Columns: []Column{
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
	{Name: "updated_at", Type: "timestamptz not null", Merge: Latest},
}}

// Messages is every message as it is now. Its timeline is not kept here: that is the message's own stream.
var Messages = &Projection{
	ID: "messages", Program: 2,
	Tables: []*Table{messagesTable},
	Indexes: []string{
		`create index on @messages (workspace_id, created_at desc, id desc)`,
		`create index on @messages (contact_id, created_at desc, id desc)`,
		`create index on @messages (workspace_id, external_id) where external_id is not null`,
	},
	Wants: events.NamesOf(
		(*events.MessageQueued)(nil), (*events.MessageScheduled)(nil), (*events.MessageDue)(nil), (*events.MessageRouted)(nil),
		(*events.MessageDeferred)(nil), (*events.MessageSending)(nil), (*events.MessageSent)(nil), (*events.MessageRetried)(nil),
		(*events.MessageDelivered)(nil), (*events.MessageRead)(nil), (*events.MessageFailed)(nil), (*events.MessageReceived)(nil),
		(*events.MessageFellBack)(nil), (*events.ContactDeleted)(nil)),
	Project: projectMessage,
}

func projectMessage(r *eventstore.Recorded, c *Changes) {
	at := stamp(r.OccurredAt)
	set := func(ref events.MessageRef, columns Row) {
		columns["id"], columns["updated_at"] = ref.MessageID, at
		c.Update(messagesTable, columns)
	}
	switch e := r.Event.(type) {
	case *events.MessageQueued:
		c.Insert(messagesTable, queuedRow(r, e))
	case *events.MessageReceived:
		c.Insert(messagesTable, receivedRow(r, e))
	case *events.MessageScheduled:
		set(e.MessageRef, Row{"status": "scheduled", "scheduled_for": stamp(e.Until)})
	case *events.MessageDue:
		set(e.MessageRef, Row{"status": "queued"})
	case *events.MessageRouted:
		set(e.MessageRef, Row{"line_id": e.LineID, "sender": e.From})
	case *events.MessageDeferred:
		set(e.MessageRef, Row{"scheduled_for": stampOrNull(e.Until)})
	case *events.MessageSending:
		columns := Row{"status": "sending", "scheduled_for": nil, "channel": e.Channel}
		if e.AfterSent {
			delete(columns, "status")
		}
		set(e.MessageRef, columns)
	case *events.MessageFellBack:
		set(e.MessageRef, Row{"channel": "sms", "scheduled_for": nil})
	case *events.MessageSent:
		set(e.MessageRef, Row{"status": "sent", "sent_at": at, "channel": e.Channel})
	case *events.MessageRetried: // stays sending: a status never goes back
		set(e.MessageRef, Row{"scheduled_for": stamp(e.Until)})
	case *events.MessageDelivered:
		set(e.MessageRef, Row{"status": "delivered", "delivered_at": stamp(e.At)})
	case *events.MessageRead:
		set(e.MessageRef, Row{"status": "read", "read_at": stamp(e.At)})
	case *events.MessageFailed:
		set(e.MessageRef, Row{"status": "failed", "error_code": e.Code, "error_details": e.Details, "scheduled_for": nil})
	case *events.ContactDeleted:
		c.Clear(messagesTable, "contact_id", e.ContactID)
	}
}

func messageRow(r *eventstore.Recorded, ref events.MessageRef, p *events.MessagePersonal) Row {
	media, metadata := p.Media, p.Metadata
	if media == nil {
		media = []events.Media{}
	}
	if metadata == nil {
		metadata = map[string]any{}
	}
	return Row{
		"id": ref.MessageID, "workspace_id": r.WorkspaceID, "conversation_id": ref.ConversationID, "contact_id": ref.ContactID,
		"is_test": ref.IsTest, "body": p.Body, "media": media, "metadata": metadata, "external_id": p.ExternalID,
		"created_at": stamp(r.OccurredAt), "updated_at": stamp(r.OccurredAt), "sent_by_staff": false,
	}
}

func queuedRow(r *eventstore.Recorded, e *events.MessageQueued) Row {
	row := messageRow(r, e.MessageRef, &e.Content)
	row["direction"], row["channel"], row["status"] = "outbound", e.Channel, "queued"
	row["recipient"], row["line_id"], row["source"], row["sent_by_staff"] = emptyIsNull(e.Content.To), e.LineID, e.Source, e.ByStaff
	return row
}

func receivedRow(r *eventstore.Recorded, e *events.MessageReceived) Row {
	row := messageRow(r, e.MessageRef, &e.Content)
	row["direction"], row["channel"], row["status"] = "inbound", e.Channel, "received"
	row["sender"], row["recipient"], row["line_id"] = emptyIsNull(e.Content.From), emptyIsNull(e.Content.To), e.LineID
	return row
}

func emptyIsNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
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
		Status: "queued", Body: e.Content.Body, To: emptyIsNull(e.Content.To), LineID: e.LineID, ExternalID: e.Content.ExternalID,
		IsTest: e.IsTest, Media: []Media{}, Metadata: e.Content.Metadata, Source: e.Source, SentByStaff: e.ByStaff,
		CreatedAt: stamp(at), UpdatedAt: stamp(at),
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
	recorded, err := s.ledger.Load(ctx, id, 0)
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
	if scheduled != nil && m.Status != "scheduled" && !scheduled.After(s.ledger.Now()) {
		scheduled = nil
	}
	m.ScheduledFor, m.SentAt, m.DeliveredAt, m.ReadAt = stampOrNull(scheduled), stampOrNull(sent), stampOrNull(delivered), stampOrNull(read)
	m.CreatedAt, m.UpdatedAt = stamp(created), stamp(updated)
	complete(m.Media, s.base)
	return m, err
}

// messages limits an agent to the conversations that are its own or nobody's (interface 4.3 rule 1).
func (v Viewer) messages() *filter {
	f := &filter{}
	f.add("m.workspace_id = %s", v.Workspace)
	if v.Agent != uuid.Nil {
		f.add(`exists (select from read.contacts c where c.id = m.contact_id
			and (c.conversation_assignee is null or c.conversation_assignee = %s))`, v.Agent)
	}
	return f
}

// Message finds a message that the viewer can see; found is false when there is none.
func (s *Store) Message(ctx context.Context, v Viewer, id string) (m Message, found bool, err error) {
	f := v.messages()
	f.add("m.id = %s", id)
	return single(ctx, s, "message", s.scanMessage, `select `+messageColumns+` from read.messages m`+f.where(), f.args...)
}

// MessageFilter are the filters of the message list (decisions, section 7); empty ones do not filter.
type MessageFilter struct {
	ContactID, ConversationID, LineID, Status, Direction, ExternalID string
}

// Messages lists messages, newest first.
func (s *Store) Messages(ctx context.Context, v Viewer, by MessageFilter, after *Cursor, limit int) (Page[Message], error) {
	f := v.messages()
	f.equal("m.contact_id", by.ContactID)
	if by.ConversationID != "" { // found through its contact, which has no other conversation
		f.add(`m.conversation_id = %s and m.contact_id = (select v.contact_id from read.conversations v where v.id = %s)`, by.ConversationID)
	}
	f.equal("m.line_id", by.LineID)
	f.equal("m.status", by.Status)
	f.equal("m.direction", by.Direction)
	f.equal("m.external_id", by.ExternalID)
	if after != nil {
		f.add("(m.created_at, m.id) < (%s::timestamptz, "+f.arg(after.ID)+")", after.At)
	}
	sql := `select ` + messageColumns + ` from read.messages m` + f.where() + ` order by m.created_at desc, m.id desc limit ` + f.arg(limit+1)
	found, err := list(ctx, s, "messages", s.scanMessage, sql, f.args...)
	if err != nil {
		return Page[Message]{}, err
	}
	return page(found, limit, func(m *Message) Cursor { return Cursor{m.CreatedAt, m.ID} }), nil
}
