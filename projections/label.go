package projections

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/domain/segment"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/projections/readmodel"
)

// Label is a label as the API shows it, and defines the columns of its table: see readmodel.TableOf. The table belongs
// to the projection Contacts.
type Label struct {
	ID           string  `json:"id" format:"uuid" sql:"uuid not null"`
	Name         string  `json:"name" sql:"text not null"`
	Color        *string `json:"color" sql:"text"`
	ContactCount int64   `json:"contact_count" minimum:"0" doc:"How many contacts of the workspace have it, also those that the caller cannot see"`
	CreatedAt    string  `json:"created_at" format:"date-time" sql:"timestamptz not null"`
}

var labelsTable = readmodel.TableOf[Label]("labels", []string{"id"},
	readmodel.Column{Name: "workspace_id", Type: "uuid not null"},
	readmodel.Column{Name: "folded_name", Type: `text collate "C" not null`},
)

func labelCreated(c *readmodel.Changes, e *events.LabelCreated, r *eventstore.Recorded) {
	c.Insert(labelsTable, readmodel.Row{
		"id": e.LabelID, "workspace_id": r.WorkspaceID, "name": e.Name, "folded_name": segment.Fold(e.Name), "color": e.Color,
		"created_at": readmodel.Stamp(r.OccurredAt),
	})
}

func labelUpdated(c *readmodel.Changes, e *events.LabelUpdated, _ *eventstore.Recorded) {
	row := labelsTable.ChangedValues(e, e.Changed)
	if _, renamed := row["name"]; renamed {
		row["folded_name"] = segment.Fold(e.Name)
	}
	row["id"] = e.LabelID
	c.Update(labelsTable, row)
}

// labelDeleted leaves the label's rows in contact_labels, which may be a million: every query joins labels.
func labelDeleted(c *readmodel.Changes, e *events.LabelDeleted, _ *eventstore.Recorded) {
	c.Delete(labelsTable, readmodel.Row{"id": e.LabelID})
}

var (
	labelFields = readmodel.Select[Label](labelsTable, "l", map[string]string{
		"contact_count": "coalesce((select n.contacts from read.label_counts n where n.label_id = l.id), 0)",
	})
	labelSQL = `select ` + labelFields.SQL + ` from read.labels l where l.workspace_id = $1`
)

// Labels lists the labels of the workspace by name.
func (s *Store) Labels(ctx context.Context, v Viewer) ([]Label, error) {
	return readmodel.List(ctx, s.Reader, "labels", labelFields.Scan, labelSQL+` order by l.folded_name`, v.Workspace)
}

// Label finds a label of the workspace; found is false when there is none.
func (s *Store) Label(ctx context.Context, v Viewer, id string) (l Label, found bool, err error) {
	return readmodel.One(ctx, s.Reader, "label", labelFields.Scan, labelSQL+` and l.id::text = $2`, v.Workspace, id)
}

const labelNamedSQL = `select id from read.labels where workspace_id = $1 and folded_name = $2`

// labelNamed finds a label of the workspace by its name, without regard to case.
func (s *Store) labelNamed(ctx context.Context, v Viewer, name string) (id uuid.UUID, found bool, err error) {
	return readmodel.One(ctx, s.Reader, "label", pgx.RowTo[uuid.UUID], labelNamedSQL, v.Workspace, segment.Fold(segment.Clean(name)))
}
