package events

import "github.com/google/uuid"

// AgentCreated creates an agent as a draft. Stream: Stream("agt", id). The same append creates its service identity.
type AgentCreated struct {
	AgentID        uuid.UUID `json:"agent_id"`
	IdentityID     uuid.UUID `json:"identity_id"`
	Name           string    `json:"name"`
	Instructions   string    `json:"instructions"`
	Model          string    `json:"model,omitempty"`       // empty: the model that the installation names
	AllowedLineIDs []string  `json:"allowed_line_ids"`      // empty allows all
	DailyLimit     *int64    `json:"daily_limit,omitempty"` // answers in a usage day; nil: no limit
}

// AgentUpdated replaces the properties of an agent. Changed names those that differ. A change of the name, the lines or
// the limit comes with one of the service identity.
type AgentUpdated struct {
	AgentID        uuid.UUID `json:"agent_id"`
	Changed        []string  `json:"changed"`
	Name           string    `json:"name"`
	Instructions   string    `json:"instructions"`
	Model          string    `json:"model,omitempty"`
	AllowedLineIDs []string  `json:"allowed_line_ids"`
	DailyLimit     *int64    `json:"daily_limit,omitempty"`
}

// AgentActivated makes an agent live: it answers in the conversations that it handles.
type AgentActivated struct {
	AgentID uuid.UUID `json:"agent_id"`
	From    string    `json:"from"` // draft or paused
}

// AgentPaused stops a live agent. It hands over the conversations that it handles.
type AgentPaused struct {
	AgentID uuid.UUID `json:"agent_id"`
}
