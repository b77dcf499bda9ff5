package events

import "github.com/google/uuid"

// SavedReplyCreated creates a saved reply of a workspace. It contains no personal data. Stream:
// Stream("srp", id).
type SavedReplyCreated struct {
	SavedReplyID uuid.UUID  `json:"saved_reply_id"`
	Title        string     `json:"title"`
	Body         string     `json:"body"`
	TeamID       *uuid.UUID `json:"team_id"` // null: for all teams
}

// SavedReplyUpdated replaces the content of a saved reply.
type SavedReplyUpdated struct {
	SavedReplyID uuid.UUID  `json:"saved_reply_id"`
	Title        string     `json:"title"`
	Body         string     `json:"body"`
	TeamID       *uuid.UUID `json:"team_id"`
}

// SavedReplyDeleted deletes a saved reply and frees its title.
type SavedReplyDeleted struct {
	SavedReplyID uuid.UUID `json:"saved_reply_id"`
}
