// Package label is the names that a workspace sorts its contacts by. A name is unique in its workspace, without regard
// to case.
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
	maxName = 64 // characters (interface 4.2)
	// maxColor is in characters, too. The interface names no limit, and nothing is kept without one.
	maxColor = 64
)

// Stream names the stream of a label.
func Stream(id uuid.UUID) string { return events.Stream("lbl", id) }

// Claim is the scope and key under which a workspace's label name is claimed.
func Claim(workspace uuid.UUID, name string) (scope, key string) {
	return "label:" + workspace.String(), strings.ToLower(Clean(name))
}

// Clean is a name as it is kept: without spaces around it.
func Clean(name string) string { return strings.TrimSpace(name) }

// Check refuses, at pointer, a name that is empty, longer than 64 characters, or more than one line.
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

// Create makes a label. A name that will not do is refused at pointer.
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

// Apply folds one event.
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

// Exists tells whether the label was made and not deleted.
func (l Label) Exists() bool { return l.ID != uuid.Nil && !l.Deleted }

// Holds tells whether the label is the one that a claim's key belongs to.
func (l Label) Holds(key string) bool {
	_, has := Claim(l.Workspace, l.Name)
	return l.Exists() && has == key
}

// Update gives the label another name, unless name is nil, and another color if setColor says so; nil is none. What is
// as it should be is no event. The claim of a new name is the caller's to move.
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

// Delete ends the label; the claim of its name must be released in the same append.
func (l Label) Delete() []events.Event {
	if !l.Exists() {
		return nil
	}
	return []events.Event{&events.LabelDeleted{LabelID: l.ID}}
}
