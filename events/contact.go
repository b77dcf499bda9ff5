package events

import (
	"time"

	"github.com/google/uuid"
)

// LabelCreated creates a label in a workspace. Stream: Stream("lbl", id).
type LabelCreated struct {
	LabelID uuid.UUID `json:"label_id"`
	Name    string    `json:"name"`
	Color   *string   `json:"color"`
}

// LabelUpdated changes a label. Only the fields in Changed have values. A label that gets a new name keeps its
// contacts.
type LabelUpdated struct {
	LabelID uuid.UUID `json:"label_id"`
	Changed []string  `json:"changed"` // name, color
	Name    string    `json:"name,omitempty"`
	Color   *string   `json:"color,omitempty"`
}

// LabelDeleted deletes a label, removes it from all contacts and frees its name.
type LabelDeleted struct {
	LabelID uuid.UUID `json:"label_id"`
}

// ContactCreated creates a contact with unknown consent; events about consent follow it. Stream: the contact id.
type ContactCreated struct {
	ContactID      string          `json:"contact_id"`
	ConversationID string          `json:"conversation_id"` // of the conversation that the first message will start
	NumberHash     string          `json:"number_hash"`
	LabelIDs       []uuid.UUID     `json:"label_ids,omitempty"`
	OwnerUserID    *uuid.UUID      `json:"owner_user_id,omitempty"`
	IsTest         bool            `json:"is_test,omitempty"`
	Origin         string          `json:"origin"` // api, message, inbound, import, workflow
	Person         ContactPersonal `json:"-"`
}

// ContactPersonal is the personal data of a contact.
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

// ContactUpdated changes a contact. Only the fields in Changed have values; a field in Changed without a value was
// emptied.
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

// ContactLabelsChanged adds labels to a contact and removes others.
type ContactLabelsChanged struct {
	ContactID string      `json:"contact_id"`
	Added     []uuid.UUID `json:"added,omitempty"`
	Removed   []uuid.UUID `json:"removed,omitempty"`
}

// ConsentEvidence is the evidence of a change of consent. Actor and time are those of the event.
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
	Register   bool            `json:"register,omitempty"` // the organisation's register of opt-outs caused the change, not a request about this contact
	Evidence   ConsentPersonal `json:"-"`
}

// ConsentPersonal is the personal data in the evidence of a change of consent.
type ConsentPersonal struct {
	Phone     string `json:"phone,omitempty"`
	Text      string `json:"text,omitempty"` // of the message, verbatim
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

// ContactLineAssigned makes a line the contact's assigned line, which sends to it from now on if it can (rule SND-48).
type ContactLineAssigned struct {
	ContactID string `json:"contact_id"`
	LineID    string `json:"line_id"`
}

// ContactDeleted erases a contact: the same append destroys its key, so its personal data can never be decrypted again.
type ContactDeleted struct {
	ContactID  string `json:"contact_id"`
	NumberHash string `json:"number_hash"`
}

// The events of a number belong to one phone number within one organisation. They contain only a keyed hash of the
// number, so they outlive the erasure of contacts. Stream: "num_" + hash.

// NumberLinked records that a contact has the number, and whether the number was known to be on the chat channel.
type NumberLinked struct {
	ContactID   string     `json:"contact_id"`
	WorkspaceID uuid.UUID  `json:"workspace_id"`
	Chat        *bool      `json:"chat,omitempty"`            // as in NumberChecked; nil: not known
	CheckedAt   *time.Time `json:"chat_checked_at,omitempty"` // when that was checked
}

// NumberUnlinked records that a contact no longer has the number.
type NumberUnlinked struct {
	ContactID   string    `json:"contact_id"`
	WorkspaceID uuid.UUID `json:"workspace_id"`
}

// NumberOptedOut adds the number to the organisation's register of opt-outs.
type NumberOptedOut struct {
	ContactID string `json:"contact_id"` // the contact that opted out
}

// NumberOptedIn removes the number from the register.
type NumberOptedIn struct {
	ContactID string `json:"contact_id"`
}
