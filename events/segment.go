package events

import "github.com/google/uuid"

// SegmentLabel is the label that a name in a segment's definition meant when the definition was written.
type SegmentLabel struct {
	Name    string    `json:"name"`
	LabelID uuid.UUID `json:"label_id"`
}

// SegmentCreated creates a segment: a named selection of the contacts of a workspace. Stream: Stream("seg", id).
type SegmentCreated struct {
	SegmentID  uuid.UUID      `json:"segment_id"`
	Name       string         `json:"name"`
	Definition map[string]any `json:"definition"` // as in the request
	Labels     []SegmentLabel `json:"labels,omitempty"`
}

// SegmentUpdated changes a segment. Only the fields in Changed have values.
type SegmentUpdated struct {
	SegmentID  uuid.UUID      `json:"segment_id"`
	Changed    []string       `json:"changed"` // name, definition
	Name       string         `json:"name,omitempty"`
	Definition map[string]any `json:"definition,omitempty"`
	Labels     []SegmentLabel `json:"labels,omitempty"`
}

// SegmentDeleted deletes a segment and frees its name. Its contacts stay.
type SegmentDeleted struct {
	SegmentID uuid.UUID `json:"segment_id"`
}
