package projections

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/projections/readmodel"
)

var savedRepliesTable = &readmodel.Table{Name: "saved_replies", Key: []string{"id"}, Columns: []readmodel.Column{
	{Name: "id", Type: "uuid not null"},
	{Name: "workspace_id", Type: "uuid not null"},
	{Name: "title", Type: "text not null"},
	{Name: "body", Type: "text not null"},
	{Name: "team_id", Type: "uuid"},
	{Name: "created_at", Type: "timestamptz not null"},
	{Name: "updated_at", Type: "timestamptz not null"},
}}

// SavedReplies are the texts that workspaces keep for their replies.
var SavedReplies = &readmodel.Projection{
	ID: "saved_replies", Program: 1,
	Tables:  []*readmodel.Table{savedRepliesTable},
	Indexes: []string{`create index on @saved_replies (workspace_id, created_at desc, id desc)`},
	Handlers: feed.NewHandlers(
		feed.On(func(c *readmodel.Changes, e *events.SavedReplyCreated, r *eventstore.Recorded) {
			at := readmodel.Stamp(r.OccurredAt)
			c.Insert(savedRepliesTable, readmodel.Row{
				"id": e.SavedReplyID, "workspace_id": r.WorkspaceID, "title": e.Title, "body": e.Body, "team_id": e.TeamID, "created_at": at, "updated_at": at,
			})
		}),
		feed.On(func(c *readmodel.Changes, e *events.SavedReplyUpdated, r *eventstore.Recorded) {
			c.Update(savedRepliesTable, readmodel.Row{
				"id": e.SavedReplyID, "title": e.Title, "body": e.Body, "team_id": e.TeamID, "updated_at": readmodel.Stamp(r.OccurredAt),
			})
		}),
		feed.On(func(c *readmodel.Changes, e *events.SavedReplyDeleted, _ *eventstore.Recorded) {
			c.Delete(savedRepliesTable, readmodel.Row{"id": e.SavedReplyID})
		}),
	),
}

// SavedReply is a saved reply as the API shows it (interface 2.3).
type SavedReply struct {
	ID        string  `json:"id" format:"uuid"`
	Title     string  `json:"title"`
	Body      string  `json:"body"`
	TeamID    *string `json:"team_id" format:"uuid" doc:"null: for everyone"`
	CreatedAt string  `json:"created_at" format:"date-time"`
	UpdatedAt string  `json:"updated_at" format:"date-time"`
}

// savedReplies limits an agent to what is for everyone and for its own teams (interface 4.3 rule 1).
func (v Viewer) savedReplies() *readmodel.Filter {
	f := &readmodel.Filter{}
	f.Add("s.workspace_id = %s", v.Workspace)
	if v.Agent != uuid.Nil {
		f.Add(`(s.team_id is null or exists (select from read.team_members m where m.team_id = s.team_id and m.user_id = %s))`, v.Agent)
	}
	return f
}

const savedReplyColumns = `s.id::text, s.title, s.body, s.team_id::text, s.created_at, s.updated_at`

func scanSavedReply(row pgx.CollectableRow) (s SavedReply, err error) {
	var created, updated time.Time
	err = row.Scan(&s.ID, &s.Title, &s.Body, &s.TeamID, &created, &updated)
	s.CreatedAt, s.UpdatedAt = readmodel.Stamp(created), readmodel.Stamp(updated)
	return s, err
}

// SavedReplies lists what the viewer may use, newest first. It needs the directory for an agent's teams.
func (s *Store) SavedReplies(ctx context.Context, v Viewer) ([]SavedReply, error) {
	f := v.savedReplies()
	return readmodel.List(ctx, s.Reader, "saved replies", scanSavedReply,
		`select `+savedReplyColumns+` from read.saved_replies s`+f.Where()+` order by s.created_at desc, s.id desc`, f.Args...)
}

// SavedReply finds one; found is false when there is none.
func (s *Store) SavedReply(ctx context.Context, v Viewer, id uuid.UUID) (SavedReply, bool, error) {
	f := v.savedReplies()
	f.Add("s.id = %s", id)
	return readmodel.One(ctx, s.Reader, "saved reply", scanSavedReply, `select `+savedReplyColumns+` from read.saved_replies s`+f.Where(), f.Args...)
}
