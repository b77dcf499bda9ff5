package message

import (
	"time"

	"ledgerline/events"
)

// RecordCapability returns the event that puts a check of the chat channel on the message's timeline. chat is its
// result, at its time. lineID is the line that was asked; "" means that an earlier result was reused (rule CON-10).
func (m Message) RecordCapability(chat bool, at time.Time, lineID string) []events.Event {
	return []events.Event{&events.MessageCapabilityChecked{
		MessageRef: m.MessageRef, Chat: chat, Cached: lineID == "", CheckedAt: at, LineID: lineID,
	}}
}
