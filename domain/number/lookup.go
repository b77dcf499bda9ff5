package number

import (
	"slices"
	"time"

	"ledgerline/events"
)

// ChatCheckValidity is how long a carrier's answer about a number is valid (rule CON-10).
const ChatCheckValidity = 30 * 24 * time.Hour

// ChatCheck is a carrier's answer to whether a number is on the chat channel.
type ChatCheck struct {
	OnChat    bool
	CheckedAt time.Time
}

// ValidChatCheck returns the newest answer of a carrier; known is false if there is none of the last 30 days (rule
// CON-10).
func (n Number) ValidChatCheck(now time.Time) (chat ChatCheck, known bool) {
	if n.LastChatCheck == nil || !now.Before(n.LastChatCheck.CheckedAt.Add(ChatCheckValidity)) {
		return ChatCheck{}, false
	}
	return *n.LastChatCheck, true
}

// RecordChatCheck records a carrier's answer that a lookup through a line returned. An answer that repeats a valid
// one is no event: of two lookups at the same time, one is recorded.
func (n Number) RecordChatCheck(chat bool, lineID string, now time.Time) []events.Event {
	if known, ok := n.ValidChatCheck(now); ok && known.OnChat == chat {
		return nil
	}
	e := &events.NumberChecked{Chat: chat, LineID: lineID}
	for _, h := range n.Holders {
		e.ContactIDs = append(e.ContactIDs, h.ContactID)
	}
	slices.Sort(e.ContactIDs)
	return []events.Event{e}
}
