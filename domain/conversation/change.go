package conversation

import (
	"strings"
	"time"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/events"
)

// Setting is a property of a request that may be left out, emptied, or given a value.
type Setting[T any] struct {
	Given bool // false: the request leaves the property as it is
	Value *T   // nil: the request empties the property
}

// Change is what one PATCH asks of a conversation.
type Change struct {
	Status       Status // "": unchanged
	SnoozedUntil Setting[time.Time]
	Assignee     Setting[uuid.UUID]
	Team         Setting[uuid.UUID]
	HandledBy    *string
	MarkRead     bool
}

// Change decides on a PATCH and returns all its events together; a value that stays the same causes no event (rule
// INB-14). It refuses with validation_failed what rule INB-3 does not allow about status and snooze. That assignee,
// team and handler exist is not checked here: the caller checks it.
func (c Conversation) Change(ch Change, now time.Time) ([]events.Event, error) {
	list, err := c.changeStatus(ch.Status, ch.SnoozedUntil, now)
	if err != nil {
		return nil, err
	}
	if to := ch.Assignee; to.Given && !same(c.Assignee, to.Value) {
		list = append(list, &events.ConversationAssigned{ConversationRef: c.ConversationRef, From: c.Assignee, To: to.Value})
	}
	if to := ch.Team; to.Given {
		list = append(list, c.setTeam(to.Value)...)
	}
	if ch.HandledBy != nil {
		list = append(list, c.setHandler(*ch.HandledBy)...)
	} else if ch.Assignee.Given && strings.HasPrefix(c.HandledBy, WorkflowPrefix) { // rule WFL-28
		list = append(list, c.setHandler(HandledByTeam)...)
	}
	if ch.MarkRead {
		list = append(list, c.MarkRead()...)
	}
	return list, nil
}

func (c Conversation) setTeam(team *uuid.UUID) []events.Event {
	if same(c.TeamID, team) {
		return nil
	}
	return []events.Event{&events.ConversationTeamSet{ConversationRef: c.ConversationRef, From: c.TeamID, To: team}}
}

// AssignTeam gives the conversation to a team; no event if the team has it already.
func (c Conversation) AssignTeam(team uuid.UUID) []events.Event { return c.setTeam(&team) }

func (c Conversation) changeStatus(to Status, until Setting[time.Time], now time.Time) ([]events.Event, error) {
	switch {
	case to == Snoozed || to == "" && until.Value != nil:
		return c.snooze(until.Value, now)
	case until.Value != nil:
		return nil, fault.Invalid("/snoozed_until", "not_snoozed", "Only a snoozed conversation has a time to wake at.")
	case to == Closed:
		if c.Status == Closed {
			return nil, nil
		}
		return []events.Event{&events.ConversationClosed{ConversationRef: c.ConversationRef, From: string(c.Status)}}, nil
	case to == Open, to == "" && until.Given && c.Status == Snoozed:
		return c.reopen(), nil
	case to == "":
		return nil, nil
	}
	return nil, fault.Invalid("/status", "invalid_value", "The status is open, snoozed or closed.")
}

func (c Conversation) snooze(until *time.Time, now time.Time) ([]events.Event, error) {
	if until == nil {
		return nil, fault.Invalid("/snoozed_until", "required", "A conversation is snoozed until a time.")
	}
	at := until.UTC().Truncate(time.Millisecond) // times are stored to the millisecond
	if !at.After(now) {
		return nil, fault.Invalid("/snoozed_until", "not_in_the_future", "A conversation is snoozed until a time ahead.")
	}
	if c.Status == Snoozed && c.SnoozedUntil.Equal(at) {
		return nil, nil
	}
	return []events.Event{&events.ConversationSnoozed{ConversationRef: c.ConversationRef, From: string(c.Status), Until: at}}, nil
}

func same(a, b *uuid.UUID) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
