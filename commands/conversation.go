package commands

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/contact"
	"ledgerline/domain/conversation"
	"ledgerline/domain/fault"
)

// ReplyTo names the conversation that a message answers in.
type ReplyTo struct {
	ConversationID string
	// AgentUserID is set for somebody with the role agent: another person's conversation is not_found to it.
	AgentUserID uuid.UUID
}

// conversation loads a conversation of the request's workspace; not_found when there is none, when its contact was
// erased, or when the agent that asks does not see it. The append depends on both being as they were seen.
func (u *unit) conversation(ctx context.Context, id string, agent uuid.UUID) (*engine.Aggregate[conversation.Conversation], error) {
	conv, err := engine.Load(ctx, u.Unit, u.Engine.Conversations, id)
	if err != nil {
		return nil, err
	}
	s := &conv.State
	if !s.Exists() || s.Workspace != u.Request.Workspace || agent != uuid.Nil && !s.VisibleTo(agent) {
		return nil, engine.NotFound("conversation")
	}
	if _, err := u.contact(ctx, s.ContactID); err != nil {
		if fault.Is(err, fault.NotFound) {
			err = engine.NotFound("conversation")
		}
		return nil, err
	}
	u.Subject = s.ContactID
	return conv, nil
}

// takeOver gives a conversation that was opened in this unit to the team: a person writes in it.
func (u *unit) takeOver(ctx context.Context, c *engine.Aggregate[contact.Contact]) error {
	conv, err := engine.Load(ctx, u.Unit, u.Engine.Conversations, c.State.ConversationID)
	if err == nil {
		conv.Record(conv.State.HandleByTeam()...)
	}
	return err
}

// UpdateConversation is what may be changed of a conversation (interface 4.3).
type UpdateConversation struct {
	conversation.Change
	Labels []string // names, in place of the contact's; nil leaves them
	// AgentUserID is set for somebody with the role agent, who may change what it sees and assign it to itself or to nobody.
	AgentUserID uuid.UUID
	// Refusal is what the caller is refused, if it sees the conversation at all; nil for nothing.
	Refusal error
}

// UpdateConversation changes a conversation of the request's workspace; Ref is its id. All of it happens or nothing.
// What is as it was asked for already is no event. Refusals: not_found, validation_failed with all that is wrong, and
// forbidden for what an agent or a test key may not.
func (a *App) UpdateConversation(ctx context.Context, req Request, id string, in UpdateConversation) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		conv, err := u.conversation(ctx, id, in.AgentUserID)
		if err != nil {
			return err
		}
		u.Ref = id
		if in.Refusal != nil {
			return in.Refusal
		}
		if to := in.Assignee.Value; in.AgentUserID != uuid.Nil && to != nil && *to != in.AgentUserID {
			return fault.New(fault.Forbidden, "You can assign a conversation to yourself or to nobody.")
		}
		if in.HandledBy != nil && req.Test && strings.HasPrefix(*in.HandledBy, conversation.AgentPrefix) {
			return fault.New(fault.Forbidden, "A test key cannot have an agent handle a conversation: the agent would send live messages.")
		}
		changed, err := conv.State.Change(in.Change, u.Now)
		issues, err := collect(nil, err)
		for _, check := range []func() error{
			func() error { return u.checkMember(ctx, conv.State.Assignee, in.Assignee.Value, "/assignee_user_id") },
			func() error { return u.checkTeam(ctx, in.Team.Value, "/team_id") },
			func() error { return u.checkHandler(in.HandledBy) },
		} {
			if err == nil {
				issues, err = collect(issues, check())
			}
		}
		if err == nil && in.Labels != nil {
			issues, err = u.relabel(ctx, conv, in.Labels, issues)
		}
		if err != nil {
			return err
		}
		if len(issues) > 0 {
			return fault.Invalids(issues...)
		}
		conv.Record(changed...)
		return nil
	})
}

// UnassignFormerMember takes a conversation of the request's workspace from somebody who is no member of it any more. One that was
// given to somebody else meanwhile, or whose assignee is a member again, stays as it is, and taken is false.
func (a *App) UnassignFormerMember(ctx context.Context, req Request, id string, userID uuid.UUID) (r Result, taken bool, err error) {
	r, err = a.run(ctx, req, func(ctx context.Context, u *unit) error {
		taken = false
		conv, err := u.conversation(ctx, id, uuid.Nil)
		if err != nil {
			return err
		}
		u.Ref = id
		user, err := u.loadUser(ctx, userID)
		if err != nil || user.State.MemberOf(req.Workspace) || conv.State.Assignee == nil || *conv.State.Assignee != userID {
			return err
		}
		changed, err := conv.State.Change(conversation.Change{Assignee: conversation.Setting[uuid.UUID]{Given: true}}, u.Now)
		conv.Record(changed...)
		taken = len(changed) > 0
		return err
	})
	return r, taken, err
}

// relabel gives the contact of a conversation other labels, and adds what is wrong with their names to the issues.
func (u *unit) relabel(ctx context.Context, conv *engine.Aggregate[conversation.Conversation], names []string, issues []fault.Issue) ([]fault.Issue, error) {
	c, err := u.contact(ctx, conv.State.ContactID)
	if err != nil {
		return issues, err
	}
	return u.changeLabels(ctx, c, &UpdateContact{Labels: names}, issues)
}

// AddNote adds a remark to a conversation of the request's workspace; Ref is the note's id. agent is as in Reply.
func (a *App) AddNote(ctx context.Context, req Request, conversationID string, agent uuid.UUID, body string) (Result, error) {
	id := a.engine.IDs.UUID()
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		conv, err := u.conversation(ctx, conversationID, agent)
		if err != nil {
			return err
		}
		u.Ref = id.String()
		return u.note(conv, id, body)
	})
}

func (u *unit) note(conv *engine.Aggregate[conversation.Conversation], id uuid.UUID, body string) error {
	var author *uuid.UUID
	if u.Request.Actor.Type == "user" {
		if user, err := uuid.Parse(u.Request.Actor.ID); err == nil {
			author = &user
		}
	}
	added, err := conv.State.AddNote(id, author, body)
	if err != nil {
		return err
	}
	engine.Begin(u.Unit, u.Engine.Notes, conversation.NoteStream(id)).Record(added...)
	return nil
}

// Handoff is what becomes of a conversation that something else than a person handled.
type Handoff struct {
	Reason      string     // kept as a note of the conversation
	TeamID      *uuid.UUID // nil leaves the team
	AgentUserID uuid.UUID  // as in Reply
}

// HandOff gives a conversation to the team and keeps the reason as a note; Ref is the conversation's id. handedOff is
// false when people handled it already: the team and the note are applied all the same (interface 3.2).
func (a *App) HandOff(ctx context.Context, req Request, id string, in Handoff) (r Result, handedOff bool, err error) {
	noteID := a.engine.IDs.UUID()
	r, err = a.run(ctx, req, func(ctx context.Context, u *unit) error {
		conv, err := u.conversation(ctx, id, in.AgentUserID)
		if err != nil {
			return err
		}
		u.Ref = id
		issues, err := collect(nil, u.checkTeam(ctx, in.TeamID, "/team_id"))
		if err != nil {
			return err
		}
		issues = slices.Concat(issues, conversation.ReasonIssues(in.Reason))
		if len(issues) > 0 {
			return fault.Invalids(issues...)
		}
		if in.TeamID != nil {
			conv.Record(conv.State.AssignTeam(*in.TeamID)...)
		}
		handed, ok := conv.State.Handoff(in.Reason)
		handedOff = ok
		conv.Record(handed...)
		return u.note(conv, noteID, in.Reason)
	})
	return r, handedOff, err
}

// WakeConversation opens a snoozed conversation whose time has come. until is when it will have, for one that sleeps on;
// nil when nothing is to be done any more.
func (a *App) WakeConversation(ctx context.Context, req Request, id string) (until *time.Time, err error) {
	_, err = a.run(ctx, req, func(ctx context.Context, u *unit) error {
		until = nil
		conv, err := engine.Load(ctx, u.Unit, a.engine.Conversations, id)
		if err != nil {
			return err
		}
		s := &conv.State
		u.Request.Organisation, u.Request.Workspace, u.Ref = s.Organisation, s.Workspace, id
		if conv, err = u.conversation(ctx, id, uuid.Nil); err != nil {
			return err
		}
		conv.Record(conv.State.EndSnooze(u.Now)...)
		if conv.State.Status == conversation.Snoozed {
			until = &conv.State.SnoozedUntil
		}
		return nil
	})
	return until, err
}
