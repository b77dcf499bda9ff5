package commands

import (
	"context"
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
	// AgentUserID is the user id of a caller with the role agent, who gets not_found for conversations that it does not
	// see (rule ACC-18); uuid.Nil for every other caller.
	AgentUserID uuid.UUID
}

// loadConversation loads a conversation of the request's workspace together with its contact. agent is as
// ReplyTo.AgentUserID. not_found when there is none, when its contact was erased, or when the agent does not see it.
func (u *unit) loadConversation(ctx context.Context, id string, agent uuid.UUID) (*engine.Aggregate[conversation.Conversation], error) {
	conv, err := engine.Load(ctx, u.Unit, u.Engine.Conversations, id)
	if err != nil {
		return nil, err
	}
	s := &conv.State
	if !s.Exists() || s.Workspace != u.Request.Workspace {
		return nil, engine.NotFound("conversation")
	}
	if agent != uuid.Nil && !s.VisibleTo(agent) {
		return nil, engine.Hidden("conversation")
	}
	if _, err := u.loadContact(ctx, s.ContactID); err != nil {
		if fault.Is(err, fault.NotFound) {
			err = engine.NotFound("conversation")
		}
		return nil, err
	}
	u.Subject = s.ContactID
	return conv, nil
}

// openConversation starts the contact's conversation, or opens it again (rule INB-2).
func (u *unit) openConversation(ctx context.Context, c *engine.Aggregate[contact.Contact], isTest bool) error {
	id := c.State.ConversationID
	var conv *engine.Aggregate[conversation.Conversation]
	if c.IsNew() { // the contact is made by this command, so no other command can have started the conversation
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

// giveToTeam makes the team the handler of a contact's conversation, because a person writes in it (rule INB-11). The
// reply of a key takes a conversation from an agent too (rule AGT-11).
func (u *unit) giveToTeam(ctx context.Context, c *engine.Aggregate[contact.Contact], in *AcceptMessage) error {
	byKey := in.Reply != nil && in.Source == "api"
	if !in.ByStaff && !byKey {
		return nil
	}
	conv, err := engine.Load(ctx, u.Unit, u.Engine.Conversations, c.State.ConversationID)
	switch {
	case err != nil:
		return err
	case in.ByStaff:
		conv.Record(conv.State.HandleByTeam()...)
	default:
		conv.Record(conv.State.TakeFromAgent()...)
	}
	return nil
}

// UpdateConversation has the changes of a conversation (rules INB-3, INB-9 to INB-14).
type UpdateConversation struct {
	conversation.Change
	Labels []string // names; they replace the contact's labels, nil leaves them
	// AgentUserID is as in ReplyTo. An agent may assign a conversation to itself or to nobody.
	AgentUserID uuid.UUID
	// Refusal is returned when the conversation exists and the caller sees it, so that callers without the right to
	// change it get not_found first; nil for callers with the right.
	Refusal error
}

// UpdateConversation changes a conversation of the request's workspace; Ref is its id. All changes are appended
// together, and a value that stays the same causes no event (rule INB-14). Refusals: not_found, validation_failed with
// all that is wrong, and forbidden for what an agent or a test key may not do.
func (a *App) UpdateConversation(ctx context.Context, req Request, id string, in UpdateConversation) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		conv, err := u.loadConversation(ctx, id, in.AgentUserID)
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
		var issues issueList
		if err := issues.collect(
			err,
			u.checkMember(ctx, conv.State.Assignee, in.Assignee.Value, "/assignee_user_id"),
			u.checkTeam(ctx, in.Team.Value),
			u.checkHandler(ctx, conv.State.HandledBy, in.HandledBy),
			u.replaceContactLabels(ctx, conv, in.Labels),
		); err != nil {
			return err
		}
		if err := issues.fault(); err != nil {
			return err
		}
		conv.Record(changed...)
		return nil
	})
}

// replaceContactLabels replaces the labels of a conversation's contact (rule INB-12); nil leaves them.
func (u *unit) replaceContactLabels(ctx context.Context, conv *engine.Aggregate[conversation.Conversation], names []string) error {
	if names == nil {
		return nil
	}
	c, err := u.loadContact(ctx, conv.State.ContactID)
	if err != nil {
		return err
	}
	return u.changeLabels(ctx, c, &UpdateContact{Labels: names})
}

// UnassignFormerMember unassigns a conversation of the request's workspace from a user who has left the workspace (rule
// INB-15). unassigned is false when the conversation is assigned to another user by now, or the user is a member again.
func (a *App) UnassignFormerMember(ctx context.Context, req Request, id string, userID uuid.UUID) (r Result, unassigned bool, err error) {
	r, err = a.run(ctx, req, func(ctx context.Context, u *unit) error {
		unassigned = false
		conv, err := u.loadConversation(ctx, id, uuid.Nil)
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
		unassigned = len(changed) > 0
		return err
	})
	return r, unassigned, err
}

// AddNote adds a note to a conversation of the request's workspace; Ref is the note's id. agent is as
// ReplyTo.AgentUserID.
func (a *App) AddNote(ctx context.Context, req Request, conversationID string, agent uuid.UUID, body string) (Result, error) {
	id := a.engine.IDs.UUID()
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		conv, err := u.loadConversation(ctx, conversationID, agent)
		if err != nil {
			return err
		}
		u.Ref = id.String()
		return u.addNote(conv, id, body)
	})
}

// addNote records a note. Its author is the signed-in user; notes of other callers have no author (rule INB-18).
func (u *unit) addNote(conv *engine.Aggregate[conversation.Conversation], id uuid.UUID, body string) error {
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

// Handoff is how a conversation is handed to people.
type Handoff struct {
	Reason      string     // becomes a note of the conversation
	TeamID      *uuid.UUID // nil leaves the team
	AgentUserID uuid.UUID  // as in ReplyTo
}

// HandOff makes the team the handler of a conversation and adds the reason as a note; Ref is the conversation's id.
// handedOff is false when the team handled it already; the team and the note are applied all the same (rule INB-16).
func (a *App) HandOff(ctx context.Context, req Request, id string, in Handoff) (r Result, handedOff bool, err error) {
	noteID := a.engine.IDs.UUID()
	r, err = a.run(ctx, req, func(ctx context.Context, u *unit) error {
		conv, err := u.loadConversation(ctx, id, in.AgentUserID)
		if err != nil {
			return err
		}
		u.Ref = id
		var issues issueList
		if err := issues.collect(u.checkTeam(ctx, in.TeamID)); err != nil {
			return err
		}
		issues = append(issues, conversation.ReasonIssues(in.Reason)...)
		if err := issues.fault(); err != nil {
			return err
		}
		if in.TeamID != nil {
			conv.Record(conv.State.AssignTeam(*in.TeamID)...)
		}
		handed, ok := conv.State.Handoff(in.Reason)
		handedOff = ok
		conv.Record(handed...)
		return u.addNote(conv, noteID, in.Reason)
	})
	return r, handedOff, err
}

// EndSnooze opens a conversation whose snooze has ended (rule INB-4). It sets the organisation and the workspace of
// the request to those of the conversation. If the snooze has not ended yet, until is its end; until is nil when the
// conversation is not snoozed any more.
func (a *App) EndSnooze(ctx context.Context, req Request, id string) (until *time.Time, err error) {
	_, err = a.run(ctx, req, func(ctx context.Context, u *unit) error {
		until = nil
		conv, err := engine.Load(ctx, u.Unit, a.engine.Conversations, id)
		if err != nil {
			return err
		}
		s := &conv.State
		u.Request.Organisation, u.Request.Workspace, u.Ref = s.Organisation, s.Workspace, id
		if conv, err = u.loadConversation(ctx, id, uuid.Nil); err != nil {
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
