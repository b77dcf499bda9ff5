package segment

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/events"
)

const maxName = 80 // characters (rule CON-32)

// Stream returns the name of the stream of a segment.
func Stream(id uuid.UUID) string { return events.Stream("seg", id) }

// Claim returns the scope and key under which the name of a workspace's segment is claimed.
func Claim(workspace uuid.UUID, name string) (scope, key string) {
	return "segment:" + workspace.String(), Fold(Clean(name))
}

// Clean returns a name as it is stored: without spaces around it.
func Clean(name string) string { return strings.TrimSpace(name) }

// Segment is the state of one segment. The zero value does not exist.
type Segment struct {
	ID         uuid.UUID
	Workspace  uuid.UUID
	Name       string
	Definition map[string]any
	Labels     []events.SegmentLabel
	Deleted    bool
}

// Apply returns the state after one event of the segment's stream.
func (s Segment) Apply(event events.Event, in events.Envelope) Segment {
	switch e := event.(type) {
	case *events.SegmentCreated:
		return Segment{ID: e.SegmentID, Workspace: in.Workspace, Name: e.Name, Definition: e.Definition, Labels: e.Labels}
	case *events.SegmentUpdated:
		for _, name := range e.Changed {
			switch name {
			case "name":
				s.Name = e.Name
			case "definition":
				s.Definition, s.Labels = e.Definition, e.Labels
			}
		}
	case *events.SegmentDeleted:
		s.Deleted = true
	}
	return s
}

// Exists reports whether the segment was created and not deleted.
func (s Segment) Exists() bool { return s.ID != uuid.Nil && !s.Deleted }

// CheckName refuses a name with validation_failed at /name if it is empty, longer than 80 characters, or more than
// one line.
func CheckName(name string) error {
	name = Clean(name)
	switch {
	case name == "":
		return fault.Invalid("/name", "required", "A segment needs a name.")
	case utf8.RuneCountInString(name) > maxName:
		return fault.Invalid("/name", "too_long", "A segment's name has at most %d characters.", maxName)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fault.Invalid("/name", "invalid_value", "A segment's name is one line of text.")
	}
	return nil
}

// Create creates a segment. The definition must be parsed, and its labels bound. The caller claims the name in the
// same append.
func Create(id uuid.UUID, name string, definition map[string]any, labels []events.SegmentLabel) []events.Event {
	return []events.Event{&events.SegmentCreated{SegmentID: id, Name: Clean(name), Definition: definition, Labels: labels}}
}

// Update changes the name, unless it is nil, and the definition, unless it is nil; a value that stays the same causes
// no event. The caller moves the claim of a changed name in the same append.
func (s Segment) Update(name *string, definition map[string]any, labels []events.SegmentLabel) []events.Event {
	e := &events.SegmentUpdated{SegmentID: s.ID}
	if name != nil && Clean(*name) != s.Name {
		e.Changed, e.Name = append(e.Changed, "name"), Clean(*name)
	}
	if definition != nil && !(sameJSON(definition, s.Definition) && slices.Equal(labels, s.Labels)) {
		e.Changed, e.Definition, e.Labels = append(e.Changed, "definition"), definition, labels
	}
	if len(e.Changed) == 0 {
		return nil
	}
	return []events.Event{e}
}

// Delete deletes the segment. The caller releases the claim of its name in the same append.
func (s Segment) Delete() []events.Event {
	if !s.Exists() {
		return nil
	}
	return []events.Event{&events.SegmentDeleted{SegmentID: s.ID}}
}

func sameJSON(a, b map[string]any) bool {
	left, err := json.Marshal(a)
	if err != nil {
		return false
	}
	right, err := json.Marshal(b)
	return err == nil && bytes.Equal(left, right)
}
