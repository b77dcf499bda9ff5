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

// maxName is the longest name, in characters (interface 4.2).
const maxName = 64

// Stream names the stream of a label.
func Stream(id uuid.UUID) string { return events.Stream("lbl", id) }

// Claim is the scope and key under which a workspace's label name is claimed.
func Claim(workspace uuid.UUID, name string) (scope, key string) {
	return "label:" + workspace.String(), strings.ToLower(Clean(name))
}

// Clean is a name as it is kept: without spaces around it.
func Clean(name string) string { return strings.TrimSpace(name) }

// Create makes a label. A name that is empty or longer than 64 characters is refused at pointer.
func Create(id uuid.UUID, name string, color *string, pointer string) ([]events.Event, error) {
	name = Clean(name)
	switch {
	case name == "":
		return nil, fault.Invalid(pointer, "required", "A label needs a name.")
	case utf8.RuneCountInString(name) > maxName:
		return nil, fault.Invalid(pointer, "too_long", "A label's name has at most %d characters.", maxName)
	case strings.ContainsFunc(name, unicode.IsControl):
		return nil, fault.Invalid(pointer, "invalid_value", "A label's name is one line of text.")
	}
	return []events.Event{&events.LabelCreated{LabelID: id, Name: name, Color: color}}, nil
}

// Label is the state of one label. The zero value does not exist.
type Label struct {
	ID        uuid.UUID
	Workspace uuid.UUID
	Name      string
}

// Apply folds one event.
func (l Label) Apply(event events.Event, in events.Envelope) Label {
	if e, ok := event.(*events.LabelCreated); ok {
		return Label{e.LabelID, in.Workspace, e.Name}
	}
	return l
}
