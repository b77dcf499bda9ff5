package projections

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/projections/readmodel"
)

// Note is a note of the team on a conversation, and defines the columns of its table.
type Note struct {
	ID             string  `json:"id" format:"uuid" sql:"uuid not null"`
	ConversationID string  `json:"conversation_id" doc:"cnv_ id" sql:"text collate \"C\" not null"`
	AuthorUserID   *string `json:"author_user_id" format:"uuid" doc:"null when an API key wrote it" sql:"uuid"`
	Body           string  `json:"body" sql:"text not null"`
	CreatedAt      string  `json:"created_at" format:"date-time" sql:"timestamptz not null"`
}

var (
	notesTable = readmodel.TableOf[Note]("notes", []string{"id"}, readmodel.Column{Name: "contact_id", Type: `text collate "C" not null`})
	noteFields = readmodel.Select[Note](notesTable, "n", nil)
)

func noteAdded(c *readmodel.Changes, e *events.NoteAdded, r *eventstore.Recorded) {
	c.Insert(notesTable, readmodel.Row{
		"id": e.NoteID, "conversation_id": e.ConversationID, "contact_id": e.ContactID, "author_user_id": e.AuthorUserID,
		"body": e.Content.Body, "created_at": readmodel.Stamp(r.OccurredAt),
	})
}

// RecentNotes is how many notes a conversation shows.
const RecentNotes = 50

var (
	notesSQL = `select ` + noteFields.SQL + ` from read.notes n where n.conversation_id = $1 order by n.created_at desc, n.id desc limit $2`
	noteSQL  = `select ` + noteFields.SQL + ` from read.notes n join read.conversations v on v.id = n.conversation_id where n.id = $1 and v.workspace_id = $2`
)

// Notes lists the newest notes of a conversation, newest first. The caller has checked that the viewer may see the
// conversation.
func (s *Store) Notes(ctx context.Context, conversationID string) ([]Note, error) {
	return readmodel.List(ctx, s.Reader, "notes", noteFields.Scan, notesSQL, conversationID, RecentNotes)
}

// Note finds a note of the workspace; found is false when there is none.
func (s *Store) Note(ctx context.Context, v Viewer, id uuid.UUID) (Note, bool, error) {
	return readmodel.One(ctx, s.Reader, "note", noteFields.Scan, noteSQL, id, v.Workspace)
}
