package commands

import (
	"context"
	"time"

	"ledgerline/commands/engine"
	"ledgerline/commands/sending"
	"ledgerline/domain/consent"
	"ledgerline/domain/contact"
	"ledgerline/domain/exchange"
	"ledgerline/domain/message"
	"ledgerline/domain/rules"
	"ledgerline/events"
)

// AcceptMessage has the properties of an outbound message (rules SND-6 and SND-7).
type AcceptMessage struct {
	To         *string // a phone number as it was typed; exactly one of To, ContactID and Reply is set
	ContactID  *string
	Reply      *ReplyTo // a message to the contact of a conversation
	Body       string
	Media      []events.Media
	PoolID     *string
	LineID     *string
	SendAt     *time.Time
	Fallback   *bool
	ExternalID *string
	Metadata   map[string]any
	Source     string // api, dashboard, workflow, agent, outreach or mcp
	ByStaff    bool   // a signed-in person wrote the message
	// SandboxTime is the time of day at which a sandbox message is played, in minutes since midnight (rule SND-63).
	SandboxTime *int
	// Answer, when not nil, renders the answer so that it commits with the idempotency record. It is called once for
	// each try of the command; the last answer counts.
	Answer func(AcceptedMessage) ([]byte, error)
}

// AcceptedMessage is a message that was accepted; Ref is its id. Event has everything that the message's view shows.
type AcceptedMessage struct {
	Result
	Event events.MessageQueued
}

// AcceptMessage accepts a message to a contact of the request's workspace. A number without a contact makes one; the
// conversation is started or opened again. Refusals: validation_failed with all that is wrong, not_found for the
// contact or the conversation, forbidden for a line, contact_opted_out, consent_required.
func (a *App) AcceptMessage(ctx context.Context, req Request, in AcceptMessage) (AcceptedMessage, error) {
	var accepted AcceptedMessage
	result, err := a.run(ctx, req, func(ctx context.Context, u *unit) error {
		e, err := u.acceptMessage(ctx, &in)
		if err != nil {
			return err
		}
		u.Ref, u.Subject = e.MessageID, e.ContactID
		accepted = AcceptedMessage{
			Result: Result{Ref: e.MessageID, Shard: a.engine.Ledger.ShardOf(req.Organisation), At: u.Now}, Event: *e,
		}
		return renderAnswer(u, accepted, in.Answer)
	})
	if err != nil {
		return AcceptedMessage{}, err
	}
	accepted.Result = result
	return accepted, nil
}

func (u *unit) acceptMessage(ctx context.Context, in *AcceptMessage) (*events.MessageQueued, error) {
	if in.Reply != nil {
		conv, err := u.loadConversation(ctx, in.Reply.ConversationID, in.Reply.AgentUserID)
		if err != nil {
			return nil, err
		}
		in.ContactID = &conv.State.ContactID
	}
	to, err := u.checkedRecipient(ctx, in)
	if err != nil {
		return nil, err
	}
	if err := u.checkConsent(ctx, to); err != nil {
		return nil, err
	}
	c := to.contact
	if c == nil {
		c, err = u.recordNewContact(to.number, contact.NewContact{
			Person: events.ContactPersonal{Phone: to.e164}, Origin: "message", IsTest: u.Request.Test,
		})
		if err != nil {
			return nil, err
		}
	}
	if err := u.openConversation(ctx, c, u.Request.Test); err != nil {
		return nil, err
	}
	if err := u.giveToTeam(ctx, c, in); err != nil {
		return nil, err
	}
	e := &events.MessageQueued{
		MessageRef: events.MessageRef{
			MessageID: u.Engine.IDs.TypeID("msg"), ConversationID: c.State.ConversationID, ContactID: c.State.ID, IsTest: u.Request.Test,
		},
		Channel: "chat", PoolID: in.PoolID, LineID: in.LineID, SendAt: in.SendAt, Fallback: in.Fallback, Source: &in.Source,
		ByStaff: in.ByStaff, IdentityID: u.identityID(), SandboxOffset: in.sandboxOffset(u.Now),
		Content: events.MessagePersonal{To: to.e164, Body: in.Body, Media: in.Media, ExternalID: in.ExternalID, Metadata: in.Metadata},
	}
	if in.Reply != nil && !u.Request.Test {
		if err := u.replyBySMS(ctx, e); err != nil {
			return nil, err
		}
	}
	engine.Begin(u.Unit, u.Engine.Messages, e.MessageID).Record(message.Accept(e, u.Now)...)
	return e, nil
}

// sandboxOffset is the offset from UTC in seconds with which it is SandboxTime now; nil without SandboxTime.
func (in *AcceptMessage) sandboxOffset(now time.Time) *int {
	if in.SandboxTime == nil {
		return nil
	}
	offset := rules.OffsetWithLocalTime(now, *in.SandboxTime)
	return &offset
}

// replyBySMS makes a reply go by SMS if the contact's newest message came by SMS and the connection is ready (rule
// SMS-15).
func (u *unit) replyBySMS(ctx context.Context, e *events.MessageQueued) error {
	x, err := engine.Peek(ctx, u.Unit, u.Engine.Exchanges, exchange.Stream(e.ContactID))
	if err != nil || x.State.SMSConnectionID == "" {
		return err
	}
	c, err := sending.ReadySMSConnection(ctx, u.Unit)
	if err != nil || c == nil {
		return err
	}
	e.Channel = message.SMS
	e.SMS, err = sending.SMSRouteTo(ctx, u.Unit, c, x, e.ContactID, false)
	return err
}

// checkConsent applies the rules that refuse a message when it is accepted (rules SND-2 and SND-3).
func (u *unit) checkConsent(ctx context.Context, to recipient) error {
	org, err := u.Organisation(ctx)
	if err != nil {
		return err
	}
	facts := rules.Facts{
		Moment: rules.Accepting, Now: u.Now, Consent: consent.Unknown, Registered: to.number.State.OptedOut,
		RequireConsent: org.State.Settings.RequireConsent,
	}
	if to.contact != nil {
		facts.Consent = to.contact.State.Consent
	}
	return rules.Check(facts).Fault()
}

// identityID is the id of the service identity that makes the request; nil for every other caller.
func (u *unit) identityID() *string {
	if u.Request.Actor.Type != "identity" {
		return nil
	}
	id := u.Request.Actor.ID
	return &id
}

// FindMessage reads a message from the ledger; not_found when there is none.
func (a *App) FindMessage(ctx context.Context, messageID string) (message.Message, error) {
	found, err := a.engine.Messages.Find(ctx, messageID, true)
	if err == nil && !found.Exists() {
		err = engine.NotFound("message")
	}
	return found, err
}
