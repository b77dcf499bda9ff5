package commands

import (
	"context"

	"ledgerline/commands/engine"
	"ledgerline/commands/sending"
	"ledgerline/domain/consent"
	"ledgerline/domain/contact"
	"ledgerline/domain/fault"
	"ledgerline/domain/message"
	"ledgerline/domain/phone"
	"ledgerline/events"
)

// PreviewMessage asks the rules about a message as if it were accepted and taken for sending now, or at its send_at, and writes
// nothing. It knows nothing of messages that wait before it. Refusals are those of QueueMessage about the request itself;
// what the rules refuse is in the answer. As with a write, a caller whose credential has changed is refused with
// ErrCredentialChanged.
func (a *App) PreviewMessage(ctx context.Context, req Request, in AcceptMessage) (sending.Preview, error) {
	p, err := a.previewMessage(ctx, req, in)
	if changed := a.engine.VerifyCaller(ctx, &req); changed != nil {
		return sending.Preview{}, changed
	}
	return p, err
}

func (a *App) previewMessage(ctx context.Context, req Request, in AcceptMessage) (sending.Preview, error) {
	u := a.unit(&req)
	c, num, e164, err := u.recipient(ctx, &in)
	if err != nil {
		return sending.Preview{}, err
	}
	contactID := ""
	if c == nil {
		c = engine.Begin(u.Unit, a.engine.Contacts, "ctc_none")
		c.State = contact.Contact{ID: c.Stream(), Consent: consent.Unknown, Phone: e164}
		if num.State.OptedOut {
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
		ByStaff: in.ByStaff, IdentityID: u.sentBy(), Content: events.MessagePersonal{To: e164, Body: in.Body, Media: in.Media},
	}, c, num)
	p.ContactID, p.To = contactID, e164
	return p, err
}

// recipient checks what was asked for and finds who it is for; nobody for a number that is no contact's.
func (u *unit) recipient(ctx context.Context, in *AcceptMessage) (c *engine.Aggregate[contact.Contact], num engine.Number, e164 string, err error) {
	issues, err := u.checkMessage(ctx, in)
	if err != nil {
		return nil, num, "", err
	}
	switch {
	case (in.To == nil) == (in.ContactID == nil): // told by checkMessage
	case in.ContactID != nil:
		if c, err = u.contact(ctx, *in.ContactID); err != nil {
			if len(issues) > 0 && fault.Is(err, fault.NotFound) {
				return nil, num, "", fault.Invalids(issues...)
			}
			return nil, num, "", err
		}
		e164 = c.State.Phone
		num, err = u.NumberByHash(ctx, c.State.NumberHash)
	default:
		if e164, err = u.Engine.Phone(*in.To, "/to"); err == nil {
			num, err = u.Number(ctx, e164)
		}
		if err == nil {
			c, err = u.holder(ctx, num)
		}
		issues, err = collect(issues, err)
	}
	if err != nil {
		return nil, num, "", err
	}
	if u.Request.Test && e164 != "" && !phone.IsSandbox(e164) {
		issues = append(issues, fault.Issue{
			Location: "body", Path: "/to", Code: "not_sandbox", Message: "A test key sends to sandbox test numbers only.",
		})
	}
	if len(issues) > 0 {
		return nil, num, "", fault.Invalids(issues...)
	}
	return c, num, e164, nil
}
