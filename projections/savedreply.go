package projections

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
)

var savedRepliesTable = &Table{Name: "saved_replies", Key: []string{"id"}, Columns: []Column{
	{Name: "id", Type: "uuid not null"},
	{Name: "workspace_id", Type: "uuid not null"},
	{Name: "title", Type: "text not null"},
	{Name: "body", Type: "text not null"},
	{Name: "team_id", Type: "uuid"},
	{Name: "created_at", Type: "timestamptz not null"},
	{Name: "updated_at", Type: "timestamptz not null"},
}}

// SavedReplies are the texts that workspaces keep for their replies.
var SavedReplies = &Projection{
	ID: "saved_replies", Program: 1,
	Tables:  []*Table{savedRepliesTable},
	Indexes: []string{`create index on @saved_replies (workspace_id, created_at desc, id desc)`},
	Handlers: feed.NewHandlers(
		feed.On(func(c *Changes, e *events.SavedReplyCreated, r *eventstore.Recorded) {
			at := stamp(r.OccurredAt)
			c.Insert(savedRepliesTable, Row{
				"id": e.SavedReplyID, "workspace_id": r.WorkspaceID, "title": e.Title, "body": e.Body, "team_id": e.TeamID, "created_at": at, "updated_at": at,
			})
		}),
		feed.On(func(c *Changes, e *events.SavedReplyUpdated, r *eventstore.Recorded) {
			c.Update(savedRepliesTable, Row{
				"id": e.SavedReplyID, "title": e.Title, "body": e.Body, "team_id": e.TeamID, "updated_at": stamp(r.OccurredAt),
			})
		}),
		feed.On(func(c *Changes, e *events.SavedReplyDeleted, _ *eventstore.Recorded) {
			c.Delete(savedRepliesTable, Row{"id": e.SavedReplyID})
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
func (v Viewer) savedReplies() *filter {
	f := &filter{}
	f.add("s.workspace_id = %s", v.Workspace)
	if v.Agent != uuid.Nil {
		f.add(`(s.team_id is null or exists (select from read.team_members m where m.team_id = s.team_id and m.user_id = %s))`, v.Agent)
	}
	return f
}

const savedReplyColumns = `s.id::text, s.title, s.body, s.team_id::text, s.created_at, s.updated_at`

func scanSavedReply(row pgx.CollectableRow) (s SavedReply, err error) {
	var created, updated time.Time
	err = row.Scan(&s.ID, &s.Title, &s.Body, &s.TeamID, &created, &updated)
	s.CreatedAt, s.UpdatedAt = stamp(created), stamp(updated)
	return s, err
}

// SavedReplies lists what the viewer may use, newest first. It needs the directory for an agent's teams.
func (s *Store) SavedReplies(ctx context.Context, v Viewer) ([]SavedReply, error) {
	f := v.savedReplies()
	return list(ctx, s, "saved replies", scanSavedReply,
		`select `+savedReplyColumns+` from read.saved_replies s`+f.where()+` order by s.created_at desc, s.id desc`, f.args...)
}

// SavedReply finds one; found is false when there is none.
func (s *Store) SavedReply(ctx context.Context, v Viewer, id uuid.UUID) (SavedReply, bool, error) {
	f := v.savedReplies()
	f.add("s.id = %s", id)
	return single(ctx, s, "saved reply", scanSavedReply, `select `+savedReplyColumns+` from read.saved_replies s`+f.where(), f.args...)
}
