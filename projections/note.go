package projections

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/projections/readmodel"
)

var notesTable = &readmodel.Table{Name: "notes", Key: []string{"id"}, Columns: []readmodel.Column{
	{Name: "id", Type: "uuid not null"},
	{Name: "conversation_id", Type: `text collate "C" not null`},
	{Name: "contact_id", Type: `text collate "C" not null`},
	{Name: "author_user_id", Type: "uuid"},
	{Name: "body", Type: "text not null"},
	{Name: "created_at", Type: "timestamptz not null"},
}}

func noteAdded(c *readmodel.Changes, e *events.NoteAdded, r *eventstore.Recorded) {
	c.Insert(notesTable, readmodel.Row{
		"id": e.NoteID, "conversation_id": e.ConversationID, "contact_id": e.ContactID, "author_user_id": e.AuthorUserID,
		"body": e.Content.Body, "created_at": readmodel.Stamp(r.OccurredAt),
	})
}

// Note is a remark of the team's (interface 2.3).
type Note struct {
	ID             string  `json:"id" format:"uuid"`
	ConversationID string  `json:"conversation_id" doc:"cnv_ id"`
	AuthorUserID   *string `json:"author_user_id" format:"uuid" doc:"null when an API key wrote it"`
	Body           string  `json:"body"`
	CreatedAt      string  `json:"created_at" format:"date-time"`
}

// RecentNotes is how many notes a conversation shows.
const RecentNotes = 50

const (
	noteColumns = `n.id::text, n.conversation_id, n.author_user_id::text, n.body, n.created_at`
	notesSQL    = `select ` + noteColumns + ` from read.notes n where n.conversation_id = $1 order by n.created_at desc, n.id desc limit $2`
	noteSQL     = `select ` + noteColumns + ` from read.notes n join read.conversations v on v.id = n.conversation_id where n.id = $1 and v.workspace_id = $2`
)

func scanNote(row pgx.CollectableRow) (n Note, err error) {
	var created time.Time
	err = row.Scan(&n.ID, &n.ConversationID, &n.AuthorUserID, &n.Body, &created)
	n.CreatedAt = readmodel.Stamp(created)
	return n, err
}

// Notes lists the newest notes of a conversation that the caller was found to see, newest first.
func (s *Store) Notes(ctx context.Context, conversationID string) ([]Note, error) {
	return readmodel.List(ctx, s.Reader, "notes", scanNote, notesSQL, conversationID, RecentNotes)
}

// Note finds a note of the workspace; found is false when there is none.
func (s *Store) Note(ctx context.Context, v Viewer, id uuid.UUID) (Note, bool, error) {
	return readmodel.One(ctx, s.Reader, "note", scanNote, noteSQL, id, v.Workspace)
}
