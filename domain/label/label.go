// Package label holds the labels of a workspace's contacts (rules CON-29 and CON-30). A name is unique in its
// workspace, without regard to case.
package label

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/events"
)

const (
	maxName  = 64 // characters (rule CON-29)
	maxColor = 64 // characters (rule CON-29)
)

// Stream returns the name of the stream of a label.
func Stream(id uuid.UUID) string { return events.Stream("lbl", id) }

// Claim returns the scope and key under which the name of a workspace's label is claimed.
func Claim(workspace uuid.UUID, name string) (scope, key string) {
	return "label:" + workspace.String(), strings.ToLower(Clean(name))
}

// Clean returns a name as it is stored: without spaces around it.
func Clean(name string) string { return strings.TrimSpace(name) }

// Check refuses a name with validation_failed at pointer if it is empty, longer than 64 characters, or more than one
// line.
func Check(name, pointer string) error {
	name = Clean(name)
	switch {
	case name == "":
		return fault.Invalid(pointer, "required", "A label needs a name.")
	case utf8.RuneCountInString(name) > maxName:
		return fault.Invalid(pointer, "too_long", "A label's name has at most %d characters.", maxName)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fault.Invalid(pointer, "invalid_value", "A label's name is one line of text.")
	}
	return nil
}

func checkColor(color *string) error {
	if color != nil && utf8.RuneCountInString(*color) > maxColor {
		return fault.Invalid("/color", "too_long", "A color has at most %d characters.", maxColor)
	}
	return nil
}

// Create creates a label. A bad name is refused with validation_failed at pointer, a long colour at /color. The
// caller claims the name in the same append.
func Create(id uuid.UUID, name string, color *string, pointer string) ([]events.Event, error) {
	if err := Check(name, pointer); err != nil {
		return nil, err
	}
	if err := checkColor(color); err != nil {
		return nil, err
	}
	return []events.Event{&events.LabelCreated{LabelID: id, Name: Clean(name), Color: color}}, nil
}

// Label is the state of one label. The zero value does not exist.
type Label struct {
	ID        uuid.UUID
	Workspace uuid.UUID
	Name      string
	Color     *string
	Deleted   bool
}

// Apply returns the state after one event of the label's stream.
func (l Label) Apply(event events.Event, in events.Envelope) Label {
	switch e := event.(type) {
	case *events.LabelCreated:
		return Label{ID: e.LabelID, Workspace: in.Workspace, Name: e.Name, Color: e.Color}
	case *events.LabelUpdated:
		for _, name := range e.Changed {
			switch name {
			case "name":
				l.Name = e.Name
			case "color":
				l.Color = e.Color
			}
		}
	case *events.LabelDeleted:
		l.Deleted = true
	}
	return l
}

// Exists reports whether the label was created and not deleted.
func (l Label) Exists() bool { return l.ID != uuid.Nil && !l.Deleted }

// HasClaim reports whether the label exists and its name is claimed under this key.
func (l Label) HasClaim(key string) bool {
	_, own := Claim(l.Workspace, l.Name)
	return l.Exists() && own == key
}

// Update changes the name, unless it is nil, and the colour, if setColor is true; a nil colour means none. What is so
// already is no event. Bad values are refused with validation_failed. The caller moves the claim of a changed name in
// the same append.
func (l Label) Update(name *string, setColor bool, color *string) ([]events.Event, error) {
	e := &events.LabelUpdated{LabelID: l.ID}
	if name != nil {
		if err := Check(*name, "/name"); err != nil {
			return nil, err
		}
		if clean := Clean(*name); clean != l.Name {
			e.Changed, e.Name = append(e.Changed, "name"), clean
		}
	}
	if err := checkColor(color); err != nil {
		return nil, err
	}
	if setColor && (color == nil) != (l.Color == nil) || setColor && color != nil && *color != *l.Color {
		e.Changed, e.Color = append(e.Changed, "color"), color
	}
	if len(e.Changed) == 0 {
		return nil, nil
	}
	return []events.Event{e}, nil
}

// Delete deletes the label. The caller releases the claim of its name in the same append.
func (l Label) Delete() []events.Event {
	if !l.Exists() {
		return nil
	}
	return []events.Event{&events.LabelDeleted{LabelID: l.ID}}
}
