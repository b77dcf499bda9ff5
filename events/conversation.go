package events

import (
	"time"

	"github.com/google/uuid"
)

// ConversationRef identifies the conversation of an event and its contact. Stream: the conversation id.
type ConversationRef struct {
	ConversationID string `json:"conversation_id"`
	ContactID      string `json:"contact_id"`
	IsTest         bool   `json:"is_test,omitempty"`
}

// ConversationStarted opens the conversation of a contact. A contact has only one.
type ConversationStarted struct {
	ConversationID string `json:"conversation_id"`
	ContactID      string `json:"contact_id"`
	IsTest         bool   `json:"is_test,omitempty"`
}

// ConversationReopened opens a closed or snoozed conversation, after a message or on request.
type ConversationReopened struct {
	ConversationID string `json:"conversation_id"`
	ContactID      string `json:"contact_id"`
	From           string `json:"from"`
}

// ConversationSnoozed hides a conversation from the open ones until a time, or changes that time.
type ConversationSnoozed struct {
	ConversationRef
	From  string    `json:"from"` // open, snoozed or closed
	Until time.Time `json:"until"`
}

// ConversationSnoozeEnded opens a conversation whose snooze has ended.
type ConversationSnoozeEnded struct{ ConversationRef }

// ConversationClosed closes a conversation until the next message.
type ConversationClosed struct {
	ConversationRef
	From string `json:"from"` // open or snoozed
}

// ConversationAssigned assigns a conversation to a user, or to none.
type ConversationAssigned struct {
	ConversationRef
	From *uuid.UUID `json:"from"` // null: was not assigned
	To   *uuid.UUID `json:"to"`   // null: is not assigned
}

// ConversationTeamSet assigns a conversation to a team, or to none.
type ConversationTeamSet struct {
	ConversationRef
	From *uuid.UUID `json:"from"`
	To   *uuid.UUID `json:"to"`
}

// ConversationHandlerChanged changes the handler, which answers in a conversation: team, agent:<agent id> or
// workflow:<run id>.
type ConversationHandlerChanged struct {
	ConversationRef
	From string `json:"from"`
	To   string `json:"to"`
}

// ConversationRead records that all received messages were read.
type ConversationRead struct{ ConversationRef }

// AgentHandoff records that an agent or workflow handed a conversation over to the team. The same append contains,
// before it, the events that change handler and team.
type AgentHandoff struct {
	ConversationRef
	From   string          `json:"from"` // the handler until then: agent:<agent id> or workflow:<run id>
	TeamID *uuid.UUID      `json:"team_id"`
	Why    HandoffPersonal `json:"-"`
}

// HandoffPersonal is the personal data of a handoff.
type HandoffPersonal struct {
	Reason string `json:"reason,omitempty"`
}

// Subject implements Sealed.
func (e *AgentHandoff) Subject() string { return e.ContactID }

// Personal implements Sealed.
func (e *AgentHandoff) Personal() any { return &e.Why }

// NoteAdded adds a note of the team to a conversation, which the contact never sees. Stream: Stream("note", id), so
// that loading a conversation does not load all its notes.
type NoteAdded struct {
	ConversationRef
	NoteID       uuid.UUID    `json:"note_id"`
	AuthorUserID *uuid.UUID   `json:"author_user_id"` // null: not written by a user
	Content      NotePersonal `json:"-"`
}

// NotePersonal is the personal data of a note.
type NotePersonal struct {
	Body string `json:"body,omitempty"`
}

// Subject implements Sealed.
func (e *NoteAdded) Subject() string { return e.ContactID }

// Personal implements Sealed.
func (e *NoteAdded) Personal() any { return &e.Content }

// AgentAsked records that the agent which handles a conversation is to answer a message. The same append contains
// message.received.
type AgentAsked struct {
	ConversationRef
	AgentID   uuid.UUID `json:"agent_id"`
	MessageID string    `json:"message_id"`
}

// AgentAnswered records that an agent has dealt with a message, and with all that the contact wrote before it.
type AgentAnswered struct {
	ConversationRef
	AgentID    uuid.UUID `json:"agent_id"`
	QuestionID string    `json:"question_id"`          // the newest message that was answered
	MessageID  *string   `json:"message_id,omitempty"` // the answer; nil when the agent only finished or handed over
}

// AgentFinished records that an agent has nothing more to do in a conversation. The same append contains, after it, the
// event that makes the team the handler.
type AgentFinished struct {
	ConversationRef
	AgentID uuid.UUID `json:"agent_id"`
}
