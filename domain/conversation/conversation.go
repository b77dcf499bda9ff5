// Package conversation is the one conversation of a contact in a workspace, and what a team does with it (interface 3.2
// and 4.3, decisions sections 7 and 13).
package conversation

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/events"
)

// Status is where a conversation stands.
type Status string

// The conversation statuses.
const (
	Open    Status = "open"
	Snoozed Status = "snoozed"
	Closed  Status = "closed"
)

// Who handles a conversation: the team, an AI agent or a workflow's run (decisions section 13).
const (
	HandledByTeam  = "team"
	AgentPrefix    = "agent:"
	WorkflowPrefix = "workflow:"
)

// Conversation is the state of one conversation. The zero value has not started.
type Conversation struct {
	events.ConversationRef
	Organisation uuid.UUID
	Workspace    uuid.UUID
	Status       Status
	SnoozedUntil time.Time  // while it is snoozed
	Assignee     *uuid.UUID // nil: nobody
	TeamID       *uuid.UUID // nil: none
	HandledBy    string
}

// Apply folds one event.
func (c Conversation) Apply(event events.Event, in events.Envelope) Conversation {
	switch e := event.(type) {
	case *events.ConversationStarted:
		return Conversation{
			ConversationRef: events.ConversationRef(*e), Organisation: in.Organisation, Workspace: in.Workspace, Status: Open, HandledBy: HandledByTeam,
		}
	case *events.ConversationReopened, *events.ConversationWoken:
		c.Status, c.SnoozedUntil = Open, time.Time{}
	case *events.ConversationSnoozed:
		c.Status, c.SnoozedUntil = Snoozed, e.Until
	case *events.ConversationClosed:
		c.Status, c.SnoozedUntil = Closed, time.Time{}
	case *events.ConversationAssigned:
		c.Assignee = e.To
	case *events.ConversationTeamSet:
		c.TeamID = e.To
	case *events.ConversationHandlerChanged:
		c.HandledBy = e.To
	}
	return c
}

// Exists tells whether the conversation has started.
func (c Conversation) Exists() bool { return c.ConversationID != "" }

// VisibleTo tells whether somebody with the role agent sees the conversation: it is theirs or nobody's (interface 4.3
// rule 1).
func (c Conversation) VisibleTo(agent uuid.UUID) bool {
	return c.Assignee == nil || *c.Assignee == agent
}

// EnsureOpen makes sure that the conversation is open, as every inbound and outbound message does: it starts one that
// has not started and reopens one that is closed or snoozed.
func (c Conversation) EnsureOpen(id, contactID string, isTest bool) []events.Event {
	switch c.Status {
	case Open:
		return nil
	case Snoozed, Closed:
		return c.reopen()
	}
	return []events.Event{&events.ConversationStarted{ConversationID: id, ContactID: contactID, IsTest: isTest}}
}

func (c Conversation) reopen() []events.Event {
	if c.Status == Open {
		return nil
	}
	return []events.Event{&events.ConversationReopened{ConversationID: c.ConversationID, ContactID: c.ContactID, From: string(c.Status)}}
}

// HandleByTeam gives the conversation, which has started, to the team, as a person's own message does: whatever answered by itself until then
// must not talk into it.
func (c Conversation) HandleByTeam() []events.Event { return c.setHandler(HandledByTeam) }

func (c Conversation) setHandler(by string) []events.Event {
	if c.HandledBy == by {
		return nil
	}
	return []events.Event{&events.ConversationHandlerChanged{ConversationRef: c.ConversationRef, From: c.HandledBy, To: by}}
}

// EndSnooze opens a snoozed conversation whose time has come.
func (c Conversation) EndSnooze(now time.Time) []events.Event {
	if c.Status != Snoozed || now.Before(c.SnoozedUntil) {
		return nil
	}
	return []events.Event{&events.ConversationWoken{ConversationRef: c.ConversationRef}}
}

// MarkRead tells that everything that came in was read. What there is to read, the conversation does not know.
func (c Conversation) MarkRead() []events.Event {
	return []events.Event{&events.ConversationRead{ConversationRef: c.ConversationRef}}
}

// maxReason is the longest reason of a handoff, in characters (interface 4.5).
const maxReason = 500

// ReasonIssues tells what is wrong with the reason of a handoff.
func ReasonIssues(reason string) []fault.Issue {
	switch {
	case strings.TrimSpace(reason) == "":
		return []fault.Issue{{Location: "body", Path: "/reason", Code: "required", Message: "A handoff needs a reason."}}
	case utf8.RuneCountInString(reason) > maxReason:
		return []fault.Issue{{Location: "body", Path: "/reason", Code: "too_long", Message: "A reason has at most 500 characters."}}
	}
	return nil
}

// Handoff gives a conversation that something handled by itself to the team; to one that people handle already, nothing
// happens and false is answered.
func (c Conversation) Handoff(reason string) ([]events.Event, bool) {
	if c.HandledBy == HandledByTeam {
		return nil, false
	}
	return append(c.setHandler(HandledByTeam), &events.AgentHandoff{
		ConversationRef: c.ConversationRef, From: c.HandledBy, TeamID: c.TeamID, Why: events.HandoffPersonal{Reason: reason},
	}), true
}

// ParseHandler reads a handler as a client may set it: team, or agent: and the agent's id. Only a workflow's run makes
// itself the handler.
func ParseHandler(handler string) (agent *uuid.UUID, err error) {
	if handler == HandledByTeam {
		return nil, nil //nolint:nilnil // the team is no agent
	}
	if text, found := strings.CutPrefix(handler, AgentPrefix); found {
		if id, err := uuid.Parse(text); err == nil && id.String() == text {
			return &id, nil
		}
	}
	return nil, fault.Invalid("/handled_by", "invalid_value", "The handler is team, or agent: and the id of an agent.")
}
