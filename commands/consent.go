package commands

import (
	"context"

	"ledgerline/commands/engine"
	"ledgerline/domain/consent"
	"ledgerline/domain/contact"
)

// SetConsent changes the consent of a contact of the request's workspace by explicit request. An opt-out enters the
// number into the organisation's register and reaches every contact with the number. An opt-in takes the number out of
// the register and changes this contact only; unknown changes this contact only (rules CON-13 and CON-14).
func (a *App) SetConsent(ctx context.Context, req Request, contactID string, to consent.Status, source string) (Result, error) {
	return a.setConsent(ctx, req, contactID, to, consent.Evidence{Source: &source})
}

// OptOut is SetConsent to opted_out, with the keyword that the contact used; nil for none.
func (a *App) OptOut(ctx context.Context, req Request, contactID, source string, keyword *string) (Result, error) {
	return a.setConsent(ctx, req, contactID, consent.OptedOut, consent.Evidence{Source: &source, Keyword: keyword})
}

func (a *App) setConsent(ctx context.Context, req Request, contactID string, to consent.Status, ev consent.Evidence) (Result, error) {
	ev.IP, ev.UserAgent = req.IP, req.UserAgent
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		c, err := u.loadContact(ctx, contactID)
		if err != nil {
			return err
		}
		num, err := u.NumberByHash(ctx, c.State.NumberHash)
		if err != nil {
			return err
		}
		u.Ref, u.Subject = contactID, contactID
		return u.changeConsent(ctx, c, num, to, ev)
	})
}

// changeConsent changes a contact's consent, the register of opt-outs, and with an opt-out the other contacts of the
// number in every workspace of the organisation. Those get neither the evidence nor the actor, which belong to this
// workspace.
func (u *unit) changeConsent(ctx context.Context, c *engine.Aggregate[contact.Contact], num engine.Number, to consent.Status, ev consent.Evidence) error {
	changed, err := c.State.SetConsent(to, ev)
	if err != nil {
		return err
	}
	c.Record(changed...)
	switch to {
	case consent.OptedIn:
		num.Record(num.State.OptIn(c.State.ID)...)
	case consent.OptedOut:
		num.Record(num.State.OptOut(c.State.ID)...)
		for _, holder := range num.State.Holders {
			if holder.ContactID == c.State.ID {
				continue
			}
			other, err := engine.Load(ctx, u.Unit, u.Engine.Contacts, holder.ContactID)
			if err != nil {
				return err
			}
			other.InWorkspace(holder.Workspace).Record(other.State.FollowRegister()...)
		}
	case consent.Unknown: // the register stays as it is
	}
	return nil
}

// OptOutMessage opts out the number that a message went to, because the SMS provider says so (rule SMS-22). A number
// that opted out before, and a message whose contact was erased, change nothing.
func (a *App) OptOutMessage(ctx context.Context, req Request, messageID, source string) error {
	_, err := a.run(ctx, req, func(ctx context.Context, u *unit) error {
		m, err := engine.Load(ctx, u.Unit, u.Engine.Messages, messageID)
		if err != nil {
			return err
		}
		u.Request.Organisation, u.Request.Workspace, u.Ref = m.State.Organisation, m.State.Workspace, messageID
		c, err := engine.Load(ctx, u.Unit, u.Engine.Contacts, m.State.ContactID)
		if err != nil || !c.State.Exists() || c.State.Phone != m.State.Content.To {
			return err
		}
		num, err := u.NumberByHash(ctx, c.State.NumberHash)
		if err != nil || num.State.OptedOut && c.State.Consent == consent.OptedOut {
			return err
		}
		channel := m.State.Channel
		return u.changeConsent(ctx, c, num, consent.OptedOut, consent.Evidence{Source: &source, MessageID: &messageID, Channel: &channel})
	})
	return err
}
