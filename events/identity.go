package events

import "github.com/google/uuid"

// IdentityCreated makes a service identity. Stream: Stream("idn", id). Its token, if it has one, is the API key KeyID, made
// in the same append.
type IdentityCreated struct {
	IdentityID     uuid.UUID `json:"identity_id"`
	Name           string    `json:"name"`
	Kind           string    `json:"kind"` // mcp_client or ai_agent
	Env            string    `json:"env,omitempty"`
	Scopes         []string  `json:"scopes"`
	KeyID          string    `json:"key_id,omitempty"`
	AllowedLineIDs []string  `json:"allowed_line_ids"`      // empty allows all
	DailyLimit     *int64    `json:"daily_limit,omitempty"` // messages a usage day; nil for no limit
}

// IdentityUpdated says what a service identity is from now on. Changed names the properties that are not what they were.
type IdentityUpdated struct {
	IdentityID     uuid.UUID `json:"identity_id"`
	Changed        []string  `json:"changed"`
	Name           string    `json:"name"`
	Scopes         []string  `json:"scopes"`
	AllowedLineIDs []string  `json:"allowed_line_ids"`
	DailyLimit     *int64    `json:"daily_limit,omitempty"`
}

// IdentityDisabled stops the identity's token until it is enabled again.
type IdentityDisabled struct {
	IdentityID uuid.UUID `json:"identity_id"`
}

// IdentityEnabled lets the identity's token work again.
type IdentityEnabled struct {
	IdentityID uuid.UUID `json:"identity_id"`
}
