package commands

import (
	"context"
	"fmt"
	"unicode/utf8"

	"ledgerline/commands/engine"
	"ledgerline/domain/contact"
	"ledgerline/domain/fault"
	"ledgerline/domain/line"
	"ledgerline/domain/message"
	"ledgerline/domain/organisation"
	"ledgerline/domain/phone"
)

// Limits of a message (rule SND-6).
const (
	maxBody  = 2000 // characters
	maxMedia = 10
)

// recipient is where a message goes.
type recipient struct {
	contact *engine.Aggregate[contact.Contact] // nil: no contact of the workspace has the number
	number  engine.Number
	e164    string
}

// checkedRecipient checks a message as far as it can be refused without the sending rules, and finds its recipient.
// Refusals: validation_failed with all that is wrong, not_found for the contact, forbidden for a line.
func (u *unit) checkedRecipient(ctx context.Context, in *AcceptMessage) (to recipient, err error) {
	issues, err := u.checkMessage(ctx, in)
	if err != nil {
		return recipient{}, err
	}
	switch {
	case (in.To == nil) == (in.ContactID == nil): // an issue of checkMessage
	case in.ContactID != nil:
		if to.contact, err = u.loadContact(ctx, *in.ContactID); err != nil {
			if len(issues) > 0 && fault.Is(err, fault.NotFound) {
				return recipient{}, issues.fault()
			}
			return recipient{}, err
		}
		to.e164 = to.contact.State.Phone
		to.number, err = u.NumberByHash(ctx, to.contact.State.NumberHash)
	default:
		if to.e164, err = u.Engine.Phone(*in.To, "/to"); err == nil {
			to.number, err = u.Number(ctx, to.e164)
		}
		if err == nil {
			to.contact, err = u.findContact(ctx, to.number)
		}
		err = issues.collect(err)
	}
	if err != nil {
		return recipient{}, err
	}
	if u.Request.Test && to.e164 != "" && !phone.IsSandbox(to.e164) {
		issues.add("/to", "not_sandbox", "A test key sends to sandbox test numbers only.")
	}
	return to, issues.fault()
}

// checkMessage returns all that is wrong with a message itself, and with the line and the pool that it names. A line
// that the caller may not use is refused with forbidden.
func (u *unit) checkMessage(ctx context.Context, in *AcceptMessage) (issueList, error) {
	var issues issueList
	if (in.To == nil) == (in.ContactID == nil) {
		issues.add("/to", "exactly_one", "Exactly one of to and contact_id is needed.")
	}
	switch {
	case message.Blank(in.Body) && len(in.Media) == 0:
		issues.add("/body", "required", "A message needs a body or media.")
	case utf8.RuneCountInString(in.Body) > maxBody:
		issues.add("/body", "too_long", fmt.Sprintf("A body has at most %d characters.", maxBody))
	}
	if len(in.Media) > maxMedia {
		issues.add("/media", "too_many", fmt.Sprintf("A message has at most %d media.", maxMedia))
	}
	if err := issues.collect(message.CheckMetadata(in.Metadata)); err != nil {
		return nil, err
	}
	if in.SendAt != nil && in.SendAt.After(u.Now.Add(message.MaxScheduleAhead)) {
		issues.add("/send_at", "too_late", "A message is scheduled at most 365 days ahead.")
	}
	if err := issues.collect(u.checkPool(ctx, in.PoolID)); err != nil {
		return nil, err
	}
	err := u.checkRequestedLine(ctx, in.LineID, &issues)
	return issues, err
}

// checkRequestedLine adds what is wrong with the line that a message names; nil for a message that names none. A line
// that the service identity may not use is refused with forbidden (rule ACC-25).
func (u *unit) checkRequestedLine(ctx context.Context, lineID *string, issues *issueList) error {
	allowed, err := u.AllowedLines(ctx, u.identityID())
	if err != nil {
		return err
	}
	if u.Request.Test { // test keys send through the sandbox line only
		workspace, err := engine.Load(ctx, u.Unit, u.Engine.Workspaces, organisation.WorkspaceStream(u.Request.Workspace))
		if err != nil {
			return err
		}
		if !allowed(workspace.State.SandboxLineID) {
			return fault.New(fault.Forbidden, "The service identity may not send from the sandbox line.")
		}
	}
	if lineID == nil {
		return nil
	}
	l, err := engine.Load(ctx, u.Unit, u.Engine.Lines, *lineID)
	if err != nil {
		return err
	}
	switch {
	case l.State.ID == "" || l.State.Workspace != u.Request.Workspace:
		issues.add("/line_id", "not_found", "There is no such line.")
	case l.State.State == line.Retired:
		issues.add("/line_id", "retired", "This line is retired and does not send any more.")
	case !allowed(l.State.ID):
		return fault.New(fault.Forbidden, "The service identity may not send from this line.")
	case u.Request.Test && !l.State.IsSandbox:
		issues.add("/line_id", "not_sandbox", "A test key sends through the sandbox line only.")
	case !u.Request.Test && l.State.IsSandbox:
		issues.add("/line_id", "sandbox", "The sandbox line sends for test keys only.")
	}
	return nil
}
