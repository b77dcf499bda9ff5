package events

import "time"

// NumberChecked tells what a carrier said when it was asked whether the number is on the chat channel. Stream: the
// number's.
type NumberChecked struct {
	Chat       bool     `json:"chat"`
	LineID     string   `json:"line_id"`               // through which it was asked
	ContactIDs []string `json:"contact_ids,omitempty"` // who held the number then, so that a reader needs nothing else
}

// MessageCapabilityChecked tells, on a message's timeline, what was known of its number before it was sent.
type MessageCapabilityChecked struct {
	MessageRef
	Chat      bool      `json:"chat"`
	Cached    bool      `json:"cached"` // known from before, not asked for this message
	CheckedAt time.Time `json:"checked_at"`
	LineID    string    `json:"line_id,omitempty"` // through which it was asked, when it was
}
