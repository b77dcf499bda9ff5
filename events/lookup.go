package events

import "time"

// NumberChecked records a carrier's answer to whether the number is on the chat channel. Stream: that of the number.
type NumberChecked struct {
	Chat       bool     `json:"chat"`
	LineID     string   `json:"line_id"`               // through which the carrier was asked
	ContactIDs []string `json:"contact_ids,omitempty"` // the contacts that had the number then
}

// MessageCapabilityChecked records on a message's timeline whether its number was on the chat channel before it was
// sent.
type MessageCapabilityChecked struct {
	MessageRef
	Chat      bool      `json:"chat"`
	Cached    bool      `json:"cached"` // known from an earlier check
	CheckedAt time.Time `json:"checked_at"`
	LineID    string    `json:"line_id,omitempty"` // through which the carrier was asked; "" when Cached
}
