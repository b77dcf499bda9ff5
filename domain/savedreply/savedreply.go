// Package savedreply holds the texts that a workspace stores for its replies (rule INB-19). A title is unique in its
// workspace, without regard to case.
package savedreply

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/events"
)

// The longest title and body, in characters (rule INB-19).
const (
	maxTitle = 120
	maxBody  = 2000
)

// Stream returns the name of the stream of a saved reply.
func Stream(id uuid.UUID) string { return events.Stream("srp", id) }

// Claim returns the scope and key under which a title is claimed.
func Claim(workspace uuid.UUID, title string) (scope, key string) {
	return "saved_reply:" + workspace.String(), strings.ToLower(strings.TrimSpace(title))
}

// Text is the content of a saved reply.
type Text struct {
	Title  string
	Body   string
	TeamID *uuid.UUID // nil: for everyone
}

// SavedReply is the state of one saved reply. The zero value does not exist.
type SavedReply struct {
	ID        uuid.UUID
	Workspace uuid.UUID
	Text
	Deleted bool
}

// Apply returns the state after one event of the saved reply's stream.
func (s SavedReply) Apply(event events.Event, in events.Envelope) SavedReply {
	switch e := event.(type) {
	case *events.SavedReplyCreated:
		return SavedReply{ID: e.SavedReplyID, Workspace: in.Workspace, Text: Text{e.Title, e.Body, e.TeamID}}
	case *events.SavedReplyUpdated:
		s.Text = Text{e.Title, e.Body, e.TeamID}
	case *events.SavedReplyDeleted:
		s.Deleted = true
	}
	return s
}

// Exists reports whether the saved reply was created and not deleted.
func (s SavedReply) Exists() bool { return s.ID != uuid.Nil && !s.Deleted }

// Create creates a saved reply. All problems are refused together, with validation_failed. The caller claims the
// title in the same append.
func Create(id uuid.UUID, t Text) ([]events.Event, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	return []events.Event{&events.SavedReplyCreated{SavedReplyID: id, Title: strings.TrimSpace(t.Title), Body: t.Body, TeamID: t.TeamID}}, nil
}

// Update replaces the content; the same content is no event. All problems are refused together, with
// validation_failed. The caller moves the claim of a changed title in the same append.
func (s SavedReply) Update(t Text) ([]events.Event, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	t.Title = strings.TrimSpace(t.Title)
	sameTeam := s.TeamID == t.TeamID || s.TeamID != nil && t.TeamID != nil && *s.TeamID == *t.TeamID
	if t.Title == s.Title && t.Body == s.Body && sameTeam {
		return nil, nil
	}
	return []events.Event{&events.SavedReplyUpdated{SavedReplyID: s.ID, Title: t.Title, Body: t.Body, TeamID: t.TeamID}}, nil
}

// Delete deletes the saved reply. The caller releases the claim of its title in the same append.
func (s SavedReply) Delete() []events.Event {
	return []events.Event{&events.SavedReplyDeleted{SavedReplyID: s.ID}}
}

func (t Text) check() error {
	var issues []fault.Issue
	add := func(pointer, code, message string) {
		issues = append(issues, fault.Issue{Location: "body", Path: pointer, Code: code, Message: message})
	}
	switch title := strings.TrimSpace(t.Title); {
	case title == "":
		add("/title", "required", "A saved reply needs a title.")
	case utf8.RuneCountInString(title) > maxTitle:
		add("/title", "too_long", "A title has at most 120 characters.")
	case strings.ContainsFunc(title, unicode.IsControl):
		add("/title", "invalid_value", "A title is one line of text.")
	}
	switch {
	case strings.TrimSpace(t.Body) == "":
		add("/body", "required", "A saved reply needs a body.")
	case utf8.RuneCountInString(t.Body) > maxBody:
		add("/body", "too_long", "A body has at most 2000 characters.")
	}
	if len(issues) > 0 {
		return fault.Invalids(issues...)
	}
	return nil
}
