package events

import (
	"time"

	"github.com/google/uuid"
)

// ConversationRef is in the events of a conversation, so that a reader needs nothing else to place them. Stream: the
// conversation id.
type ConversationRef struct {
	ConversationID string `json:"conversation_id"`
	ContactID      string `json:"contact_id"`
	IsTest         bool   `json:"is_test,omitempty"`
}

// ConversationStarted opens the one conversation of a contact in a workspace.
type ConversationStarted struct {
	ConversationID string `json:"conversation_id"`
	ContactID      string `json:"contact_id"`
	IsTest         bool   `json:"is_test,omitempty"`
}

// ConversationReopened puts a closed or snoozed conversation back to open: a message came or went, or somebody asked.
type ConversationReopened struct {
	ConversationID string `json:"conversation_id"`
	ContactID      string `json:"contact_id"`
	From           string `json:"from"`
}

// ConversationSnoozed puts a conversation aside until a time, or moves that time.
type ConversationSnoozed struct {
	ConversationRef
	From  string    `json:"from"` // open, snoozed or closed
	Until time.Time `json:"until"`
}

// ConversationWoken opens a snoozed conversation whose time has come.
type ConversationWoken struct{ ConversationRef }

// ConversationClosed ends a conversation until the next message.
type ConversationClosed struct {
	ConversationRef
	From string `json:"from"` // open or snoozed
}

// ConversationAssigned gives a conversation to a person, or to nobody.
type ConversationAssigned struct {
	ConversationRef
	From *uuid.UUID `json:"from"` // null: nobody had it
	To   *uuid.UUID `json:"to"`   // null: nobody has it
}

// ConversationTeamSet gives a conversation to a team, or to none.
type ConversationTeamSet struct {
	ConversationRef
	From *uuid.UUID `json:"from"`
	To   *uuid.UUID `json:"to"`
}

// ConversationHandlerChanged tells who answers in a conversation: team, agent:<agent id> or workflow:<run id>.
type ConversationHandlerChanged struct {
	ConversationRef
	From string `json:"from"`
	To   string `json:"to"`
}

// ConversationRead tells that everything that had come in was read.
type ConversationRead struct{ ConversationRef }

// AgentHandoff tells that whatever handled a conversation by itself gave it to the team. The change of the handler and
// of the team are events of their own, before it in the same append.
type AgentHandoff struct {
	ConversationRef
	From   string          `json:"from"` // who handled it: agent:<agent id> or workflow:<run id>
	TeamID *uuid.UUID      `json:"team_id"`
	Why    HandoffPersonal `json:"-"`
}

// HandoffPersonal is what is sealed of a handoff.
type HandoffPersonal struct {
	Reason string `json:"reason,omitempty"`
}

// Subject implements Sealed.
func (e *AgentHandoff) Subject() string { return e.ContactID }

// Personal implements Sealed.
func (e *AgentHandoff) Personal() any { return &e.Why }

// NoteAdded is a remark of the team's about a conversation, never shown to the contact. Stream: Stream("note", id), so
// that a conversation is not read with all that was ever remarked about it.
type NoteAdded struct {
	ConversationRef
	NoteID       uuid.UUID    `json:"note_id"`
	AuthorUserID *uuid.UUID   `json:"author_user_id"` // null: no person wrote it
	Content      NotePersonal `json:"-"`
}

// NotePersonal is what is sealed of a note.
type NotePersonal struct {
	Body string `json:"body,omitempty"`
}

// Subject implements Sealed.
func (e *NoteAdded) Subject() string { return e.ContactID }

// Personal implements Sealed.
func (e *NoteAdded) Personal() any { return &e.Content }
