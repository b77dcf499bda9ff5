package projections

import (
	"slices"

	"ledgerline/domain/segment"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/projections/readmodel"
)

// Contact is a contact as the API shows it, and defines the columns of its table: see readmodel.TableOf. A field of
// events.ContactPersonal is stored in the column of the same name. The tag search marks texts that the parameter q
// searches; each has a second column with the text folded for comparison without regard to case.
type Contact struct {
	ID                  string         `json:"id" doc:"ctc_ id" sql:"text collate \"C\" not null"`
	Phone               string         `json:"phone" doc:"E.164" sql:"text not null"`
	FirstName           *string        `json:"first_name" sql:"text" search:"q"`
	LastName            *string        `json:"last_name" sql:"text" search:"q"`
	Company             *string        `json:"company" sql:"text" search:"q"`
	Email               *string        `json:"email" sql:"text" search:"q"`
	Fields              map[string]any `json:"fields" doc:"Custom fields" sql:"jsonb not null"`
	Labels              []string       `json:"labels" nullable:"false" doc:"Label names"`
	ConsentStatus       string         `json:"consent_status" enum:"unknown,opted_in,opted_out" sql:"text not null"`
	ConsentAt           *string        `json:"consent_at" format:"date-time" sql:"timestamptz"`
	ConsentSource       *string        `json:"consent_source" sql:"text"`
	AssignedLineID      *string        `json:"assigned_line_id" doc:"ln_ id, the contact's sticky sender" sql:"text collate \"C\""`
	OwnerUserID         *string        `json:"owner_user_id" format:"uuid" sql:"uuid"`
	ChatCapable         *bool          `json:"chat_capable" doc:"Whether the number is reachable on the chat channel" sql:"boolean"`
	CapabilityCheckedAt *string        `json:"capability_checked_at" format:"date-time" sql:"timestamptz"`
	FirstReplyAt        *string        `json:"first_reply_at" format:"date-time" sql:"timestamptz" merge:"first"`
	LastInboundAt       *string        `json:"last_inbound_at" format:"date-time" sql:"timestamptz" merge:"latest"`
	LastOutboundAt      *string        `json:"last_outbound_at" format:"date-time" sql:"timestamptz" merge:"latest"`
	CreatedAt           string         `json:"created_at" format:"date-time" sql:"timestamptz not null"`
	UpdatedAt           string         `json:"updated_at" format:"date-time" sql:"timestamptz not null" merge:"latest"`
}

// searchedColumns are the columns of Contact with the tag search. The folded text of each is in folded_<column>: folded
// in Go, so that it does not depend on the locale of the database.
var searchedColumns = readmodel.Tagged[Contact]("search")

const foldedPrefix = "folded_"

var contactsTable = readmodel.TableOf[Contact]("contacts", []string{"id"}, slices.Concat([]readmodel.Column{
	{Name: "workspace_id", Type: "uuid not null"},
	{Name: "position", Type: "bigint not null"}, // of the event that created the contact; lists have this order
	{Name: "number_hash", Type: `text collate "C" not null`},
	{Name: "has_conversation", Type: "boolean not null"},
	{Name: "conversation_assignee", Type: "uuid"},
	{Name: "folded_fields", Type: "jsonb not null"},
	{Name: "instants", Type: "jsonb not null"}, // custom fields that are times, as milliseconds since 1970
}, foldedColumns())...)

func foldedColumns() []readmodel.Column {
	columns := make([]readmodel.Column, len(searchedColumns))
	for i, name := range searchedColumns {
		columns[i] = readmodel.Column{Name: foldedPrefix + name, Type: `text collate "C"`}
	}
	return columns
}

var contactLabelsTable = &readmodel.Table{Name: "contact_labels", Key: []string{"contact_id", "label_id"}, Columns: []readmodel.Column{
	{Name: "contact_id", Type: `text collate "C" not null`},
	{Name: "label_id", Type: "uuid not null"},
}}

// Contacts is the address book: contacts and labels as they are now.
var Contacts = &readmodel.Projection{
	ID: "contacts", Program: 7,
	// Labels are written before contacts, so that the search index of a contact that is created with labels is written
	// once.
	Tables:   []*readmodel.Table{contactLabelsTable, labelsTable, contactsTable, contactIndexTable, contactTotalsTable, labelCountsTable},
	Triggers: contactTriggers(),
	Indexes: []string{
		`create index on @contacts (workspace_id, position desc)`,
		`create index on @contacts (workspace_id, phone)`,
		`create index on @labels (workspace_id, folded_name)`,
		`create index on @contact_labels (label_id, contact_id)`,
		`create index on @contact_index (workspace_id, position desc)`,
		// fastupdate would collect new entries in a pending list, and every query has to read that list completely.
		`create index on @contact_index using gin (tags, search gin_trgm_ops) with (fastupdate = off)`,
	},
	Handlers: feed.NewHandlers(
		feed.On(contactCreated), feed.On(contactUpdated), feed.On(contactLabelsChanged), feed.On(contactDeleted),
		feed.On(func(c *readmodel.Changes, e *events.ContactOptedIn, r *eventstore.Recorded) {
			setConsent(c, &e.ConsentEvidence, r)
		}),
		feed.On(func(c *readmodel.Changes, e *events.ContactOptedOut, r *eventstore.Recorded) {
			setConsent(c, &e.ConsentEvidence, r)
		}),
		feed.On(func(c *readmodel.Changes, e *events.ContactConsentCleared, r *eventstore.Recorded) {
			setConsent(c, &e.ConsentEvidence, r)
		}),
		feed.On(func(c *readmodel.Changes, e *events.ContactLineAssigned, r *eventstore.Recorded) {
			c.Update(contactsTable, readmodel.Row{"id": e.ContactID, "assigned_line_id": e.LineID, "updated_at": readmodel.Stamp(r.OccurredAt)})
		}),
		feed.On(func(c *readmodel.Changes, e *events.NumberLinked, _ *eventstore.Recorded) { // the contact is new, or its phone changed
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
		// The assignee decides which agents see the contact. The contact itself does not change.
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
	row := readmodel.ValuesOf(e.Person)
	fold(row)
	row["id"], row["workspace_id"], row["position"] = e.ContactID, r.WorkspaceID, r.Position
	row["number_hash"], row["owner_user_id"] = e.NumberHash, e.OwnerUserID
	row["consent_status"], row["has_conversation"] = "unknown", false
	row["created_at"], row["updated_at"] = readmodel.Stamp(r.OccurredAt), readmodel.Stamp(r.OccurredAt)
	c.Insert(contactsTable, row)
}

// contactUpdated stores the fields that changed. The values of an event whose personal data is erased are empty; the
// event that deletes the contact follows.
func contactUpdated(c *readmodel.Changes, e *events.ContactUpdated, r *eventstore.Recorded) {
	row := contactsTable.ChangedValues(e.Person, e.Changed)
	if slices.Contains(e.Changed, "phone") {
		row["number_hash"] = e.NumberHash
	}
	if slices.Contains(e.Changed, "owner_user_id") {
		row["owner_user_id"] = e.OwnerUserID
	}
	fold(row)
	row["id"], row["updated_at"] = e.ContactID, readmodel.Stamp(r.OccurredAt)
	c.Update(contactsTable, row)
}

// fold adds derived columns to a row: the folded texts of its searched columns, and the forms of its custom fields that
// segments compare.
func fold(row readmodel.Row) {
	for _, name := range searchedColumns {
		if value, set := row[name]; set {
			row[foldedPrefix+name] = nil
			if text, _ := value.(*string); text != nil {
				row[foldedPrefix+name] = segment.Fold(*text)
			}
		}
	}
	if value, set := row["fields"]; set {
		fields, _ := value.(map[string]any)
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

func setConsent(c *readmodel.Changes, e *events.ConsentEvidence, r *eventstore.Recorded) {
	at := readmodel.Stamp(r.OccurredAt)
	c.Update(contactsTable, readmodel.Row{"id": e.ContactID, "consent_status": e.To, "consent_at": at, "consent_source": e.Source, "updated_at": at})
}

// contactLabelsSQL is the label names of contact c.
const contactLabelsSQL = `array(select l.name from read.contact_labels cl join read.labels l on l.id = cl.label_id
	where cl.contact_id = c.id order by l.folded_name)`

// contactFields selects contact c.
var contactFields = readmodel.Select[Contact](contactsTable, "c", map[string]string{"labels": contactLabelsSQL})

// listedContact is a contact with its position in lists.
type listedContact struct {
	Contact
	Position int64 `json:"-" column:"position"`
}

var listedContactFields = readmodel.Select[listedContact](contactsTable, "c", map[string]string{"labels": contactLabelsSQL})
