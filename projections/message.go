package projections

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/projections/readmodel"
)

// Message is a message as the API shows it, and defines the columns of its table: see readmodel.TableOf.
type Message struct {
	ID             string          `json:"id" doc:"msg_ id" sql:"text collate \"C\" not null"`
	ConversationID string          `json:"conversation_id" doc:"cnv_ id" sql:"text collate \"C\" not null"`
	ContactID      string          `json:"contact_id" doc:"ctc_ id" sql:"text collate \"C\" not null"`
	Direction      string          `json:"direction" enum:"outbound,inbound" sql:"text not null"`
	Channel        string          `json:"channel" enum:"chat,sms" sql:"text not null"`
	Status         string          `json:"status" enum:"queued,scheduled,sending,sent,delivered,read,failed,received" sql:"text not null"`
	Body           string          `json:"body" sql:"text not null"`
	From           *string         `json:"from" doc:"E.164" column:"sender" sql:"text"`
	To             *string         `json:"to" doc:"E.164" column:"recipient" sql:"text"`
	LineID         *string         `json:"line_id" doc:"ln_ id" sql:"text collate \"C\""`
	ExternalID     *string         `json:"external_id" doc:"The caller's own reference" sql:"text"`
	IsTest         bool            `json:"is_test" doc:"True for sandbox traffic" sql:"boolean not null"`
	Media          []Media         `json:"media" nullable:"false" sql:"jsonb not null"`
	Metadata       map[string]any  `json:"metadata" sql:"jsonb not null"`
	ErrorCode      *string         `json:"error_code" sql:"text"`
	ErrorDetails   *map[string]any `json:"error_details" sql:"jsonb"`
	Source         *string         `json:"source" enum:"api,dashboard,workflow,agent,outreach,mcp" sql:"text"`
	SentByStaff    bool            `json:"sent_by_staff" sql:"boolean not null"`
	ScheduledFor   *string         `json:"scheduled_for" format:"date-time" sql:"timestamptz"`
	SentAt         *string         `json:"sent_at" format:"date-time" sql:"timestamptz"`
	DeliveredAt    *string         `json:"delivered_at" format:"date-time" sql:"timestamptz"`
	ReadAt         *string         `json:"read_at" format:"date-time" sql:"timestamptz"`
	CreatedAt      string          `json:"created_at" format:"date-time" sql:"timestamptz not null"`
	UpdatedAt      string          `json:"updated_at" format:"date-time" sql:"timestamptz not null" merge:"latest"`
}

// Media is one attachment as the API shows it.
type Media struct {
	URL      string  `json:"url"`
	Filename *string `json:"filename"`
	MIME     *string `json:"mime"`
	Size     *int64  `json:"size" minimum:"0" doc:"Bytes"`
}

var (
	messagesTable = readmodel.TableOf[Message]("messages", []string{"id"}, readmodel.Column{Name: "workspace_id", Type: "uuid not null"})
	messageFields = readmodel.Select[Message](messagesTable, "m", nil)
)

// Messages is every message as it is now. A message's timeline is its stream in the ledger, see Store.Timeline.
var Messages = &readmodel.Projection{
	ID: "messages", Program: 3,
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
			row := readmodel.Row{"channel": "sms", "scheduled_for": nil}
			if e.SMS != nil {
				row["line_id"], row["sender"] = nil, readmodel.EmptyToNull(e.SMS.From)
			}
			updateMessage(c, r, e.MessageRef, row)
		}),
		feed.On(func(c *readmodel.Changes, e *events.MessageSent, r *eventstore.Recorded) {
			row := readmodel.Row{"status": "sent", "sent_at": readmodel.Stamp(r.OccurredAt), "channel": e.Channel}
			if e.From != "" {
				row["sender"] = e.From
			}
			updateMessage(c, r, e.MessageRef, row)
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

// messageRow is what the rows of outbound and inbound messages have in common.
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
	if e.SMS != nil {
		row["sender"] = readmodel.EmptyToNull(e.SMS.From)
	}
	return row
}

func receivedRow(r *eventstore.Recorded, e *events.MessageReceived) readmodel.Row {
	row := messageRow(r, e.MessageRef, &e.Content)
	row["direction"], row["channel"], row["status"] = "inbound", e.Channel, "received"
	row["sender"], row["recipient"], row["line_id"] = readmodel.EmptyToNull(e.Content.From), readmodel.EmptyToNull(e.Content.To), readmodel.EmptyToNull(e.LineID)
	return row
}

// NewMessage is an accepted message as the read model will show it. It answers a request without waiting for the read
// model.
func NewMessage(e *events.MessageQueued, at time.Time) Message {
	m, err := messageFields.FromRow(queuedRow(&eventstore.Recorded{OccurredAt: at}, e))
	if err != nil {
		panic(err) // the event was encoded as JSON before
	}
	return m
}

// AcceptedMessage is an outbound message of the workspace as it was when the API accepted it, from its first event.
// found is false when there is none or its contact was erased.
func (s *Store) AcceptedMessage(ctx context.Context, v Viewer, id string) (m Message, found bool, err error) {
	recorded, err := s.Ledger().Load(ctx, id, 0)
	if err != nil || len(recorded) == 0 {
		return Message{}, false, err
	}
	first := &recorded[0]
	e, ok := first.Event.(*events.MessageQueued)
	if !ok || first.Erased || first.WorkspaceID != v.Workspace {
		return Message{}, false, nil
	}
	return NewMessage(e, first.OccurredAt), true, nil
}

// MessageAt returns a message as the read model showed it right after the event with the given version, and the status
// that it had before that event. history is the message's stream from its first event on. ok is false when the message
// did not exist yet or its contact was erased.
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
	m, err := messageFields.FromRow(row)
	if err != nil {
		return Message{}, "", false
	}
	s.completeURLs(m.Media)
	return m, before, true
}

// completeURLs makes links of attachments absolute. Attachments that the service itself serves are stored by path,
// because the service's address may change.
func (s *Store) completeURLs(media []Media) {
	for i := range media {
		if strings.HasPrefix(media[i].URL, "/") {
			media[i].URL = s.base + media[i].URL
		}
	}
}

// scanMessage reads a message as it is now. It omits a scheduled_for that has passed while the message is still
// deferred: the message then waits for capacity, and the time of its next attempt is not known. The row keeps the old
// time, so that the rows of a million deferred messages need no update every hour.
func (s *Store) scanMessage(row pgx.CollectableRow) (Message, error) {
	m, err := messageFields.Scan(row)
	if m.ScheduledFor != nil && m.Status != "scheduled" && *m.ScheduledFor <= readmodel.Stamp(s.Ledger().Now()) {
		m.ScheduledFor = nil
	}
	s.completeURLs(m.Media)
	return m, err
}

// messages returns a filter of the messages m that the viewer may see. An agent sees the messages of conversations that
// are assigned to it or to nobody (rule ACC-18).
func (v Viewer) messages() *readmodel.Filter {
	f := &readmodel.Filter{}
	f.Add("m.workspace_id = %s", v.Workspace)
	if v.Agent != uuid.Nil {
		f.Add(`exists (select from read.contacts c where c.id = m.contact_id
			and (c.conversation_assignee is null or c.conversation_assignee = %s))`, v.Agent)
	}
	return f
}

// Message finds a message that the viewer may see; found is false when there is none.
func (s *Store) Message(ctx context.Context, v Viewer, id string) (m Message, found bool, err error) {
	f := v.messages()
	f.Add("m.id = %s", id)
	return readmodel.One(ctx, s.Reader, "message", s.scanMessage, `select `+messageFields.SQL+` from read.messages m`+f.Where(), f.Args...)
}

// MessageFilter has the filters of the message list. An empty one does not apply.
type MessageFilter struct {
	ContactID, ConversationID, LineID, Status, Direction, ExternalID string
	From, To                                                         string // E.164
	CreatedAfter, CreatedBefore                                      *time.Time
}

// Messages lists messages, newest first.
func (s *Store) Messages(ctx context.Context, v Viewer, by MessageFilter, after *readmodel.Cursor, limit int) (readmodel.Page[Message], error) {
	sql, args, err := s.messagesSQL(ctx, v, &by, after, limit)
	if err != nil {
		return readmodel.Page[Message]{}, err
	}
	key := func(m *Message) readmodel.Cursor { return readmodel.Cursor{At: m.CreatedAt, ID: m.ID} }
	return readmodel.ReadPage(ctx, s.Reader, "messages", limit, s.scanMessage, key, sql, args...)
}

// messagesSQL returns the query of Messages.
func (s *Store) messagesSQL(ctx context.Context, v Viewer, by *MessageFilter, after *readmodel.Cursor, limit int) (sql string, args []any, err error) {
	f, err := s.filterMessages(ctx, v, by)
	if err != nil {
		return "", nil, err
	}
	f.After(after, "m.created_at", "m.id", "text")
	return `select ` + messageFields.SQL + ` from read.messages m` + f.Where() + ` order by m.created_at desc, m.id desc limit ` + f.Arg(limit+1), f.Args, nil
}

// ExportMessages gives write each message that the viewer may see and that fits the filters, newest first, in constant
// memory. One snapshot serves the whole export; see ExportContacts for what that costs. An error of write ends it.
func (s *Store) ExportMessages(ctx context.Context, v Viewer, by MessageFilter, write func(*Message) error) error {
	f, err := s.filterMessages(ctx, v, &by)
	if err != nil {
		return err
	}
	err = s.exportSnapshot(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `select `+messageFields.SQL+` from read.messages m`+f.Where()+` order by m.created_at desc, m.id desc`, f.Args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			m, err := s.scanMessage(rows)
			if err != nil {
				return err
			}
			if err := write(&m); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	if err != nil {
		return fmt.Errorf("projections: export messages: %w", err)
	}
	return nil
}

// filterMessages returns the SQL of the filters, on messages m that the viewer may see.
func (s *Store) filterMessages(ctx context.Context, v Viewer, by *MessageFilter) (*readmodel.Filter, error) {
	f := v.messages()
	f.Equal("m.contact_id", by.ContactID)
	if by.ConversationID != "" { // a contact has one conversation, and messages have an index by contact
		f.Add(`m.conversation_id = %s and m.contact_id = (select v.contact_id from read.conversations v where v.id = %s)`, by.ConversationID)
	}
	f.Equal("m.line_id", by.LineID)
	f.Equal("m.status", by.Status)
	f.Equal("m.direction", by.Direction)
	f.Equal("m.external_id", by.ExternalID)
	if by.CreatedAfter != nil {
		f.Add("m.created_at >= %s", *by.CreatedAfter)
	}
	if by.CreatedBefore != nil {
		f.Add("m.created_at < %s", *by.CreatedBefore)
	}
	for _, number := range []struct{ column, value string }{{"m.sender", by.From}, {"m.recipient", by.To}} {
		if err := s.requireNumber(ctx, v, f, number.column, number.value); err != nil {
			return nil, err
		}
	}
	return f, nil
}

const numberOwnerSQL = `select c.id from read.contacts c where c.workspace_id = $1 and c.phone = $2
	union all select '' from read.lines l where l.workspace_id = $1 and l.phone = $2 limit 1`

// requireNumber requires a number in a column of the messages; "" requires nothing. There is no index by number,
// because the sender of a message changes when the message is routed. Instead the number's contact is found, and its
// messages are read by index. A number of neither a contact nor a line of the workspace matches nothing.
func (s *Store) requireNumber(ctx context.Context, v Viewer, f *readmodel.Filter, column, number string) error {
	if number == "" {
		return nil
	}
	contact, found, err := readmodel.One(ctx, s.Reader, "owner of a number", pgx.RowTo[string], numberOwnerSQL, v.Workspace, number)
	if err != nil {
		return err
	}
	f.Equal(column, number)
	f.Equal("m.contact_id", contact)
	if !found {
		f.Require("false")
	}
	return nil
}
