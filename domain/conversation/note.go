package conversation

import (
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/events"
)

// maxNote is the longest note, in characters (rule INB-18).
const maxNote = 5000

// NoteStream returns the name of the stream of a note.
func NoteStream(id uuid.UUID) string { return events.Stream("note", id) }

// Note is the state of one note. The zero value does not exist.
type Note struct{ events.NoteAdded }

// Apply returns the state after one event of the note's stream.
func (n Note) Apply(event events.Event, _ events.Envelope) Note {
	if e, ok := event.(*events.NoteAdded); ok {
		return Note{*e}
	}
	return n
}

// AddNote adds a note (rule INB-18). author is nil for a note that no person writes. An empty or too long body is
// refused with validation_failed.
func (c Conversation) AddNote(id uuid.UUID, author *uuid.UUID, body string) ([]events.Event, error) {
	switch {
	case strings.TrimSpace(body) == "":
		return nil, fault.Invalid("/body", "required", "A note needs a body.")
	case utf8.RuneCountInString(body) > maxNote:
		return nil, fault.Invalid("/body", "too_long", "A note has at most %d characters.", maxNote)
	}
	return []events.Event{&events.NoteAdded{
		ConversationRef: c.ConversationRef, NoteID: id, AuthorUserID: author, Content: events.NotePersonal{Body: body},
	}}, nil
}
