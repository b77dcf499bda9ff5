package commands

import (
	"context"
	"time"

	"ledgerline/domain/consent"
	"ledgerline/domain/contact"
	"ledgerline/domain/exchange"
	"ledgerline/domain/fault"
	"ledgerline/domain/line"
	"ledgerline/domain/message"
	"ledgerline/domain/phone"
	"ledgerline/domain/sending"
	"ledgerline/events"
)

// Preview is what would become of a message that is asked for now.
type Preview struct {
	Outcome   sending.Outcome
	Code      string         // with Refuse: why
	Reason    string         // with Hold: the rule that would hold it
	Until     *time.Time     // with Hold: until when, as far as that is known
	At        time.Time      // with Go: when it would leave
	Detail    map[string]any // what the rule adds
	Line      *line.Line     // that would send it, or whose room it would wait for
	ContactID string         // "" for a number that is no contact's yet
	To        string         // E.164
}

// PreviewMessage asks the rules about a message as if it were accepted and taken for sending now, or at its send_at, and writes
// nothing. It knows nothing of messages that wait before it. Refusals are those of QueueMessage about the request itself;
// what the rules refuse is in the answer. As with a write, a caller whose credential has changed is refused with
// ErrCredentialChanged.
func (a *App) PreviewMessage(ctx context.Context, req Request, in QueueMessage) (Preview, error) {
	p, err := a.previewMessage(ctx, req, in)
	if changed := a.stands(ctx, &req); changed != nil {
		return Preview{}, changed
	}
	return p, err
}

func (a *App) previewMessage(ctx context.Context, req Request, in QueueMessage) (Preview, error) {
	u := &unit{app: a, req: &req, now: a.ledger.Now(), fresh: true, tells: true, aggregates: map[looked]any{}}
	c, num, e164, err := u.recipient(ctx, &in)
	if err != nil {
		return Preview{}, err
	}
	p := Preview{To: e164}
	if c == nil {
		c = begin(u, a.contacts, "ctc_none")
		c.State = contact.Contact{ID: c.base.Stream, Consent: consent.Unknown, Phone: e164}
		if num.State.OptedOut {
			c.State.Consent = consent.OptedOut
		}
	} else {
		p.ContactID = c.State.ID
	}
	p.At = u.now
	if in.SendAt != nil && in.SendAt.After(u.now) {
		p.At = *in.SendAt
	}
	x, err := load(ctx, u, a.exchanges, exchange.Stream(c.State.ID))
	if err != nil {
		return Preview{}, err
	}
	today := line.DayOf(u.now)
	u.now, u.usesNothing = p.At, line.DayOf(p.At).Date != today.Date
	d, err := u.depart(ctx, &message.Message{
		MessageRef: events.MessageRef{ContactID: c.State.ID, IsTest: req.Test}, PoolID: in.PoolID, NamedLineID: in.LineID, ByStaff: in.ByStaff,
		IdentityID: u.sentBy(), Content: events.MessagePersonal{To: e164, Body: in.Body, Media: in.Media},
	}, c, num, x)
	if err != nil {
		return Preview{}, err
	}
	return d.preview(p), nil
}

func (d *departure) preview(p Preview) Preview {
	v := sending.Check(d.facts)
	p.Outcome, p.Code, p.Reason, p.Until, p.Detail = v.Outcome, v.Code, v.Hold.Reason, v.Hold.Until, v.Detail
	lineID := v.Hold.LineID
	if v.Line != nil {
		lineID = v.Line.Line.ID
	}
	if l := d.lines[lineID]; l != nil {
		p.Line = &l.State
	}
	return p
}

// recipient checks what was asked for and finds who it is for; nobody for a number that is no contact's.
func (u *unit) recipient(ctx context.Context, in *QueueMessage) (c *aggregate[contact.Contact], num numberState, e164 string, err error) {
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
		num, err = u.numberByHash(ctx, c.State.NumberHash)
	default:
		if e164, err = u.app.phone(*in.To, "/to"); err == nil {
			num, err = u.number(ctx, e164)
		}
		if err == nil {
			c, err = u.holder(ctx, num)
		}
		issues, err = collect(issues, err)
	}
	if err != nil {
		return nil, num, "", err
	}
	if u.req.Test && e164 != "" && !phone.IsSandbox(e164) {
		issues = append(issues, fault.Issue{
			Location: "body", Path: "/to", Code: "not_sandbox", Message: "A test key sends to sandbox test numbers only.",
		})
	}
	if len(issues) > 0 {
		return nil, num, "", fault.Invalids(issues...)
	}
	return c, num, e164, nil
}
