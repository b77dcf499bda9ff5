// Package conversation is the one conversation of a contact in a workspace (interface 3.2, decisions section 7).
package conversation

import "ledgerline/events"

// Status is where a conversation stands.
type Status string

// The conversation statuses.
const (
	Open    Status = "open"
	Snoozed Status = "snoozed"
	Closed  Status = "closed"
)

// Conversation is the state of one conversation. The zero value has not started.
type Conversation struct {
	ID        string
	ContactID string
	Status    Status
}

// Apply folds one event.
func (c Conversation) Apply(event events.Event, _ events.Envelope) Conversation {
	switch e := event.(type) {
	case *events.ConversationStarted:
		return Conversation{ID: e.ConversationID, ContactID: e.ContactID, Status: Open}
	case *events.ConversationReopened:
		c.Status = Open
	}
	return c
}

// Message makes sure that the conversation is open, as every inbound and outbound message does: it starts one that
// has not started and reopens one that is closed or snoozed.
func (c Conversation) Message(id, contactID string, isTest bool) []events.Event {
	switch c.Status {
	case Open:
		return nil
	case Snoozed, Closed:
		return []events.Event{&events.ConversationReopened{ConversationID: c.ID, ContactID: c.ContactID, From: string(c.Status)}}
	}
	return []events.Event{&events.ConversationStarted{ConversationID: id, ContactID: contactID, IsTest: isTest}}
}
