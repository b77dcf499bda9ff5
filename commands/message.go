package commands

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"ledgerline/commands/engine"
	"ledgerline/domain/consent"
	"ledgerline/domain/contact"
	"ledgerline/domain/conversation"
	"ledgerline/domain/fault"
	"ledgerline/domain/line"
	"ledgerline/domain/message"
	"ledgerline/domain/organisation"
	"ledgerline/domain/rules"
	"ledgerline/events"
)

// AcceptMessage is what an outbound message is made of (interface 4.4, decisions section 7).
type AcceptMessage struct {
	To         *string // a phone number as it was typed; exactly one of To and ContactID, unless there is Reply
	ContactID  *string
	Reply      *ReplyTo // writes to the contact of a conversation
	Body       string
	Media      []events.Media
	PoolID     *string
	LineID     *string
	SendAt     *time.Time
	Fallback   *bool
	ExternalID *string
	Metadata   map[string]any
	Source     string // api, dashboard, workflow, agent, outreach or mcp
	ByStaff    bool
	// Answer, when not nil, renders the answer so that it commits with the receipt. It may be called more than once,
	// with what would be made each time; the last call counts.
	Answer func(AcceptedMessage) ([]byte, error)
}

// AcceptedMessage is a message that was accepted. Event has all that its view shows; Ref is its id.
type AcceptedMessage struct {
	Result
	Event events.MessageQueued
}

const (
	maxBody     = 2000 // characters
	maxMedia    = 10
	maxMetadata = 50 // keys
)

// AcceptMessage accepts a message to a contact of the request's workspace. An unknown number makes a contact; the
// conversation is started or opened again. Refusals: validation_failed with all that is wrong, not_found for the
// contact, contact_opted_out, consent_required.
func (a *App) AcceptMessage(ctx context.Context, req Request, in AcceptMessage) (AcceptedMessage, error) {
	var q AcceptedMessage
	result, err := a.run(ctx, req, func(ctx context.Context, u *unit) error {
		e, err := u.queue(ctx, &in)
		if err != nil {
			return err
		}
		q.Event, u.Ref, u.Subject = *e, e.MessageID, e.ContactID
		if in.Answer == nil {
			return nil
		}
		preview := AcceptedMessage{Result: Result{Ref: e.MessageID, Shard: a.engine.Ledger.ShardOf(req.Organisation), At: u.Now}, Event: *e}
		if u.Body, err = in.Answer(preview); err != nil {
			return fmt.Errorf("commands: render answer: %w", err)
		}
		return nil
	})
	if err != nil {
		return AcceptedMessage{}, err
	}
	q.Result = result
	return q, nil
}

func (u *unit) queue(ctx context.Context, in *AcceptMessage) (*events.MessageQueued, error) {
	if in.Reply != nil {
		conv, err := u.conversation(ctx, in.Reply.ConversationID, in.Reply.AgentUserID)
		if err != nil {
			return nil, err
		}
		in.ContactID = &conv.State.ContactID
	}
	c, num, e164, err := u.recipient(ctx, in)
	if err != nil {
		return nil, err
	}
	return u.accept(ctx, in, c, num, e164)
}

// accept asks the rules of sending and records the message, and the contact and the conversation if they are new.
func (u *unit) accept(ctx context.Context, in *AcceptMessage, c *engine.Aggregate[contact.Contact], num engine.Number, e164 string) (*events.MessageQueued, error) {
	org, err := u.Organisation(ctx)
	if err != nil {
		return nil, err
	}
	facts := rules.Facts{
		Moment: rules.Accepting, Now: u.Now, Consent: consent.Unknown, Registered: num.State.OptedOut,
		RequireConsent: org.State.Settings.RequireConsent,
	}
	if c != nil {
		facts.Consent = c.State.Consent
	}
	if err := rules.Check(facts).Fault(); err != nil {
		return nil, err
	}
	if c == nil {
		c, err = u.newContact(num, contact.NewContact{Person: events.ContactPersonal{Phone: e164}, Origin: "message", IsTest: u.Request.Test})
		if err != nil {
			return nil, err
		}
	}
	if err := u.openConversation(ctx, c, u.Request.Test); err != nil {
		return nil, err
	}
	if in.ByStaff {
		if err := u.takeOver(ctx, c); err != nil {
			return nil, err
		}
	}
	e := &events.MessageQueued{
		MessageRef: events.MessageRef{
			MessageID: u.Engine.IDs.TypeID("msg"), ConversationID: c.State.ConversationID, ContactID: c.State.ID, IsTest: u.Request.Test,
		},
		Channel: "chat", PoolID: in.PoolID, LineID: in.LineID, SendAt: in.SendAt, Fallback: in.Fallback, Source: &in.Source, ByStaff: in.ByStaff, IdentityID: u.sentBy(),
		Content: events.MessagePersonal{To: e164, Body: in.Body, Media: in.Media, ExternalID: in.ExternalID, Metadata: in.Metadata},
	}
	engine.Begin(u.Unit, u.Engine.Messages, e.MessageID).Record(message.Accept(e, u.Now)...)
	return e, nil
}

// sentBy is the service identity that asks; nil for anybody else.
func (u *unit) sentBy() *string {
	if u.Request.Actor.Type != "identity" {
		return nil
	}
	id := u.Request.Actor.ID
	return &id
}

// openConversation starts or reopens the contact's conversation.
func (u *unit) openConversation(ctx context.Context, c *engine.Aggregate[contact.Contact], isTest bool) error {
	id := c.State.ConversationID
	var conv *engine.Aggregate[conversation.Conversation]
	if c.IsNew() { // the contact is being made: nobody can have started it
		conv = engine.Begin(u.Unit, u.Engine.Conversations, id)
	} else {
		var err error
		if conv, err = engine.Load(ctx, u.Unit, u.Engine.Conversations, id); err != nil {
			return err
		}
	}
	conv.Record(conv.State.EnsureOpen(id, c.State.ID, isTest)...)
	return nil
}

// checkMessage tells all that is wrong with a message by itself, and with the line and the pool it names.
func (u *unit) checkMessage(ctx context.Context, in *AcceptMessage) ([]fault.Issue, error) {
	var issues []fault.Issue
	add := func(pointer, code, text string) {
		issues = append(issues, fault.Issue{Location: "body", Path: pointer, Code: code, Message: text})
	}
	if (in.To == nil) == (in.ContactID == nil) {
		add("/to", "exactly_one", "Exactly one of to and contact_id is needed.")
	}
	switch {
	case message.Blank(in.Body) && len(in.Media) == 0:
		add("/body", "required", "A message needs a body or media.")
	case utf8.RuneCountInString(in.Body) > maxBody:
		add("/body", "too_long", fmt.Sprintf("A body has at most %d characters.", maxBody))
	}
	if len(in.Media) > maxMedia {
		add("/media", "too_many", fmt.Sprintf("A message has at most %d media.", maxMedia))
	}
	if len(in.Metadata) > maxMetadata {
		add("/metadata", "too_many", fmt.Sprintf("Metadata has at most %d keys.", maxMetadata))
	}
	if in.SendAt != nil && in.SendAt.After(u.Now.Add(message.MaxScheduleAhead)) {
		add("/send_at", "too_late", "A message is scheduled at most 365 days ahead.")
	}
	if in.PoolID != nil {
		pool, err := engine.Load(ctx, u.Unit, u.Engine.Pools, *in.PoolID)
		if err != nil {
			return nil, err
		}
		if pool.State.ID == "" || pool.State.Workspace != u.Request.Workspace {
			add("/pool_id", "not_found", "There is no such pool.")
		}
	}
	allowed, err := u.AllowedLines(ctx, u.sentBy())
	if err != nil {
		return nil, err
	}
	if u.Request.Test { // there is one line for it
		workspace, err := engine.Load(ctx, u.Unit, u.Engine.Workspaces, organisation.WorkspaceStream(u.Request.Workspace))
		if err != nil {
			return nil, err
		}
		if !allowed(workspace.State.SandboxLineID) {
			return nil, fault.New(fault.Forbidden, "The service identity may not send from the sandbox line.")
		}
	}
	if in.LineID != nil {
		l, err := engine.Load(ctx, u.Unit, u.Engine.Lines, *in.LineID)
		if err != nil {
			return nil, err
		}
		switch {
		case l.State.ID == "" || l.State.Workspace != u.Request.Workspace:
			add("/line_id", "not_found", "There is no such line.")
		case l.State.State == line.Retired:
			add("/line_id", "retired", "This line is retired and does not send any more.")
		case !allowed(l.State.ID):
			return nil, fault.New(fault.Forbidden, "The service identity may not send from this line.")
		case u.Request.Test && !l.State.IsSandbox:
			add("/line_id", "not_sandbox", "A test key sends through the sandbox line only.")
		case !u.Request.Test && l.State.IsSandbox:
			add("/line_id", "sandbox", "The sandbox line sends for test keys only.")
		}
	}
	return issues, nil
}

// FindMessage reads a message from the ledger; not_found when there is none.
func (a *App) FindMessage(ctx context.Context, messageID string) (message.Message, error) {
	found, err := a.engine.Messages.Find(ctx, messageID, true)
	if err == nil && !found.Exists() {
		err = engine.NotFound("message")
	}
	return found, err
}
