package number

import (
	"slices"
	"time"

	"ledgerline/events"
)

// ChatCheckValidity is for how long it is believed what a carrier said about a number (interface section 8).
const ChatCheckValidity = 30 * 24 * time.Hour

// ChatCheck is what a carrier said when it was asked whether the number is on the chat channel.
type ChatCheck struct {
	OnChat    bool
	CheckedAt time.Time
}

// ValidChatCheck gives what is known of the number; known is false when nobody asked within ChatLife.
func (n Number) ValidChatCheck(now time.Time) (chat ChatCheck, known bool) {
	if n.LastChatCheck == nil || !now.Before(n.LastChatCheck.CheckedAt.Add(ChatCheckValidity)) {
		return ChatCheck{}, false
	}
	return *n.LastChatCheck, true
}

// RecordChatCheck records what a carrier said, asked through a line. What is known already is no event: of two who ask at once,
// one is remembered.
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
