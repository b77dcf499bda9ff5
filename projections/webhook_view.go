package projections

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/events"
	"ledgerline/eventstore"
)

// views are the resources that a batch of events is told with, read together.
type views struct {
	histories     map[string][]eventstore.Recorded // streams of messages, and of contacts for how they began
	contacts      map[string]Contact
	conversations map[string]Conversation
	lines         map[string]Line
	owners        map[uuid.UUID][]string // lines that were asked for, by organisation
	base          string                 // see Store.ShownAt
}

func newViews(base string) *views {
	return &views{
		base:      base,
		histories: map[string][]eventstore.Recorded{}, contacts: map[string]Contact{},
		conversations: map[string]Conversation{}, lines: map[string]Line{}, owners: map[uuid.UUID][]string{},
	}
}

// What is asked for is an empty entry until it is loaded.
func (v *views) history(id string)      { v.histories[id] = nil }
func (v *views) contact(id string)      { v.contacts[id] = Contact{} }
func (v *views) conversation(id string) { v.conversations[id] = Conversation{} }

func (v *views) line(r *eventstore.Recorded, id string) {
	v.owners[r.OrganisationID] = append(v.owners[r.OrganisationID], id)
}

func (v *views) consent(r *eventstore.Recorded, e *events.ConsentEvidence) {
	v.contact(e.ContactID)
	v.history(e.ContactID)
	if e.LineID != nil {
		v.line(r, *e.LineID)
	}
}

const (
	contactsByIDSQL      = `select ` + contactColumns + ` from unnest($1::text[]) u (id) join read.contacts c on c.id = u.id`
	conversationsByIDSQL = `select ` + conversationColumns + ` from unnest($1::text[]) u (id) join read.conversations v on v.id = u.id
		join read.contacts c on c.id = v.contact_id`
)

func (v *views) load(ctx context.Context, s *Store) (err error) {
	streams := keysOf(v.histories)
	if len(streams) > 0 {
		recorded, err := s.ledger.LoadMany(ctx, streams, make([]int, len(streams)))
		if err != nil {
			return fmt.Errorf("projections: tell: %w", err)
		}
		for i := range recorded {
			v.histories[recorded[i].Stream] = append(v.histories[recorded[i].Stream], recorded[i])
		}
	}
	if err := fillView(ctx, s, v.contacts, scanContact, contactsByIDSQL, func(c *Contact) string { return c.ID }); err != nil {
		return err
	}
	if err := fillView(ctx, s, v.conversations, scanConversation, conversationsByIDSQL, func(c *Conversation) string { return c.ID }); err != nil {
		return err
	}
	for organisation, ids := range v.owners {
		found, err := s.linesByID(ctx, organisation, ids)
		if err != nil {
			return err
		}
		for i := range found {
			v.lines[found[i].ID] = found[i]
		}
	}
	return nil
}

// fillView reads what was asked for; what does not exist is taken out.
func fillView[T any](ctx context.Context, s *Store, asked map[string]T, scan pgx.RowToFunc[T], sql string, id func(*T) string) error {
	if len(asked) == 0 {
		return nil
	}
	ids := keysOf(asked)
	clear(asked)
	found, err := list(ctx, s, "told resources", scan, sql, ids)
	for i := range found {
		asked[id(&found[i])] = found[i]
	}
	return err
}

func keysOf[T any](m map[string]T) []string {
	list := make([]string, 0, len(m))
	for k := range m {
		list = append(list, k)
	}
	return list
}

// messageAt is a message as the read model showed it at a version of its stream, with its status before.
func (v *views) messageAt(history []eventstore.Recorded, version int) (m Message, before string, ok bool) {
	c := NewChanges()
	row := func() Row {
		for _, change := range c.of(messagesTable).rows {
			return change.set
		}
		return nil
	}
	for i := range history {
		if history[i].Version > version {
			break
		}
		if history[i].Erased {
			return Message{}, "", false
		}
		before, _ = row()["status"].(string)
		projectMessage(&history[i], c)
	}
	if len(c.of(messagesTable).rows) == 0 {
		return Message{}, "", false
	}
	m = messageOf(row())
	complete(m.Media, v.base)
	return m, before, true
}

// messageOf is the message that a row of its table holds.
func messageOf(r Row) Message {
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

func textIn(r Row, column string) string {
	if text := optionalIn(r, column); text != nil {
		return *text
	}
	return ""
}

func optionalIn(r Row, column string) *string {
	switch value := r[column].(type) {
	case string:
		return &value
	case *string:
		return value
	}
	return nil
}
