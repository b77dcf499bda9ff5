// Package conversation holds the state of a contact's one conversation in a workspace, its notes, and the decisions
// about status, assignee, team and handler (rules INB-1 to INB-4, INB-9 to INB-11, INB-14, INB-16 and INB-18).
package conversation

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/events"
)

// Status is the state of a conversation (rule INB-2).
type Status string

// The conversation statuses.
const (
	Open    Status = "open"
	Snoozed Status = "snoozed"
	Closed  Status = "closed"
)

// The values of handled_by (rule INB-11): the team, an AI agent, or a run of a workflow. The prefixes are followed by
// an id.
const (
	HandledByTeam  = "team"
	AgentPrefix    = "agent:"
	WorkflowPrefix = "workflow:"
)

// Conversation is the state of one conversation. The zero value is a conversation that has not started.
type Conversation struct {
	events.ConversationRef
	Organisation uuid.UUID
	Workspace    uuid.UUID
	Status       Status
	SnoozedUntil time.Time  // with Snoozed: when the snooze ends
	Assignee     *uuid.UUID // nil: not assigned
	TeamID       *uuid.UUID // nil: no team
	HandledBy    string     // as in rule INB-11
	Question     string     // the message that the agent which handles the conversation has to answer; "" for none
	LastAgent    LastAgent
}

// Apply returns the state after one event of the conversation's stream.
func (c Conversation) Apply(event events.Event, in events.Envelope) Conversation {
	switch e := event.(type) {
	case *events.ConversationStarted:
		return Conversation{
			ConversationRef: events.ConversationRef(*e), Organisation: in.Organisation, Workspace: in.Workspace, Status: Open, HandledBy: HandledByTeam,
		}
	case *events.ConversationReopened, *events.ConversationSnoozeEnded:
		c.Status, c.SnoozedUntil = Open, time.Time{}
	case *events.ConversationSnoozed:
		c.Status, c.SnoozedUntil = Snoozed, e.Until
	case *events.ConversationClosed:
		c.Status, c.SnoozedUntil = Closed, time.Time{}
	case *events.ConversationAssigned:
		c.Assignee = e.To
	case *events.ConversationTeamSet:
		c.TeamID = e.To
	default:
		return c.applyAgent(event)
	}
	return c
}

// Exists reports whether the conversation has started.
func (c Conversation) Exists() bool { return c.ConversationID != "" }

// VisibleTo reports whether a user with the role agent sees the conversation: it is assigned to that user or to
// nobody (rule ACC-18).
func (c Conversation) VisibleTo(agent uuid.UUID) bool {
	return c.Assignee == nil || *c.Assignee == agent
}

// EnsureOpen returns the event that an inbound or outbound message causes (rule INB-2). It starts a conversation that
// has not started, under id, and reopens a closed or snoozed one. For an open conversation it returns no event.
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

// HandleByTeam makes the team the handler, so that no agent or workflow answers any more. A message that a person
// writes has this effect (rule INB-11). The conversation must have started.
func (c Conversation) HandleByTeam() []events.Event { return c.setHandler(HandledByTeam) }

// HandleByRun makes a run of a workflow the handler of a conversation that the team handles and that is assigned to
// nobody (rule WFL-28). Any other conversation keeps its handler.
func (c Conversation) HandleByRun(handler string) []events.Event {
	if c.HandledBy != HandledByTeam || c.Assignee != nil {
		return nil
	}
	return c.setHandler(handler)
}

func (c Conversation) setHandler(by string) []events.Event {
	if c.HandledBy == by {
		return nil
	}
	return []events.Event{&events.ConversationHandlerChanged{ConversationRef: c.ConversationRef, From: c.HandledBy, To: by}}
}

// EndSnooze opens a conversation whose snooze has ended (rule INB-4). For any other conversation it returns no event.
func (c Conversation) EndSnooze(now time.Time) []events.Event {
	if c.Status != Snoozed || now.Before(c.SnoozedUntil) {
		return nil
	}
	return []events.Event{&events.ConversationSnoozeEnded{ConversationRef: c.ConversationRef}}
}

// MarkRead returns the event that all inbound messages were read (rule INB-9). It returns the event even if none was
// unread, because only the read model counts unread messages.
func (c Conversation) MarkRead() []events.Event {
	return []events.Event{&events.ConversationRead{ConversationRef: c.ConversationRef}}
}

// MaxReason is the longest reason of a handoff, in characters (rule INB-16).
const MaxReason = 500

// ReasonIssues returns what is wrong with the reason of a handoff; nil if it is valid.
func ReasonIssues(reason string) []fault.Issue {
	switch {
	case strings.TrimSpace(reason) == "":
		return []fault.Issue{{Location: "body", Path: "/reason", Code: "required", Message: "A handoff needs a reason."}}
	case utf8.RuneCountInString(reason) > MaxReason:
		return []fault.Issue{{Location: "body", Path: "/reason", Code: "too_long", Message: "A reason has at most 500 characters."}}
	}
	return nil
}

// Handoff gives a conversation that an agent or a workflow handles to the team (rule INB-16). If the team handles it
// already, Handoff returns no event and false.
func (c Conversation) Handoff(reason string) ([]events.Event, bool) {
	if c.HandledBy == HandledByTeam {
		return nil, false
	}
	return append(c.setHandler(HandledByTeam), &events.AgentHandoff{
		ConversationRef: c.ConversationRef, From: c.HandledBy, TeamID: c.TeamID, Why: events.HandoffPersonal{Reason: reason},
	}), true
}

// ParseHandler reads a handler that a client may set: team, or agent: and the agent's id (rule INB-11). agent is nil
// for the team. Anything else is refused with validation_failed at /handled_by.
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
