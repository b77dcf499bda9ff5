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
	"ledgerline/eventstore/feed"
	"ledgerline/projections/readmodel"
)

var contactsTable = &readmodel.Table{Name: "contacts", Key: []string{"id"}, Columns: []readmodel.Column{
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
	{Name: "first_reply_at", Type: "timestamptz", Merge: readmodel.KeepFirst},
	{Name: "last_inbound_at", Type: "timestamptz", Merge: readmodel.Latest},
	{Name: "last_outbound_at", Type: "timestamptz", Merge: readmodel.Latest},
	{Name: "created_at", Type: "timestamptz not null"},
	{Name: "updated_at", Type: "timestamptz not null", Merge: readmodel.Latest},
	// What is compared without regard to case, folded by the service itself, so that it does not depend on the database's locale.
	{Name: "folded_first_name", Type: `text collate "C"`},
	{Name: "folded_last_name", Type: `text collate "C"`},
	{Name: "folded_company", Type: `text collate "C"`},
	{Name: "folded_email", Type: `text collate "C"`},
	{Name: "folded_fields", Type: "jsonb not null"},
	{Name: "instants", Type: "jsonb not null"}, // custom fields that are times, in milliseconds since 1970
}}

var contactLabelsTable = &readmodel.Table{Name: "contact_labels", Key: []string{"contact_id", "label_id"}, Columns: []readmodel.Column{
	{Name: "contact_id", Type: `text collate "C" not null`},
	{Name: "label_id", Type: "uuid not null"},
}}

// Contacts is the address book: contacts and labels as they are now.
var Contacts = &readmodel.Projection{
	ID: "contacts", Program: 6,
	// Labels come first, so that the index of a contact that is made with labels is written once.
	Tables:   []*readmodel.Table{contactLabelsTable, labelsTable, contactsTable, contactIndexTable, contactPlacesTable, labelCountsTable},
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
	Handlers: feed.NewHandlers(
		feed.On(contactCreated), feed.On(contactUpdated), feed.On(contactLabelsChanged), feed.On(contactDeleted),
		feed.On(func(c *readmodel.Changes, e *events.ContactOptedIn, r *eventstore.Recorded) {
			c.Update(contactsTable, consentRow(&e.ConsentEvidence, r))
		}),
		feed.On(func(c *readmodel.Changes, e *events.ContactOptedOut, r *eventstore.Recorded) {
			c.Update(contactsTable, consentRow(&e.ConsentEvidence, r))
		}),
		feed.On(func(c *readmodel.Changes, e *events.ContactConsentCleared, r *eventstore.Recorded) {
			c.Update(contactsTable, consentRow(&e.ConsentEvidence, r))
		}),
		feed.On(func(c *readmodel.Changes, e *events.ContactLineAssigned, r *eventstore.Recorded) {
			c.Update(contactsTable, readmodel.Row{"id": e.ContactID, "assigned_line_id": e.LineID, "updated_at": readmodel.Stamp(r.OccurredAt)})
		}),
		feed.On(func(c *readmodel.Changes, e *events.NumberLinked, _ *eventstore.Recorded) { // a new contact, or a new number
			c.Update(contactsTable, readmodel.Row{
				"id": e.ContactID, "chat_capable": e.Chat, "capability_checked_at": readmodel.StampOrNull(e.CheckedAt),
			})
		}),
		feed.On(func(c *readmodel.Changes, e *events.NumberChecked, r *eventstore.Recorded) {
			for _, contact := range e.ContactIDs {
				c.Update(contactsTable, readmodel.Row{"id": contact, "chat_capable": e.Chat, "capability_checked_at": readmodel.Stamp(r.OccurredAt)})
			}
		}),
		feed.On(func(c *readmodel.Changes, e *events.ConversationStarted, _ *eventstore.Recorded) {
			c.Update(contactsTable, readmodel.Row{"id": e.ContactID, "has_conversation": true})
		}),
		// The assignee decides which agents see the contact. It is no change of the contact itself.
		feed.On(func(c *readmodel.Changes, e *events.ConversationAssigned, _ *eventstore.Recorded) {
			c.Update(contactsTable, readmodel.Row{"id": e.ContactID, "conversation_assignee": e.To})
		}),
		feed.On(func(c *readmodel.Changes, e *events.MessageSent, r *eventstore.Recorded) {
			c.Update(contactsTable, readmodel.Row{"id": e.ContactID, "last_outbound_at": readmodel.Stamp(r.OccurredAt)})
		}),
		feed.On(func(c *readmodel.Changes, e *events.MessageReceived, r *eventstore.Recorded) {
			at := readmodel.Stamp(r.OccurredAt)
			c.Update(contactsTable, readmodel.Row{"id": e.ContactID, "first_reply_at": at, "last_inbound_at": at})
		}),
		feed.On(labelCreated), feed.On(labelUpdated), feed.On(labelDeleted),
	),
}

func contactCreated(c *readmodel.Changes, e *events.ContactCreated, r *eventstore.Recorded) {
	for _, label := range e.LabelIDs {
		c.Insert(contactLabelsTable, readmodel.Row{"contact_id": e.ContactID, "label_id": label})
	}
	c.Insert(contactsTable, contactRow(r, e))
}

func contactUpdated(c *readmodel.Changes, e *events.ContactUpdated, r *eventstore.Recorded) {
	c.Update(contactsTable, updatedRow(e, readmodel.Stamp(r.OccurredAt)))
}

func contactLabelsChanged(c *readmodel.Changes, e *events.ContactLabelsChanged, r *eventstore.Recorded) {
	for _, label := range e.Removed {
		c.Delete(contactLabelsTable, readmodel.Row{"contact_id": e.ContactID, "label_id": label})
	}
	for _, label := range e.Added {
		c.Insert(contactLabelsTable, readmodel.Row{"contact_id": e.ContactID, "label_id": label})
	}
	c.Update(contactsTable, readmodel.Row{"id": e.ContactID, "updated_at": readmodel.Stamp(r.OccurredAt)})
}

func contactDeleted(c *readmodel.Changes, e *events.ContactDeleted, _ *eventstore.Recorded) {
	c.Delete(contactsTable, readmodel.Row{"id": e.ContactID})
	c.DeleteWhere(contactLabelsTable, "contact_id", e.ContactID)
}

func contactRow(r *eventstore.Recorded, e *events.ContactCreated) readmodel.Row {
	row := readmodel.Row{
		"id": e.ContactID, "workspace_id": r.WorkspaceID, "position": r.Position, "number_hash": e.NumberHash, "phone": e.Person.Phone,
		"consent_status": "unknown", "owner_user_id": e.OwnerUserID, "has_conversation": false,
		"created_at": readmodel.Stamp(r.OccurredAt), "updated_at": readmodel.Stamp(r.OccurredAt),
	}
	setFolded(row, "first_name", e.Person.FirstName)
	setFolded(row, "last_name", e.Person.LastName)
	setFolded(row, "company", e.Person.Company)
	setFolded(row, "email", e.Person.Email)
	setFields(row, e.Person.Fields)
	return row
}

// text sets a column together with its folded twin.
func setFolded(row readmodel.Row, name string, value *string) {
	row[name], row["folded_"+name] = value, nil
	if value != nil {
		row["folded_"+name] = segment.Fold(*value)
	}
}

// fields sets the custom fields together with what they are compared by.
func setFields(row readmodel.Row, fields map[string]any) {
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
func updatedRow(e *events.ContactUpdated, at string) readmodel.Row {
	row := readmodel.Row{"id": e.ContactID, "updated_at": at}
	for _, name := range e.Changed {
		switch name {
		case "phone":
			row["phone"], row["number_hash"] = e.Person.Phone, e.NumberHash
		case "first_name":
			setFolded(row, name, e.Person.FirstName)
		case "last_name":
			setFolded(row, name, e.Person.LastName)
		case "company":
			setFolded(row, name, e.Person.Company)
		case "email":
			setFolded(row, name, e.Person.Email)
		case "fields":
			setFields(row, e.Person.Fields)
		case "owner_user_id":
			row["owner_user_id"] = e.OwnerUserID
		}
	}
	return row
}

func consentRow(e *events.ConsentEvidence, r *eventstore.Recorded) readmodel.Row {
	at := readmodel.Stamp(r.OccurredAt)
	return readmodel.Row{"id": e.ContactID, "consent_status": e.To, "consent_at": at, "consent_source": e.Source, "updated_at": at}
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
	c.ConsentAt, c.CapabilityCheckedAt = readmodel.StampOrNull(c.consent), readmodel.StampOrNull(c.checked)
	c.FirstReplyAt, c.LastInboundAt, c.LastOutboundAt = readmodel.StampOrNull(c.reply), readmodel.StampOrNull(c.inbound), readmodel.StampOrNull(c.outbound)
	c.CreatedAt, c.UpdatedAt = readmodel.Stamp(c.created), readmodel.Stamp(c.updated)
	return c.Contact
}

func scanContact(row pgx.CollectableRow) (Contact, error) {
	c, into := contactInto()
	if err := row.Scan(into...); err != nil {
		return Contact{}, fmt.Errorf("a contact's row: %w", err)
	}
	return c.contact(), nil
}

func (v Viewer) contacts() *readmodel.Filter {
	f := &readmodel.Filter{}
	f.Add("c.workspace_id = %s", v.Workspace)
	if v.Agent != uuid.Nil {
		f.Add(`(c.owner_user_id = %s or (c.has_conversation and (c.conversation_assignee is null or c.conversation_assignee = %s))
			or (c.owner_user_id is null and not c.has_conversation))`, v.Agent)
	}
	return f
}

// Contact finds a contact that the viewer can see; found is false when there is none.
func (s *Store) Contact(ctx context.Context, v Viewer, id string) (c Contact, found bool, err error) {
	f := v.contacts()
	f.Add("c.id = %s", id)
	return readmodel.One(ctx, s.Reader, "contact", scanContact, `select `+contactColumns+` from read.contacts c`+f.Where(), f.Args...)
}
