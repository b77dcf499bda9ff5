package commands

import (
	"context"

	"ledgerline/commands/engine"
	"ledgerline/commands/sending"
	"ledgerline/domain/consent"
	"ledgerline/domain/contact"
	"ledgerline/domain/message"
	"ledgerline/events"
)

// PreviewMessage is the dry run of AcceptMessage (rule SND-8): it applies the sending rules to a message as of now, or
// as of its send_at, and writes nothing. What the rules refuse is in the preview; refusals of the request itself are
// those of AcceptMessage. A caller whose credential has changed is refused with ErrCredentialChanged.
func (a *App) PreviewMessage(ctx context.Context, req Request, in AcceptMessage) (sending.Preview, error) {
	p, err := a.previewMessage(ctx, req, in)
	if changed := a.engine.VerifyCaller(ctx, &req); changed != nil {
		return sending.Preview{}, changed
	}
	return p, err
}

func (a *App) previewMessage(ctx context.Context, req Request, in AcceptMessage) (sending.Preview, error) {
	u := a.unit(&req)
	to, err := u.checkedRecipient(ctx, &in)
	if err != nil {
		return sending.Preview{}, err
	}
	contactID, c := "", to.contact
	if c == nil { // stands for the contact that the message would make
		c = engine.Begin(u.Unit, a.engine.Contacts, "ctc_none")
		c.State = contact.Contact{ID: c.Stream(), Consent: consent.Unknown, Phone: to.e164}
		if to.number.State.OptedOut {
			c.State.Consent = consent.OptedOut
		}
	} else {
		contactID = c.State.ID
	}
	at := u.Now
	if in.SendAt != nil && in.SendAt.After(u.Now) {
		at = *in.SendAt
	}
	p, err := a.Sending.Preview(ctx, u.Unit, at, &message.Message{
		MessageRef: events.MessageRef{ContactID: c.State.ID, IsTest: req.Test}, PoolID: in.PoolID, RequestedLineID: in.LineID,
		ByStaff: in.ByStaff, IdentityID: u.identityID(), SandboxOffset: in.sandboxOffset(u.Now), Content: events.MessagePersonal{To: to.e164, Body: in.Body, Media: in.Media},
	}, c, to.number)
	p.ContactID, p.To = contactID, to.e164
	return p, err
}
