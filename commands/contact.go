package commands

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/consent"
	"ledgerline/domain/contact"
	"ledgerline/domain/fault"
	"ledgerline/events"
)

// CreateContact is what a contact is made of (interface 4.1).
type CreateContact struct {
	Phone         string
	FirstName     *string
	LastName      *string
	Company       *string
	Email         *string
	Fields        map[string]any
	Labels        []string // names; unknown ones make the label
	OwnerUserID   *uuid.UUID
	ConsentStatus consent.Status // unknown or opted_in; "" is unknown
	ConsentSource *string
}

// CreateContact makes a contact of the request's workspace; Ref is its id. A number that a contact there has already
// is refused with conflict and details.contact_id; all that is wrong with the input is told together.
func (a *App) CreateContact(ctx context.Context, req Request, in CreateContact) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error { return u.createContact(ctx, &in) })
}

func (u *unit) createContact(ctx context.Context, in *CreateContact) error {
	var issues []fault.Issue
	e164, err := u.Engine.Phone(in.Phone, "/phone")
	if issues, err = collect(issues, err); err != nil {
		return err
	}
	issues, err = collect(issues, u.checkMember(ctx, nil, in.OwnerUserID, "/owner_user_id"))
	if err != nil {
		return err
	}
	labels, wrong, err := u.findOrCreateLabels(ctx, in.Labels, "/labels")
	if err != nil {
		return err
	}
	issues = append(issues, wrong...)
	n := contact.NewContact{
		Person: events.ContactPersonal{
			Phone: e164, FirstName: in.FirstName, LastName: in.LastName, Company: in.Company, Email: in.Email, Fields: in.Fields,
		},
		LabelIDs: labels, Owner: in.OwnerUserID, Origin: "api", IsTest: u.Request.Test, Consent: in.ConsentStatus,
		Evidence: consent.Evidence{Source: in.ConsentSource, IP: u.Request.IP, UserAgent: u.Request.UserAgent},
	}
	issues, err = collect(issues, contact.CheckFields(in.Fields, "/fields"))
	if err != nil {
		return err
	}
	if _, err := contact.Create(n); err != nil {
		if issues, err = collect(issues, err); err != nil {
			return err
		}
	}
	if len(issues) > 0 {
		return fault.Invalids(issues...)
	}
	num, err := u.Number(ctx, e164)
	if err != nil {
		return err
	}
	made, err := u.newContact(num, n)
	if err != nil {
		return err
	}
	u.Ref, u.Subject = made.State.ID, made.State.ID
	return nil
}

// UpsertContact is what a contact is to be, known by its phone (interface 4.5).
type UpsertContact struct {
	Phone     string
	FirstName *string // nil leaves it, here and below
	LastName  *string
	Company   *string
	Email     *string
	Fields    map[string]any // in place of all custom fields
}

// UpsertContact changes the contact of the request's workspace that has a number, or makes one; Ref is its id. Consent
// stays as it is. Refusals are those of CreateContact and UpdateContact.
func (a *App) UpsertContact(ctx context.Context, req Request, in UpsertContact) (r Result, created bool, err error) {
	r, err = a.run(ctx, req, func(ctx context.Context, u *unit) error {
		e164, err := u.Engine.Phone(in.Phone, "/phone")
		var c *engine.Aggregate[contact.Contact]
		if err == nil {
			num, err := u.Number(ctx, e164)
			if err != nil {
				return err
			}
			if c, err = u.holder(ctx, num); err != nil {
				return err
			}
		}
		if created = c == nil; created { // or the number is none, which is told with all else
			return u.createContact(ctx, &CreateContact{
				Phone: in.Phone, FirstName: in.FirstName, LastName: in.LastName, Company: in.Company, Email: in.Email, Fields: in.Fields,
			})
		}
		u.Ref, u.Subject = c.State.ID, c.State.ID
		return u.updateContact(ctx, c, &UpdateContact{
			FirstName: given(in.FirstName), LastName: given(in.LastName), Company: given(in.Company), Email: given(in.Email), Fields: in.Fields,
		})
	})
	return r, created, err
}

func given(value *string) contact.Setting[string] {
	return contact.Setting[string]{Given: value != nil, Value: value}
}

// newContact makes a contact with a number that nobody in the workspace has.
func (u *unit) newContact(num engine.Number, n contact.NewContact) (*engine.Aggregate[contact.Contact], error) {
	n.ID, n.ConversationID = u.Engine.IDs.TypeID("ctc"), u.Engine.IDs.TypeID("cnv")
	n.NumberHash, n.NumberOptedOut = num.Hash, num.State.OptedOut
	made, err := contact.Create(n)
	if err != nil {
		return nil, err
	}
	linked, err := num.State.Link(n.ID, u.Request.Workspace)
	if err != nil {
		return nil, err
	}
	c := engine.Begin(u.Unit, u.Engine.Contacts, n.ID)
	c.Record(made...)
	num.Record(linked...)
	return c, nil
}

// contact loads a contact of the request's workspace.
func (u *unit) contact(ctx context.Context, id string) (*engine.Aggregate[contact.Contact], error) {
	c, err := engine.Load(ctx, u.Unit, u.Engine.Contacts, id)
	if err == nil && (!c.State.Exists() || c.State.Workspace != u.Request.Workspace) {
		err = engine.NotFound("contact")
	}
	return c, err
}

// holder loads the contact of the request's workspace that has a number; nil when none has.
func (u *unit) holder(ctx context.Context, num engine.Number) (*engine.Aggregate[contact.Contact], error) {
	id, found := num.State.ContactIn(u.Request.Workspace)
	if !found {
		return nil, nil //nolint:nilnil // nobody is an answer here
	}
	c, err := engine.Load(ctx, u.Unit, u.Engine.Contacts, id)
	if err == nil && !c.State.Exists() {
		err = engine.ErrInconsistent // deleted between the two looks
	}
	return c, err
}

// DeleteContact erases a contact of the request's workspace: its key is destroyed with the same append. The register
// of opt-outs keeps its number's hash.
func (a *App) DeleteContact(ctx context.Context, req Request, contactID string) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		c, err := u.contact(ctx, contactID)
		if err != nil {
			return err
		}
		num, err := u.NumberByHash(ctx, c.State.NumberHash)
		if err != nil {
			return err
		}
		c.Record(c.State.Delete()...)
		num.Record(num.State.Unlink(contactID)...)
		u.Erase(contactID)
		u.Ref = contactID
		return nil
	})
}

// FindContact reads a contact from the ledger; not_found when there is none or it was deleted.
func (a *App) FindContact(ctx context.Context, contactID string) (contact.Contact, error) {
	found, err := a.engine.Contacts.Find(ctx, contactID, true)
	if err == nil && !found.Exists() {
		err = engine.NotFound("contact")
	}
	return found, err
}
