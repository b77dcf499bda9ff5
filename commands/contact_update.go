package commands

import (
	"context"
	"maps"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/contact"
	"ledgerline/domain/fault"
)

// UpdateContact is what may be changed of a contact (interface 4.1). The zero value changes nothing.
type UpdateContact struct {
	Phone     *string // as it was typed
	FirstName contact.Setting[string]
	LastName  contact.Setting[string]
	Company   contact.Setting[string]
	Email     contact.Setting[string]
	Owner     contact.Setting[uuid.UUID]
	// Fields replaces the custom fields, MergeFields sets some of them and leaves the others; at most one is given.
	Fields      map[string]any
	MergeFields map[string]any
	// Labels replaces the labels by those with these names, nil leaves them; in place of it, AddLabels and RemoveLabels
	// change some. A name that does not exist makes the label, except in RemoveLabels, where it means nothing.
	Labels       []string
	AddLabels    []string
	RemoveLabels []string
}

// UpdateContact changes a contact of the request's workspace. What is as it should be is no event; all that is wrong with
// the input is told together. A new phone follows the register of opt-outs (interface 3.1); one that another contact there
// has is refused with conflict and details.contact_id. What waits to be sent to the old number is not sent.
func (a *App) UpdateContact(ctx context.Context, req Request, contactID string, in UpdateContact) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		c, err := u.contact(ctx, contactID)
		if err != nil {
			return err
		}
		u.Ref, u.Subject = contactID, contactID
		return u.updateContact(ctx, c, &in)
	})
}

// ChangeContactLabels puts labels on a contact of the request's workspace and takes others off, by name. A name in both is put on.
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
	var issues []fault.Issue
	var err error
	if in.Phone != nil {
		patch.Phone, err = u.Engine.Phone(*in.Phone, "/phone")
		if issues, err = collect(issues, err); err != nil {
			return err
		}
	}
	if issues, err = collect(issues, u.checkMember(ctx, c.State.Owner, in.Owner.Value, "/owner_user_id")); err != nil {
		return err
	}
	if issues, err = collect(issues, contact.CheckFields(patch.Fields, "/fields")); err != nil {
		return err
	}
	if issues, err = u.changeLabels(ctx, c, in, issues); err != nil {
		return err
	}
	if len(issues) > 0 {
		return fault.Invalids(issues...)
	}
	return u.patch(ctx, c, patch)
}

// patch records the changes, and what a new phone brings with it.
func (u *unit) patch(ctx context.Context, c *engine.Aggregate[contact.Contact], patch contact.Patch) error {
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

// changeLabels records what becomes of the contact's labels, and adds what is wrong with their names to the issues.
func (u *unit) changeLabels(ctx context.Context, c *engine.Aggregate[contact.Contact], in *UpdateContact, issues []fault.Issue) ([]fault.Issue, error) {
	if in.Labels == nil && len(in.AddLabels)+len(in.RemoveLabels) == 0 {
		return issues, nil
	}
	names, pointer := in.AddLabels, "/add"
	if in.Labels != nil {
		names, pointer = in.Labels, "/labels"
	}
	add, wrong, err := u.findOrCreateLabels(ctx, names, pointer)
	if err != nil || len(wrong) > 0 {
		return append(issues, wrong...), err
	}
	var remove []uuid.UUID
	if in.Labels == nil {
		remove, err = u.findLabels(ctx, in.RemoveLabels)
	} else {
		remove, err = u.existingLabels(ctx, c.State.LabelIDs)
	}
	if err != nil {
		return issues, err
	}
	changed, err := c.State.ChangeLabels(add, remove, pointer)
	c.Record(changed...)
	return collect(issues, err)
}
