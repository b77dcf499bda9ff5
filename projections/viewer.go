package projections

import "github.com/google/uuid"

// Viewer says what a caller may see: the whole workspace, or what one agent may see of it.
type Viewer struct {
	Workspace uuid.UUID
	Shard     int
	Agent     uuid.UUID // uuid.Nil for callers that see the whole workspace
}
