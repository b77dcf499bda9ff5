// Package contact holds the state of one contact of a workspace: its fields, labels, consent and assigned line, and
// the decisions that change them (rules CON-1 to CON-8 and CON-11 to CON-16).
package contact

import (
	"github.com/google/uuid"

	"ledgerline/domain/consent"
	"ledgerline/domain/fault"
	"ledgerline/events"
)

// Contact is the state of one contact. The zero value does not exist.
type Contact struct {
	ID             string
	ConversationID string // of its one conversation, which starts with the first message (rule CON-8)
	Organisation   uuid.UUID
	Workspace      uuid.UUID
	NumberHash     string
	Phone          string // E.164; "" once erased
	Consent        consent.Status
	LineID         string // assigned line (rule SND-48); "" for none
	FirstName      *string
	LastName       *string
	Company        *string
	Email          *string
	Fields         map[string]any
	LabelIDs       []uuid.UUID // in the order in which they were added; may include labels that were deleted since
	Owner          *uuid.UUID
	IsTest         bool
	Deleted        bool
}

// Apply returns the state after one event of the contact's stream.
func (c Contact) Apply(event events.Event, in events.Envelope) Contact {
	switch e := event.(type) {
	case *events.ContactCreated:
		return Contact{
			ID: e.ContactID, ConversationID: e.ConversationID, Organisation: in.Organisation, Workspace: in.Workspace,
			NumberHash: e.NumberHash, Phone: e.Person.Phone, Consent: consent.Unknown, Owner: e.OwnerUserID, IsTest: e.IsTest,
			FirstName: e.Person.FirstName, LastName: e.Person.LastName, Company: e.Person.Company, Email: e.Person.Email,
			Fields: e.Person.Fields, LabelIDs: e.LabelIDs,
		}
	case *events.ContactUpdated:
		return c.applyUpdate(e)
	case *events.ContactLabelsChanged:
		c.LabelIDs = applyLabels(c.LabelIDs, e.Added, e.Removed)
	case *events.ContactOptedIn:
		c.Consent = consent.OptedIn
	case *events.ContactOptedOut:
		c.Consent = consent.OptedOut
	case *events.ContactConsentCleared:
		c.Consent = consent.Unknown
	case *events.ContactLineAssigned:
		c.LineID = e.LineID
	case *events.ContactDeleted:
		return Contact{
			ID: c.ID, ConversationID: c.ConversationID, Organisation: c.Organisation, Workspace: c.Workspace, NumberHash: c.NumberHash,
			Consent: c.Consent, IsTest: c.IsTest, Deleted: true,
		}
	}
	return c
}

// Exists reports whether the contact was created and not deleted.
func (c Contact) Exists() bool { return c.ID != "" && !c.Deleted }

// NewContact is what Create makes a contact from.
type NewContact struct {
	ID, ConversationID string
	NumberHash         string
	Person             events.ContactPersonal // Phone in E.164
	LabelIDs           []uuid.UUID
	Owner              *uuid.UUID
	IsTest             bool
	Origin             string // api, message, inbound, import or workflow
	Consent            consent.Status
	Evidence           consent.Evidence
	NumberOptedOut     bool // the register of opt-outs contains the number
}

// Create makes a contact with the consent of rule CON-11: unknown, or opted_in if requested, and opted_out in any
// case if the register contains the number. A requested opted_out is refused with validation_failed. The number must be
// linked in the same append (number.Number).
func Create(n NewContact) ([]events.Event, error) {
	made := []events.Event{&events.ContactCreated{
		ContactID: n.ID, ConversationID: n.ConversationID, NumberHash: n.NumberHash, LabelIDs: n.LabelIDs,
		OwnerUserID: n.Owner, IsTest: n.IsTest, Origin: n.Origin, Person: n.Person,
	}}
	if n.Consent != "" && n.Consent != consent.Unknown && n.Consent != consent.OptedIn {
		return nil, fault.Invalid("/consent_status", "invalid_value", "A new contact's consent is unknown or opted_in.")
	}
	switch {
	case n.NumberOptedOut:
		return append(made, consent.NewEvent(n.ID, n.NumberHash, n.Person.Phone, consent.Unknown, consent.OptedOut, consent.Evidence{}, true)), nil
	case n.Consent == consent.OptedIn:
		return append(made, consent.NewEvent(n.ID, n.NumberHash, n.Person.Phone, consent.Unknown, consent.OptedIn, n.Evidence, false)), nil
	}
	return made, nil
}

// SetConsent records a request about this contact's consent, also if the status stays (rule CON-16). A status that
// does not exist is refused with validation_failed.
func (c Contact) SetConsent(to consent.Status, ev consent.Evidence) ([]events.Event, error) {
	if !to.Valid() {
		return nil, fault.Invalid("/status", "invalid_value", "The consent status is unknown, opted_in or opted_out.")
	}
	return []events.Event{consent.NewEvent(c.ID, c.NumberHash, c.Phone, c.Consent, to, ev, false)}, nil
}

// AssignLine makes a line the contact's assigned line if it has none, or if its present one is out of service (rule
// SND-48); otherwise it returns no event.
func (c Contact) AssignLine(lineID string, outOfService bool) []events.Event {
	if c.LineID == lineID || c.LineID != "" && !outOfService {
		return nil
	}
	return []events.Event{&events.ContactLineAssigned{ContactID: c.ID, LineID: lineID}}
}

// Delete erases the contact (rule CON-7). In the same append the caller unlinks its number and destroys its key.
func (c Contact) Delete() []events.Event {
	if !c.Exists() {
		return nil
	}
	return []events.Event{&events.ContactDeleted{ContactID: c.ID, NumberHash: c.NumberHash}}
}
