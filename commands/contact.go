package commands

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/consent"
	"ledgerline/domain/contact"
	"ledgerline/events"
)

// CreateContact has the properties of a new contact (rules CON-2 and CON-3).
type CreateContact struct {
	Phone         string
	FirstName     *string
	LastName      *string
	Company       *string
	Email         *string
	Fields        map[string]any
	Labels        []string // names; labels that do not exist are created
	OwnerUserID   *uuid.UUID
	ConsentStatus consent.Status // unknown or opted_in; "" is unknown
	ConsentSource *string
}

// CreateContact creates a contact of the request's workspace; Ref is its id. Refusals: validation_failed with all that
// is wrong, conflict with details.contact_id for a number that a contact of the workspace has.
func (a *App) CreateContact(ctx context.Context, req Request, in CreateContact) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error { return u.createContact(ctx, &in) })
}

func (u *unit) createContact(ctx context.Context, in *CreateContact) error {
	var issues issueList
	e164, err := u.Engine.Phone(in.Phone, "/phone")
	if err := issues.collect(err, u.checkMember(ctx, nil, in.OwnerUserID, "/owner_user_id")); err != nil {
		return err
	}
	labelIDs, labelIssues, err := u.findOrCreateLabels(ctx, in.Labels, "/labels")
	if err != nil {
		return err
	}
	issues = append(issues, labelIssues...)
	created := contact.NewContact{
		Person: events.ContactPersonal{
			Phone: e164, FirstName: in.FirstName, LastName: in.LastName, Company: in.Company, Email: in.Email, Fields: in.Fields,
		},
		LabelIDs: labelIDs, Owner: in.OwnerUserID, Origin: "api", IsTest: u.Request.Test, Consent: in.ConsentStatus,
		Evidence: consent.Evidence{Source: in.ConsentSource, IP: u.Request.IP, UserAgent: u.Request.UserAgent},
	}
	_, err = contact.Create(created)
	if err := issues.collect(contact.CheckFields(in.Fields, "/fields"), err); err != nil {
		return err
	}
	if err := issues.fault(); err != nil {
		return err
	}
	num, err := u.Number(ctx, e164)
	if err != nil {
		return err
	}
	c, err := u.recordNewContact(num, created)
	if err != nil {
		return err
	}
	u.Ref, u.Subject = c.State.ID, c.State.ID
	return nil
}

// UpsertContact is what a contact with a phone number is to be; nil leaves a field as it is.
type UpsertContact struct {
	Phone     string
	FirstName *string
	LastName  *string
	Company   *string
	Email     *string
	Fields    map[string]any // replaces all custom fields
}

// UpsertContact updates the contact of the request's workspace that has a number, or creates one; Ref is its id.
// Consent is not changed (rule ACC-30). Refusals are those of CreateContact and UpdateContact.
func (a *App) UpsertContact(ctx context.Context, req Request, in UpsertContact) (r Result, created bool, err error) {
	r, err = a.run(ctx, req, func(ctx context.Context, u *unit) error {
		e164, err := u.Engine.Phone(in.Phone, "/phone")
		var c *engine.Aggregate[contact.Contact]
		if err == nil {
			num, err := u.Number(ctx, e164)
			if err != nil {
				return err
			}
			if c, err = u.findContact(ctx, num); err != nil {
				return err
			}
		}
		created = c == nil
		if created { // also for an invalid number, which createContact reports together with all other issues
			return u.createContact(ctx, &CreateContact{
				Phone: in.Phone, FirstName: in.FirstName, LastName: in.LastName, Company: in.Company, Email: in.Email, Fields: in.Fields,
			})
		}
		u.Ref, u.Subject = c.State.ID, c.State.ID
		return u.updateContact(ctx, c, &UpdateContact{
			FirstName: setUnlessNil(in.FirstName), LastName: setUnlessNil(in.LastName), Company: setUnlessNil(in.Company),
			Email: setUnlessNil(in.Email), Fields: in.Fields,
		})
	})
	return r, created, err
}

// setUnlessNil is the setting of a field to a value; nil leaves the field as it is.
func setUnlessNil(value *string) contact.Setting[string] {
	return contact.Setting[string]{Given: value != nil, Value: value}
}

// recordNewContact records a new contact with a number that no contact of the workspace has.
func (u *unit) recordNewContact(num engine.Number, n contact.NewContact) (*engine.Aggregate[contact.Contact], error) {
	n.ID, n.ConversationID = u.Engine.IDs.TypeID("ctc"), u.Engine.IDs.TypeID("cnv")
	n.NumberHash, n.NumberOptedOut = num.Hash, num.State.OptedOut
	created, err := contact.Create(n)
	if err != nil {
		return nil, err
	}
	linked, err := num.State.Link(n.ID, u.Request.Workspace)
	if err != nil {
		return nil, err
	}
	c := engine.Begin(u.Unit, u.Engine.Contacts, n.ID)
	c.Record(created...)
	num.Record(linked...)
	return c, nil
}

// loadContact loads a contact of the request's workspace; not_found when there is none or it was deleted.
func (u *unit) loadContact(ctx context.Context, id string) (*engine.Aggregate[contact.Contact], error) {
	c, err := engine.Load(ctx, u.Unit, u.Engine.Contacts, id)
	if err == nil && (!c.State.Exists() || c.State.Workspace != u.Request.Workspace) {
		err = engine.NotFound("contact")
	}
	return c, err
}

// findContact loads the contact of the request's workspace that has a number; nil when there is none.
func (u *unit) findContact(ctx context.Context, num engine.Number) (*engine.Aggregate[contact.Contact], error) {
	id, found := num.State.ContactIn(u.Request.Workspace)
	if !found {
		return nil, nil //nolint:nilnil // a number without a contact is no error
	}
	c, err := engine.Load(ctx, u.Unit, u.Engine.Contacts, id)
	if err == nil && !c.State.Exists() {
		err = engine.ErrInconsistent // deleted after the number was read
	}
	return c, err
}

// DeleteContact erases a contact of the request's workspace: the key of its personal data is destroyed with the same
// append. Its number stays in the register of opt-outs (rule CON-7).
func (a *App) DeleteContact(ctx context.Context, req Request, contactID string) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		c, err := u.loadContact(ctx, contactID)
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
