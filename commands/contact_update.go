package commands

import (
	"context"
	"maps"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/contact"
)

// UpdateContact has the changes of a contact (rules CON-2 to CON-6). The zero value changes nothing.
type UpdateContact struct {
	Phone     *string // as it was typed
	FirstName contact.Setting[string]
	LastName  contact.Setting[string]
	Company   contact.Setting[string]
	Email     contact.Setting[string]
	Owner     contact.Setting[uuid.UUID]
	// Fields replaces all custom fields; MergeFields sets some and leaves the others. At most one of the two is set.
	Fields      map[string]any
	MergeFields map[string]any
	// Labels replaces the labels by those with these names; nil leaves them. Without Labels, AddLabels and RemoveLabels
	// change some. Names without a label create it, except in RemoveLabels, where they are ignored.
	Labels       []string
	AddLabels    []string
	RemoveLabels []string
}

// UpdateContact changes a contact of the request's workspace. Values that stay the same record no event. A new phone
// number follows the register of opt-outs, and messages to the old number that have not left fail (rule CON-6).
// Refusals: not_found, validation_failed with all that is wrong, conflict with details.contact_id for a number that
// another contact of the workspace has.
func (a *App) UpdateContact(ctx context.Context, req Request, contactID string, in UpdateContact) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		c, err := u.loadContact(ctx, contactID)
		if err != nil {
			return err
		}
		u.Ref, u.Subject = contactID, contactID
		return u.updateContact(ctx, c, &in)
	})
}

// ChangeContactLabels adds labels to a contact of the request's workspace and removes others, by name. A name that is
// in both lists is added.
func (a *App) ChangeContactLabels(ctx context.Context, req Request, contactID string, add, remove []string) (Result, error) {
	return a.UpdateContact(ctx, req, contactID, UpdateContact{AddLabels: add, RemoveLabels: remove})
}

func (u *unit) updateContact(ctx context.Context, c *engine.Aggregate[contact.Contact], in *UpdateContact) error {
	patch := contact.Patch{
		FirstName: in.FirstName, LastName: in.LastName, Company: in.Company, Email: in.Email, Owner: in.Owner, Fields: in.Fields,
	}
	if len(in.MergeFields) > 0 {
		patch.Fields = maps.Clone(in.MergeFields)
		for name, value := range c.State.Fields {
			if _, given := in.MergeFields[name]; !given {
				patch.Fields[name] = value
			}
		}
	}
	var issues issueList
	if in.Phone != nil {
		var err error
		patch.Phone, err = u.Engine.Phone(*in.Phone, "/phone")
		if err := issues.collect(err); err != nil {
			return err
		}
	}
	if err := issues.collect(
		u.checkMember(ctx, c.State.Owner, in.Owner.Value, "/owner_user_id"),
		contact.CheckFields(patch.Fields, "/fields"),
		u.changeLabels(ctx, c, in),
	); err != nil {
		return err
	}
	if err := issues.fault(); err != nil {
		return err
	}
	return u.recordPatch(ctx, c, patch)
}

// recordPatch records the changed fields. A new phone number also moves the contact from its old number to the new one.
func (u *unit) recordPatch(ctx context.Context, c *engine.Aggregate[contact.Contact], patch contact.Patch) error {
	if patch.Phone == "" || patch.Phone == c.State.Phone {
		c.Record(c.State.Update(patch)...)
		return nil
	}
	before, err := u.NumberByHash(ctx, c.State.NumberHash)
	if err != nil {
		return err
	}
	after, err := u.Number(ctx, patch.Phone)
	if err != nil {
		return err
	}
	linked, err := after.State.Link(c.State.ID, c.State.Workspace)
	if err != nil {
		return err
	}
	patch.NumberHash = after.Hash
	c.Record(c.State.Update(patch)...)
	before.Record(before.State.Unlink(c.State.ID)...)
	after.Record(linked...)
	if after.State.OptedOut {
		c.Record(c.State.FollowRegister()...)
	}
	return nil
}

// changeLabels records the changes of a contact's labels. What is wrong with the names is returned as
// validation_failed.
func (u *unit) changeLabels(ctx context.Context, c *engine.Aggregate[contact.Contact], in *UpdateContact) error {
	if in.Labels == nil && len(in.AddLabels)+len(in.RemoveLabels) == 0 {
		return nil
	}
	names, pointer := in.AddLabels, "/add"
	if in.Labels != nil {
		names, pointer = in.Labels, "/labels"
	}
	add, issues, err := u.findOrCreateLabels(ctx, names, pointer)
	if err != nil {
		return err
	}
	if err := issues.fault(); err != nil {
		return err
	}
	var remove []uuid.UUID
	if in.Labels == nil {
		remove, err = u.findLabels(ctx, in.RemoveLabels)
	} else {
		remove, err = u.existingLabels(ctx, c.State.LabelIDs)
	}
	if err != nil {
		return err
	}
	changed, err := c.State.ChangeLabels(add, remove, pointer)
	c.Record(changed...)
	return err
}
