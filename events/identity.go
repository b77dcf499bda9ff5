package events

import "github.com/google/uuid"

// IdentityCreated creates a service identity. Stream: Stream("idn", id). Its token, if it has one, is the API key
// KeyID, which the same append creates.
type IdentityCreated struct {
	IdentityID     uuid.UUID `json:"identity_id"`
	Name           string    `json:"name"`
	Kind           string    `json:"kind"` // mcp_client or ai_agent
	Env            string    `json:"env,omitempty"`
	Scopes         []string  `json:"scopes"`
	KeyID          string    `json:"key_id,omitempty"`
	AllowedLineIDs []string  `json:"allowed_line_ids"`      // empty allows all
	DailyLimit     *int64    `json:"daily_limit,omitempty"` // messages in a usage day; nil: no limit
}

// IdentityUpdated replaces the properties of a service identity. Changed names those that differ.
type IdentityUpdated struct {
	IdentityID     uuid.UUID `json:"identity_id"`
	Changed        []string  `json:"changed"`
	Name           string    `json:"name"`
	Scopes         []string  `json:"scopes"`
	AllowedLineIDs []string  `json:"allowed_line_ids"`
	DailyLimit     *int64    `json:"daily_limit,omitempty"`
}

// IdentityDisabled makes the identity's token invalid until the identity is enabled.
type IdentityDisabled struct {
	IdentityID uuid.UUID `json:"identity_id"`
}

// IdentityEnabled makes the identity's token valid again.
type IdentityEnabled struct {
	IdentityID uuid.UUID `json:"identity_id"`
}
