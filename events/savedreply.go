package events

import "github.com/google/uuid"

// SavedReplyCreated keeps a text for replies. It is the workspace's own and holds no personal data. Stream:
// Stream("srp", id).
type SavedReplyCreated struct {
	SavedReplyID uuid.UUID  `json:"saved_reply_id"`
	Title        string     `json:"title"`
	Body         string     `json:"body"`
	TeamID       *uuid.UUID `json:"team_id"` // null: for everyone
}

// SavedReplyUpdated replaces what is kept.
type SavedReplyUpdated struct {
	SavedReplyID uuid.UUID  `json:"saved_reply_id"`
	Title        string     `json:"title"`
	Body         string     `json:"body"`
	TeamID       *uuid.UUID `json:"team_id"`
}

// SavedReplyDeleted ends it; its title may be used again.
type SavedReplyDeleted struct {
	SavedReplyID uuid.UUID `json:"saved_reply_id"`
}
