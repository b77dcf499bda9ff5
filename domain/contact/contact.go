// Package contact is one person that a workspace writes to: its consent, its sticky line, its end.
package contact

import (
	"github.com/google/uuid"

	"ledgerline/domain/consent"
	"ledgerline/domain/fault"
	"ledgerline/events"
)

// Contact is the state of one contact. The zero value is a contact that does not exist.
type Contact struct {
	ID             string
	ConversationID string // of the one conversation, whether it has started or not
	Organisation   uuid.UUID
	Workspace      uuid.UUID
	NumberHash     string
	Phone          string // E.164; "" when erased
	Consent        consent.Status
	LineID         string // sticky sender; "" when none
	FirstName      *string
	LastName       *string
	Company        *string
	Email          *string
	Fields         map[string]any
	LabelIDs       []uuid.UUID // in the order in which they came; a deleted label may still be among them
	Owner          *uuid.UUID
	IsTest         bool
	Deleted        bool
}

// Apply folds one event.
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

// Exists tells whether the contact was made and not deleted.
func (c Contact) Exists() bool { return c.ID != "" && !c.Deleted }

// NewContact is what a contact is made of.
type NewContact struct {
	ID, ConversationID string
	NumberHash         string
	Person             events.ContactPersonal // Phone in E.164
	LabelIDs           []uuid.UUID
	Owner              *uuid.UUID
	IsTest             bool
	Origin             string // api, message, inbound or import
	Consent            consent.Status
	Evidence           consent.Evidence
	NumberOptedOut     bool // the organisation's register of opt-outs holds the number
}

// Create makes a contact with the consent of interface 3.1: unknown, or opted_in when asked, and opted_out whatever
// was asked when the register holds the number. opted_out cannot be asked for.
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

// SetConsent records what was asked about this contact, also when it is what the contact has already: auditors want
// every act, and From and To show whether anything changed.
func (c Contact) SetConsent(to consent.Status, ev consent.Evidence) ([]events.Event, error) {
	if !to.Valid() {
		return nil, fault.Invalid("/status", "invalid_value", "The consent status is unknown, opted_in or opted_out.")
	}
	return []events.Event{consent.NewEvent(c.ID, c.NumberHash, c.Phone, c.Consent, to, ev, false)}, nil
}

// FollowOptOut opts the contact out because its number was opted out through another one. Nothing follows for a
// contact that is opted out already, or gone.
func (c Contact) FollowOptOut(ev consent.Evidence) []events.Event {
	if !c.Exists() || c.Consent == consent.OptedOut {
		return nil
	}
	return []events.Event{consent.NewEvent(c.ID, c.NumberHash, c.Phone, c.Consent, consent.OptedOut, ev, true)}
}

// AssignLine makes a line the sticky sender of a contact that has none, or whose own one is gone for good.
func (c Contact) AssignLine(lineID string, gone bool) []events.Event {
	if c.LineID == lineID || c.LineID != "" && !gone {
		return nil
	}
	return []events.Event{&events.ContactLineAssigned{ContactID: c.ID, LineID: lineID}}
}

// Delete ends the contact; its number must be unlinked and its key destroyed in the same append.
func (c Contact) Delete() []events.Event {
	if !c.Exists() {
		return nil
	}
	return []events.Event{&events.ContactDeleted{ContactID: c.ID, NumberHash: c.NumberHash}}
}
