package events

import (
	"time"

	"github.com/google/uuid"
)

// LabelCreated makes a label of a workspace. Stream: Stream("lbl", id).
type LabelCreated struct {
	LabelID uuid.UUID `json:"label_id"`
	Name    string    `json:"name"`
	Color   *string   `json:"color"`
}

// LabelUpdated changes a label; what is in Changed has its new value here. A new name keeps the label's contacts.
type LabelUpdated struct {
	LabelID uuid.UUID `json:"label_id"`
	Changed []string  `json:"changed"` // name, color
	Name    string    `json:"name,omitempty"`
	Color   *string   `json:"color,omitempty"`
}

// LabelDeleted takes a label off every contact and frees its name.
type LabelDeleted struct {
	LabelID uuid.UUID `json:"label_id"`
}

// ContactCreated makes a contact with consent unknown; consent events follow it. Stream: the contact id.
type ContactCreated struct {
	ContactID      string          `json:"contact_id"`
	ConversationID string          `json:"conversation_id"` // of the one conversation that its first message will start
	NumberHash     string          `json:"number_hash"`
	LabelIDs       []uuid.UUID     `json:"label_ids,omitempty"`
	OwnerUserID    *uuid.UUID      `json:"owner_user_id,omitempty"`
	IsTest         bool            `json:"is_test,omitempty"`
	Origin         string          `json:"origin"` // api, message, inbound, import
	Person         ContactPersonal `json:"-"`
}

// ContactPersonal is what is sealed of a contact.
type ContactPersonal struct {
	Phone     string         `json:"phone,omitempty"` // E.164
	FirstName *string        `json:"first_name,omitempty"`
	LastName  *string        `json:"last_name,omitempty"`
	Company   *string        `json:"company,omitempty"`
	Email     *string        `json:"email,omitempty"`
	Fields    map[string]any `json:"fields,omitempty"`
}

// Subject implements Sealed.
func (e *ContactCreated) Subject() string { return e.ContactID }

// Personal implements Sealed.
func (e *ContactCreated) Personal() any { return &e.Person }

// ContactUpdated changes what is known of a contact. Changed names the fields, and only those have their new values here:
// a field that is in Changed and has no value was emptied.
type ContactUpdated struct {
	ContactID   string          `json:"contact_id"`
	Changed     []string        `json:"changed"`               // phone, first_name, last_name, company, email, fields, owner_user_id
	NumberHash  string          `json:"number_hash,omitempty"` // of the new phone
	OwnerUserID *uuid.UUID      `json:"owner_user_id,omitempty"`
	Person      ContactPersonal `json:"-"`
}

// Subject implements Sealed.
func (e *ContactUpdated) Subject() string { return e.ContactID }

// Personal implements Sealed.
func (e *ContactUpdated) Personal() any { return &e.Person }

// ContactLabelsChanged puts labels on a contact and takes others off.
type ContactLabelsChanged struct {
	ContactID string      `json:"contact_id"`
	Added     []uuid.UUID `json:"added,omitempty"`
	Removed   []uuid.UUID `json:"removed,omitempty"`
}

// ConsentEvidence is what is kept of every change of consent (decisions, section 6). The actor and the time are
// those of the event.
type ConsentEvidence struct {
	ContactID  string          `json:"contact_id"`
	NumberHash string          `json:"number_hash"`
	From       string          `json:"from"` // unknown, opted_in, opted_out
	To         string          `json:"to"`
	Source     *string         `json:"source,omitempty"`
	Keyword    *string         `json:"keyword,omitempty"`
	MessageID  *string         `json:"message_id,omitempty"`
	LineID     *string         `json:"line_id,omitempty"`
	Channel    *string         `json:"channel,omitempty"`
	Register   bool            `json:"register,omitempty"` // followed from the organisation's register, not from a request about this contact
	Evidence   ConsentPersonal `json:"-"`
}

// ConsentPersonal is what is sealed of a consent change.
type ConsentPersonal struct {
	Phone     string `json:"phone,omitempty"`
	Text      string `json:"text,omitempty"` // verbatim text of the message
	IP        string `json:"ip,omitempty"`
	UserAgent string `json:"user_agent,omitempty"`
}

// Subject implements Sealed.
func (e *ConsentEvidence) Subject() string { return e.ContactID }

// Personal implements Sealed.
func (e *ConsentEvidence) Personal() any { return &e.Evidence }

// ContactOptedIn, ContactOptedOut and ContactConsentCleared change the consent of one contact.
type (
	ContactOptedIn        struct{ ConsentEvidence }
	ContactOptedOut       struct{ ConsentEvidence }
	ContactConsentCleared struct{ ConsentEvidence }
)

// ContactLineAssigned makes a line the contact's sticky sender.
type ContactLineAssigned struct {
	ContactID string `json:"contact_id"`
	LineID    string `json:"line_id"`
}

// ContactDeleted erases a contact: its key is destroyed in the same append, and whatever it sealed stays closed.
type ContactDeleted struct {
	ContactID  string `json:"contact_id"`
	NumberHash string `json:"number_hash"`
}

// Number events belong to one phone number within one organisation, known by a keyed hash only, so that they
// outlive every contact. Stream: "num_" + hash.

// NumberLinked tells that a contact of a workspace holds the number, and what was known then of the number itself.
type NumberLinked struct {
	ContactID   string     `json:"contact_id"`
	WorkspaceID uuid.UUID  `json:"workspace_id"`
	Chat        *bool      `json:"chat,omitempty"`            // as NumberChecked told
	CheckedAt   *time.Time `json:"chat_checked_at,omitempty"` // when it did
}

// NumberUnlinked tells that a contact gave the number up.
type NumberUnlinked struct {
	ContactID   string    `json:"contact_id"`
	WorkspaceID uuid.UUID `json:"workspace_id"`
}

// NumberOptedOut enters the number into the organisation's register of opt-outs.
type NumberOptedOut struct {
	ContactID string `json:"contact_id"` // through which it came
}

// NumberOptedIn lifts the number from the register.
type NumberOptedIn struct {
	ContactID string `json:"contact_id"`
}
