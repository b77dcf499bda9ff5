package projections

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/domain/segment"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/projections/readmodel"
)

// Segment is a segment as the API shows it, and defines the columns of its table: see readmodel.TableOf. Its definition
// shows a label that was renamed since by its new name (rule CON-38).
type Segment struct {
	ID           string `json:"id" format:"uuid" sql:"uuid not null"`
	Name         string `json:"name" sql:"text not null"`
	Definition   any    `json:"definition" doc:"The condition on contacts; labels have their present names" sql:"jsonb not null"`
	ContactCount *int64 `json:"contact_count" minimum:"0" doc:"How many of the contacts that the caller may see match; null when they were not counted in time"`
	CreatedAt    string `json:"created_at" format:"date-time" sql:"timestamptz not null"`
}

var segmentsTable = readmodel.TableOf[Segment]("segments", []string{"id"},
	readmodel.Column{Name: "workspace_id", Type: "uuid not null"},
	readmodel.Column{Name: "folded_name", Type: `text collate "C" not null`},
	readmodel.Column{Name: "labels", Type: "jsonb not null"}, // ids of the labels by the names in the definition
)

// Segments are the segments of all workspaces as they are now. Their contacts are found in the tables of Contacts.
var Segments = &readmodel.Projection{
	ID: "segments", Program: 1,
	Tables:  []*readmodel.Table{segmentsTable},
	Indexes: []string{`create index on @segments (workspace_id, folded_name)`},
	Handlers: feed.NewHandlers(
		feed.On(func(c *readmodel.Changes, e *events.SegmentCreated, r *eventstore.Recorded) {
			c.Insert(segmentsTable, readmodel.Row{
				"id": e.SegmentID, "workspace_id": r.WorkspaceID, "name": e.Name, "folded_name": segment.Fold(e.Name), "definition": e.Definition,
				"labels": segmentLabels(e.Labels), "created_at": readmodel.Stamp(r.OccurredAt),
			})
		}),
		feed.On(func(c *readmodel.Changes, e *events.SegmentUpdated, _ *eventstore.Recorded) {
			row := segmentsTable.ChangedValues(e, e.Changed)
			if _, renamed := row["name"]; renamed {
				row["folded_name"] = segment.Fold(e.Name)
			}
			if _, redefined := row["definition"]; redefined {
				row["labels"] = segmentLabels(e.Labels)
			}
			row["id"] = e.SegmentID
			c.Update(segmentsTable, row)
		}),
		feed.On(func(c *readmodel.Changes, e *events.SegmentDeleted, _ *eventstore.Recorded) {
			c.Delete(segmentsTable, readmodel.Row{"id": e.SegmentID})
		}),
	),
}

func segmentLabels(labels []events.SegmentLabel) map[string]uuid.UUID {
	ids := make(map[string]uuid.UUID, len(labels))
	for _, l := range labels {
		ids[l.Name] = l.LabelID
	}
	return ids
}

// segmentRow is a segment with what its query and its count need.
type segmentRow struct {
	Segment
	Labels map[string]uuid.UUID `json:"-" column:"labels"`
	Stored string               `json:"-" column:"stored"` // definition and labels as stored, which identify a stored count
	node   *segment.Node
}

var (
	segmentFields = readmodel.Select[segmentRow](segmentsTable, "g", map[string]string{
		"contact_count": readmodel.SetAfterScan, "stored": "g.definition::text || g.labels::text",
	})
	segmentsSQL = `select ` + segmentFields.SQL + ` from read.segments g where g.workspace_id = $1`
)

func scanSegment(row pgx.CollectableRow) (segmentRow, error) {
	s, err := segmentFields.Scan(row)
	if err != nil {
		return s, err
	}
	if s.node, err = segment.Parse(s.Definition, ""); err != nil {
		return s, fmt.Errorf("a segment's definition: %w", err)
	}
	return s, s.node.BindLabels(func(name string) (uuid.UUID, bool) { return s.Labels[labelKey(name)], true })
}

// labelKey normalises a label name. Segments store the ids of labels by this form of the names.
func labelKey(name string) string { return segment.Fold(segment.Clean(name)) }

// Segments lists the segments of the workspace by name, with their counts.
func (s *Store) Segments(ctx context.Context, v Viewer) ([]Segment, error) {
	rows, err := readmodel.List(ctx, s.Reader, "segments", scanSegment, segmentsSQL+` order by g.folded_name`, v.Workspace)
	if err != nil {
		return nil, err
	}
	return s.withCounts(ctx, v, rows)
}

// Segment finds a segment of the workspace; found is false when there is none.
func (s *Store) Segment(ctx context.Context, v Viewer, id string) (found Segment, ok bool, err error) {
	row, ok, err := readmodel.One(ctx, s.Reader, "segment", scanSegment, segmentsSQL+` and g.id::text = $2`, v.Workspace, id)
	if err != nil || !ok {
		return Segment{}, false, err
	}
	shown, err := s.withCounts(ctx, v, []segmentRow{row})
	if err != nil {
		return Segment{}, false, err
	}
	return shown[0], true, nil
}

// SegmentDefinition finds the parsed definition of a segment of the workspace; found is false when there is no such
// segment.
func (s *Store) SegmentDefinition(ctx context.Context, v Viewer, id string) (node *segment.Node, found bool, err error) {
	row, found, err := readmodel.One(ctx, s.Reader, "segment", scanSegment, segmentsSQL+` and g.id::text = $2`, v.Workspace, id)
	return row.node, found, err
}

const labelNamesSQL = `select l.id, l.name from read.labels l where l.workspace_id = $1 and l.id = any($2)`

// withCounts converts rows to segments as the API shows them: with counts and the present names of labels.
func (s *Store) withCounts(ctx context.Context, v Viewer, rows []segmentRow) ([]Segment, error) {
	var ids []uuid.UUID
	for i := range rows {
		for _, id := range rows[i].Labels {
			ids = append(ids, id)
		}
	}
	names := map[uuid.UUID]string{}
	if len(ids) > 0 {
		found, err := s.DB(ctx).Query(ctx, labelNamesSQL, v.Workspace, ids)
		if err != nil {
			return nil, fmt.Errorf("projections: labels of segments: %w", err)
		}
		var id uuid.UUID
		var name string
		if _, err := pgx.ForEachRow(found, []any{&id, &name}, func() error { names[id] = name; return nil }); err != nil {
			return nil, fmt.Errorf("projections: labels of segments: %w", err)
		}
	}
	if err := s.counts.fill(ctx, s, v, rows); err != nil {
		return nil, err
	}
	segments := make([]Segment, len(rows))
	for i := range rows {
		row := &rows[i]
		segments[i] = row.Segment
		segments[i].Definition = segment.RenameLabels(row.Definition, func(name string) string {
			if now, ok := names[row.Labels[labelKey(name)]]; ok {
				return now
			}
			return name
		})
	}
	return segments, nil
}
