package commands

import (
	"context"

	"ledgerline/commands/engine"
	"ledgerline/domain/consent"
	"ledgerline/domain/contact"
)

// SetConsent changes the consent of a contact of the request's workspace by explicit request (interface 3.1). An
// opt-out enters the organisation's register and reaches every contact with the number; an opt-in lifts the register
// and changes this contact; unknown changes this contact alone.
func (a *App) SetConsent(ctx context.Context, req Request, contactID string, to consent.Status, source string) (Result, error) {
	return a.setConsent(ctx, req, contactID, to, consent.Evidence{Source: &source})
}

// OptOut is SetConsent to opted_out with the keyword that was used, if any.
func (a *App) OptOut(ctx context.Context, req Request, contactID, source string, keyword *string) (Result, error) {
	return a.setConsent(ctx, req, contactID, consent.OptedOut, consent.Evidence{Source: &source, Keyword: keyword})
}

func (a *App) setConsent(ctx context.Context, req Request, contactID string, to consent.Status, ev consent.Evidence) (Result, error) {
	ev.IP, ev.UserAgent = req.IP, req.UserAgent
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		c, err := u.contact(ctx, contactID)
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

// changeConsent changes a contact's consent and what hangs on it: the register, and the number's other contacts in
// every workspace of the organisation (decisions section 6).
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
		for _, h := range num.State.Holders {
			if h.ContactID == c.State.ID {
				continue
			}
			other, err := engine.Load(ctx, u.Unit, u.Engine.Contacts, h.ContactID)
			if err != nil {
				return err
			}
			other.InWorkspace(h.Workspace).Record(other.State.FollowOptOut(ev)...)
		}
	case consent.Unknown: // the register stays as it is
	}
	return nil
}
