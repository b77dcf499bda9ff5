package events

import "github.com/google/uuid"

// SegmentLabel binds a name in a segment's definition to the label that it meant when the definition was written.
type SegmentLabel struct {
	Name    string    `json:"name"`
	LabelID uuid.UUID `json:"label_id"`
}

// SegmentCreated names a part of a workspace's contacts. Stream: Stream("seg", id).
type SegmentCreated struct {
	SegmentID  uuid.UUID      `json:"segment_id"`
	Name       string         `json:"name"`
	Definition map[string]any `json:"definition"` // as it was given
	Labels     []SegmentLabel `json:"labels,omitempty"`
}

// SegmentUpdated changes a segment; what is in Changed has its new value here.
type SegmentUpdated struct {
	SegmentID  uuid.UUID      `json:"segment_id"`
	Changed    []string       `json:"changed"` // name, definition
	Name       string         `json:"name,omitempty"`
	Definition map[string]any `json:"definition,omitempty"`
	Labels     []SegmentLabel `json:"labels,omitempty"`
}

// SegmentDeleted ends a segment and frees its name. Its contacts stay.
type SegmentDeleted struct {
	SegmentID uuid.UUID `json:"segment_id"`
}
