package projections

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/domain/segment"
	"ledgerline/events"
	"ledgerline/eventstore"
)

var contactsTable = &Table{Name: "contacts", Key: []string{"id"}, Columns: []Column{
	{Name: "id", Type: `text collate "C" not null`},
	{Name: "workspace_id", Type: "uuid not null"},
	{Name: "position", Type: "bigint not null"}, // of the event that made it: the order of lists
	{Name: "number_hash", Type: `text collate "C" not null`},
	{Name: "phone", Type: "text not null"},
	{Name: "first_name", Type: "text"},
	{Name: "last_name", Type: "text"},
	{Name: "company", Type: "text"},
	{Name: "email", Type: "text"},
	{Name: "fields", Type: "jsonb not null"},
	{Name: "consent_status", Type: "text not null"},
	{Name: "consent_at", Type: "timestamptz"},
	{Name: "consent_source", Type: "text"},
	{Name: "assigned_line_id", Type: `text collate "C"`},
	{Name: "owner_user_id", Type: "uuid"},
	{Name: "chat_capable", Type: "boolean"},
	{Name: "capability_checked_at", Type: "timestamptz"},
	{Name: "has_conversation", Type: "boolean not null"},
	{Name: "conversation_assignee", Type: "uuid"},
	{Name: "first_reply_at", Type: "timestamptz", Merge: KeepFirst},
	{Name: "last_inbound_at", Type: "timestamptz", Merge: Latest},
	{Name: "last_outbound_at", Type: "timestamptz", Merge: Latest},
	{Name: "created_at", Type: "timestamptz not null"},
	{Name: "updated_at", Type: "timestamptz not null", Merge: Latest},
	// What is compared without regard to case, folded by the service itself, so that it does not depend on the database's locale.
	{Name: "folded_first_name", Type: `text collate "C"`},
	{Name: "folded_last_name", Type: `text collate "C"`},
	{Name: "folded_company", Type: `text collate "C"`},
	{Name: "folded_email", Type: `text collate "C"`},
	{Name: "folded_fields", Type: "jsonb not null"},
	{Name: "instants", Type: "jsonb not null"}, // custom fields that are times, in milliseconds since 1970
}}

var labelsTable = &Table{Name: "labels", Key: []string{"id"}, Columns: []Column{
	{Name: "id", Type: "uuid not null"},
	{Name: "workspace_id", Type: "uuid not null"},
	{Name: "name", Type: "text not null"},
	{Name: "folded_name", Type: `text collate "C" not null`},
	{Name: "color", Type: "text"},
	{Name: "created_at", Type: "timestamptz not null"},
}}

var contactLabelsTable = &Table{Name: "contact_labels", Key: []string{"contact_id", "label_id"}, Columns: []Column{
	{Name: "contact_id", Type: `text collate "C" not null`},
	{Name: "label_id", Type: "uuid not null"},
}}

// Contacts is the address book: contacts and labels as they are now.
var Contacts = &Projection{
	ID: "contacts", Program: 6,
	// Labels come first, so that the index of a contact that is made with labels is written once.
	Tables:   []*Table{contactLabelsTable, labelsTable, contactsTable, contactIndexTable, contactPlacesTable, labelCountsTable},
	Triggers: contactTriggers(),
	Indexes: []string{
		`create index on @contacts (workspace_id, position desc)`,
		`create index on @contacts (workspace_id, phone)`,
		`create index on @labels (workspace_id, folded_name)`,
		`create index on @contact_labels (label_id, contact_id)`,
		`create index on @contact_index (workspace_id, position desc)`,
		// Without a list of pending entries, which every question of a list would have to read through.
		`create index on @contact_index using gin (tags, search gin_trgm_ops) with (fastupdate = off)`,
	},
	Wants: events.NamesOf(
		(*events.ContactCreated)(nil), (*events.ContactOptedIn)(nil), (*events.ContactOptedOut)(nil), (*events.ContactConsentCleared)(nil),
		(*events.ContactLineAssigned)(nil), (*events.ContactDeleted)(nil), (*events.ContactUpdated)(nil), (*events.ContactLabelsChanged)(nil),
		(*events.LabelCreated)(nil), (*events.LabelUpdated)(nil), (*events.LabelDeleted)(nil),
		(*events.ConversationStarted)(nil), (*events.ConversationAssigned)(nil), (*events.MessageSent)(nil), (*events.MessageReceived)(nil),
		(*events.NumberLinked)(nil), (*events.NumberChecked)(nil)),
	Project: projectContact,
}

func projectContact(r *eventstore.Recorded, c *Changes) {
	at := stamp(r.OccurredAt)
	switch e := r.Event.(type) {
	case *events.ContactCreated:
		for _, label := range e.LabelIDs {
			c.Insert(contactLabelsTable, Row{"contact_id": e.ContactID, "label_id": label})
		}
		c.Insert(contactsTable, contactRow(r, e))
	case *events.ContactUpdated:
		c.Update(contactsTable, updatedRow(e, at))
	case *events.ContactLabelsChanged:
		for _, label := range e.Removed {
			c.Delete(contactLabelsTable, Row{"contact_id": e.ContactID, "label_id": label})
		}
		for _, label := range e.Added {
			c.Insert(contactLabelsTable, Row{"contact_id": e.ContactID, "label_id": label})
		}
		c.Update(contactsTable, Row{"id": e.ContactID, "updated_at": at})
	case *events.ContactOptedIn:
		c.Update(contactsTable, consentRow(&e.ConsentEvidence, at))
	case *events.ContactOptedOut:
		c.Update(contactsTable, consentRow(&e.ConsentEvidence, at))
	case *events.ContactConsentCleared:
		c.Update(contactsTable, consentRow(&e.ConsentEvidence, at))
	case *events.ContactLineAssigned:
		c.Update(contactsTable, Row{"id": e.ContactID, "assigned_line_id": e.LineID, "updated_at": at})
	case *events.ContactDeleted:
		c.Delete(contactsTable, Row{"id": e.ContactID})
		c.Clear(contactLabelsTable, "contact_id", e.ContactID)
	case *events.LabelCreated:
		c.Insert(labelsTable, Row{"id": e.LabelID, "workspace_id": r.WorkspaceID, "name": e.Name, "folded_name": segment.Fold(e.Name), "color": e.Color, "created_at": at})
	case *events.NumberLinked: // also when a contact has changed its number
		c.Update(contactsTable, Row{"id": e.ContactID, "chat_capable": e.Chat, "capability_checked_at": stampOrNull(e.CheckedAt)})
	case *events.NumberChecked:
		for _, contact := range e.ContactIDs {
			c.Update(contactsTable, Row{"id": contact, "chat_capable": e.Chat, "capability_checked_at": at})
		}
	case *events.LabelUpdated:
		c.Update(labelsTable, labelRow(e))
	case *events.LabelDeleted: // what is left of it on contacts is shown to nobody, and may be a million rows
		c.Delete(labelsTable, Row{"id": e.LabelID})
	case *events.ConversationStarted:
		c.Update(contactsTable, Row{"id": e.ContactID, "has_conversation": true})
	case *events.ConversationAssigned: // decides which agents see the contact; the contact itself is as it was
		c.Update(contactsTable, Row{"id": e.ContactID, "conversation_assignee": e.To})
	case *events.MessageSent:
		c.Update(contactsTable, Row{"id": e.ContactID, "last_outbound_at": at})
	case *events.MessageReceived:
		c.Update(contactsTable, Row{"id": e.ContactID, "first_reply_at": at, "last_inbound_at": at})
	}
}

func contactRow(r *eventstore.Recorded, e *events.ContactCreated) Row {
	row := Row{
		"id": e.ContactID, "workspace_id": r.WorkspaceID, "position": r.Position, "number_hash": e.NumberHash, "phone": e.Person.Phone,
		"consent_status": "unknown", "owner_user_id": e.OwnerUserID, "has_conversation": false,
		"created_at": stamp(r.OccurredAt), "updated_at": stamp(r.OccurredAt),
	}
	row.text("first_name", e.Person.FirstName)
	row.text("last_name", e.Person.LastName)
	row.text("company", e.Person.Company)
	row.text("email", e.Person.Email)
	row.fields(e.Person.Fields)
	return row
}

// text sets a column together with its folded twin.
func (row Row) text(name string, value *string) {
	row[name], row["folded_"+name] = value, nil
	if value != nil {
		row["folded_"+name] = segment.Fold(*value)
	}
}

// fields sets the custom fields together with what they are compared by.
func (row Row) fields(fields map[string]any) {
	if fields == nil {
		fields = map[string]any{}
	}
	instants := map[string]int64{}
	for key, value := range fields {
		if at, ok := segment.Instant(value); ok {
			instants[key] = at.UnixMilli()
		}
	}
	row["fields"], row["folded_fields"], row["instants"] = fields, segment.FoldFields(fields), instants
}

// updatedRow has the columns that changed. What an erased event said is not known any more; the contact's end follows.
func updatedRow(e *events.ContactUpdated, at string) Row {
	row := Row{"id": e.ContactID, "updated_at": at}
	for _, name := range e.Changed {
		switch name {
		case "phone":
			row["phone"], row["number_hash"] = e.Person.Phone, e.NumberHash
		case "first_name":
			row.text(name, e.Person.FirstName)
		case "last_name":
			row.text(name, e.Person.LastName)
		case "company":
			row.text(name, e.Person.Company)
		case "email":
			row.text(name, e.Person.Email)
		case "fields":
			row.fields(e.Person.Fields)
		case "owner_user_id":
			row["owner_user_id"] = e.OwnerUserID
		}
	}
	return row
}

func labelRow(e *events.LabelUpdated) Row {
	row := Row{"id": e.LabelID}
	for _, name := range e.Changed {
		switch name {
		case "name":
			row["name"], row["folded_name"] = e.Name, segment.Fold(e.Name)
		case "color":
			row["color"] = e.Color
		}
	}
	return row
}

func consentRow(e *events.ConsentEvidence, at string) Row {
	return Row{"id": e.ContactID, "consent_status": e.To, "consent_at": at, "consent_source": e.Source, "updated_at": at}
}

// Contact is a contact as the API shows it (interface 2.2).
type Contact struct {
	ID                  string         `json:"id" doc:"ctc_ id"`
	Phone               string         `json:"phone" doc:"E.164"`
	FirstName           *string        `json:"first_name"`
	LastName            *string        `json:"last_name"`
	Company             *string        `json:"company"`
	Email               *string        `json:"email"`
	Fields              map[string]any `json:"fields" doc:"Custom fields"`
	Labels              []string       `json:"labels" nullable:"false" doc:"Label names"`
	ConsentStatus       string         `json:"consent_status" enum:"unknown,opted_in,opted_out"`
	ConsentAt           *string        `json:"consent_at" format:"date-time"`
	ConsentSource       *string        `json:"consent_source"`
	AssignedLineID      *string        `json:"assigned_line_id" doc:"ln_ id, the contact's sticky sender"`
	OwnerUserID         *string        `json:"owner_user_id" format:"uuid"`
	ChatCapable         *bool          `json:"chat_capable" doc:"Whether the number is reachable on the chat channel"`
	CapabilityCheckedAt *string        `json:"capability_checked_at" format:"date-time"`
	FirstReplyAt        *string        `json:"first_reply_at" format:"date-time"`
	LastInboundAt       *string        `json:"last_inbound_at" format:"date-time"`
	LastOutboundAt      *string        `json:"last_outbound_at" format:"date-time"`
	CreatedAt           string         `json:"created_at" format:"date-time"`
	UpdatedAt           string         `json:"updated_at" format:"date-time"`
}

const contactColumns = `c.id, c.phone, c.first_name, c.last_name, c.company, c.email, c.fields,
	array(select l.name from read.contact_labels cl join read.labels l on l.id = cl.label_id where cl.contact_id = c.id order by l.folded_name),
	c.consent_status, c.consent_at, c.consent_source, c.assigned_line_id, c.owner_user_id::text, c.chat_capable, c.capability_checked_at,
	c.first_reply_at, c.last_inbound_at, c.last_outbound_at, c.created_at, c.updated_at`

// contactScan is a contact on its way out of a row.
type contactScan struct {
	Contact
	consent, checked, reply, inbound, outbound *time.Time
	created, updated                           time.Time
}

// contactInto gives a contact to be and where contactColumns go.
func contactInto() (*contactScan, []any) {
	c := &contactScan{}
	return c, []any{
		&c.ID, &c.Phone, &c.FirstName, &c.LastName, &c.Company, &c.Email, &c.Fields, &c.Labels,
		&c.ConsentStatus, &c.consent, &c.ConsentSource, &c.AssignedLineID, &c.OwnerUserID, &c.ChatCapable, &c.checked,
		&c.reply, &c.inbound, &c.outbound, &c.created, &c.updated,
	}
}

func (c *contactScan) contact() Contact {
	c.ConsentAt, c.CapabilityCheckedAt = stampOrNull(c.consent), stampOrNull(c.checked)
	c.FirstReplyAt, c.LastInboundAt, c.LastOutboundAt = stampOrNull(c.reply), stampOrNull(c.inbound), stampOrNull(c.outbound)
	c.CreatedAt, c.UpdatedAt = stamp(c.created), stamp(c.updated)
	return c.Contact
}

func scanContact(row pgx.CollectableRow) (Contact, error) {
	c, into := contactInto()
	if err := row.Scan(into...); err != nil {
		return Contact{}, fmt.Errorf("a contact's row: %w", err)
	}
	return c.contact(), nil
}

func stampOrNull(t *time.Time) *string {
	if t == nil {
		return nil
	}
	s := stamp(*t)
	return &s
}

// Viewer limits what a caller sees. Without an agent it is the whole workspace; an agent sees the contacts of
// interface 4.1 rule 3.
type Viewer struct {
	Workspace uuid.UUID
	Shard     int
	Agent     uuid.UUID // uuid.Nil for callers with full access
}

func (v Viewer) contacts() *filter {
	f := &filter{}
	f.add("c.workspace_id = %s", v.Workspace)
	if v.Agent != uuid.Nil {
		f.add(`(c.owner_user_id = %s or (c.has_conversation and (c.conversation_assignee is null or c.conversation_assignee = %s))
			or (c.owner_user_id is null and not c.has_conversation))`, v.Agent)
	}
	return f
}

// Contact finds a contact that the viewer can see; found is false when there is none.
func (s *Store) Contact(ctx context.Context, v Viewer, id string) (c Contact, found bool, err error) {
	f := v.contacts()
	f.add("c.id = %s", id)
	return single(ctx, s, "contact", scanContact, `select `+contactColumns+` from read.contacts c`+f.where(), f.args...)
}
