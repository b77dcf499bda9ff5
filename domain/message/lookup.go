package message

import (
	"time"

	"ledgerline/events"
)

// RecordCapability tells on the timeline what was known of the number before the message is sent. lineID is "" for what
// was known from before.
func (m Message) RecordCapability(chat bool, at time.Time, lineID string) []events.Event {
	return []events.Event{&events.MessageCapabilityChecked{
		MessageRef: m.MessageRef, Chat: chat, Cached: lineID == "", CheckedAt: at, LineID: lineID,
	}}
}
