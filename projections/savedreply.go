package projections

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/projections/readmodel"
)

// SavedReply is a saved reply as the API shows it, and defines the columns of its table: see readmodel.TableOf.
type SavedReply struct {
	ID        string  `json:"id" format:"uuid" sql:"uuid not null"`
	Title     string  `json:"title" sql:"text not null"`
	Body      string  `json:"body" sql:"text not null"`
	TeamID    *string `json:"team_id" format:"uuid" doc:"null: for everyone" sql:"uuid"`
	CreatedAt string  `json:"created_at" format:"date-time" sql:"timestamptz not null"`
	UpdatedAt string  `json:"updated_at" format:"date-time" sql:"timestamptz not null"`
}

var savedRepliesTable = readmodel.TableOf[SavedReply]("saved_replies", []string{"id"}, readmodel.Column{Name: "workspace_id", Type: "uuid not null"})

// SavedReplies are the saved replies of all workspaces as they are now.
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

// savedReplies filters saved reply s by what the viewer may see: an agent sees those for everyone and those of its own
// teams (rule ACC-20).
func (v Viewer) savedReplies() *readmodel.Filter {
	f := &readmodel.Filter{}
	f.Add("s.workspace_id = %s", v.Workspace)
	if v.Agent != uuid.Nil {
		f.Add(`(s.team_id is null or exists (select from read.team_members m where m.team_id = s.team_id and m.user_id = %s))`, v.Agent)
	}
	return f
}

var (
	savedReplyFields = readmodel.Select[SavedReply](savedRepliesTable, "s", nil)
	savedReplySQL    = `select ` + savedReplyFields.SQL + ` from read.saved_replies s`
)

// SavedReplies lists the saved replies that the viewer may see, newest first. The caller waits for SavedReplies and
// Directory.
func (s *Store) SavedReplies(ctx context.Context, v Viewer) ([]SavedReply, error) {
	f := v.savedReplies()
	return readmodel.List(ctx, s.Reader, "saved replies", savedReplyFields.Scan,
		savedReplySQL+f.Where()+` order by s.created_at desc, s.id desc`, f.Args...)
}

// SavedReply finds a saved reply that the viewer may see; found is false when there is none.
func (s *Store) SavedReply(ctx context.Context, v Viewer, id uuid.UUID) (r SavedReply, found bool, err error) {
	f := v.savedReplies()
	f.Add("s.id = %s", id)
	return readmodel.One(ctx, s.Reader, "saved reply", savedReplyFields.Scan, savedReplySQL+f.Where(), f.Args...)
}
