package projections

import (
	"context"
	"fmt"

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
	ContactCount int64   `json:"contact_count" minimum:"0" doc:"How many of the contacts that the caller may see have it"`
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

// countVisible replaces the counts of labels by those of the contacts that an agent may see. The stored counts are of
// all contacts of the workspace.
func (s *Store) countVisible(ctx context.Context, v Viewer, labels []Label) error {
	if v.Agent == uuid.Nil || len(labels) == 0 {
		return nil
	}
	f := v.contacts()
	rows, err := s.DB(ctx).Query(ctx, `select cl.label_id::text, count(*) from read.contact_labels cl join read.contacts c on c.id = cl.contact_id`+
		f.Where()+` group by cl.label_id`, f.Args...)
	if err != nil {
		return fmt.Errorf("projections: count labels: %w", err)
	}
	counts := map[string]int64{}
	var id string
	var count int64
	if _, err := pgx.ForEachRow(rows, []any{&id, &count}, func() error { counts[id] = count; return nil }); err != nil {
		return fmt.Errorf("projections: count labels: %w", err)
	}
	for i := range labels {
		labels[i].ContactCount = counts[labels[i].ID]
	}
	return nil
}

// Labels lists the labels of the workspace by name, with counts of the contacts that the viewer may see.
func (s *Store) Labels(ctx context.Context, v Viewer) ([]Label, error) {
	found, err := readmodel.List(ctx, s.Reader, "labels", labelFields.Scan, labelSQL+` order by l.folded_name`, v.Workspace)
	if err != nil {
		return nil, err
	}
	return found, s.countVisible(ctx, v, found)
}

// Label finds a label of the workspace; found is false when there is none.
func (s *Store) Label(ctx context.Context, v Viewer, id string) (l Label, found bool, err error) {
	l, found, err = readmodel.One(ctx, s.Reader, "label", labelFields.Scan, labelSQL+` and l.id::text = $2`, v.Workspace, id)
	if err != nil || !found {
		return l, found, err
	}
	one := []Label{l}
	err = s.countVisible(ctx, v, one)
	return one[0], true, err
}

const labelNamedSQL = `select id from read.labels where workspace_id = $1 and folded_name = $2`

// labelNamed finds a label of the workspace by its name, without regard to case.
func (s *Store) labelNamed(ctx context.Context, v Viewer, name string) (id uuid.UUID, found bool, err error) {
	return readmodel.One(ctx, s.Reader, "label", pgx.RowTo[uuid.UUID], labelNamedSQL, v.Workspace, segment.Fold(segment.Clean(name)))
}
