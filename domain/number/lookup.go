package number

import (
	"slices"
	"time"

	"ledgerline/events"
)

// ChatLife is for how long it is believed what a carrier said about a number (interface section 8).
const ChatLife = 30 * 24 * time.Hour

// Chat is what a carrier said when it was asked whether the number is on the chat channel.
type Chat struct {
	On bool
	At time.Time
}

// OnChat gives what is known of the number; known is false when nobody asked within ChatLife.
func (n Number) OnChat(now time.Time) (chat Chat, known bool) {
	if n.Chat == nil || !now.Before(n.Chat.At.Add(ChatLife)) {
		return Chat{}, false
	}
	return *n.Chat, true
}

// Check records what a carrier said, asked through a line. What is known already is no event: of two who ask at once,
// one is remembered.
func (n Number) Check(chat bool, lineID string, now time.Time) []events.Event {
	if known, ok := n.OnChat(now); ok && known.On == chat {
		return nil
	}
	e := &events.NumberChecked{Chat: chat, LineID: lineID}
	for _, h := range n.Holders {
		e.ContactIDs = append(e.ContactIDs, h.ContactID)
	}
	slices.Sort(e.ContactIDs)
	return []events.Event{e}
}
