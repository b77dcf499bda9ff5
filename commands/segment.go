package commands

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/label"
	"ledgerline/domain/segment"
	"ledgerline/events"
)

var segments = named[uuid.UUID, segment.Segment]{
	noun: "segment", nameField: "name", most: maxSegments,
	kind:         func(e *engine.Engine) engine.Kind[segment.Segment] { return e.Segments },
	stream:       segment.Stream,
	exists:       segment.Segment.Exists,
	workspace:    func(s segment.Segment) uuid.UUID { return s.Workspace },
	claim:        func(s segment.Segment) (scope, key string) { return segment.Claim(s.Workspace, s.Name) },
	deleteEvents: segment.Segment.Delete,
}

// CreateSegment creates a segment of the request's workspace; Ref is its id. definition is decoded JSON (rules CON-32
// to CON-38). Refusals: validation_failed with the pointer of each bad node, conflict for a name that exists.
func (a *App) CreateSegment(ctx context.Context, req Request, name string, definition any) (Result, error) {
	id := a.engine.IDs.UUID()
	return segments.create(ctx, a, req, id, func(ctx context.Context, u *unit) ([]events.Event, error) {
		var issues issueList
		if err := issues.collect(segment.CheckName(name)); err != nil {
			return nil, err
		}
		bound, err := u.bindDefinition(ctx, definition)
		if err := issues.collect(err); err != nil {
			return nil, err
		}
		return segment.Create(id, name, bound.definition, bound.labels), issues.fault()
	})
}

// UpdateSegment has the changes of a segment. A nil Name leaves the name; SetDefinition replaces the definition.
type UpdateSegment struct {
	Name          *string
	SetDefinition bool
	Definition    any // decoded JSON
}

// UpdateSegment changes a segment of the request's workspace. Refusals: not_found, and those of CreateSegment.
func (a *App) UpdateSegment(ctx context.Context, req Request, id uuid.UUID, in UpdateSegment) (Result, error) {
	return segments.update(ctx, a, req, id, func(ctx context.Context, u *unit, s segment.Segment) ([]events.Event, error) {
		var issues issueList
		if in.Name != nil {
			if err := issues.collect(segment.CheckName(*in.Name)); err != nil {
				return nil, err
			}
		}
		var bound boundDefinition
		if in.SetDefinition {
			var err error
			bound, err = u.bindDefinition(ctx, in.Definition)
			if err := issues.collect(err); err != nil {
				return nil, err
			}
		}
		return s.Update(in.Name, bound.definition, bound.labels), issues.fault()
	})
}

// DeleteSegment deletes a segment of the request's workspace and releases its name.
func (a *App) DeleteSegment(ctx context.Context, req Request, id uuid.UUID) (Result, error) {
	return segments.remove(ctx, a, req, id)
}

// boundDefinition is a segment's definition with the labels that it names, by id.
type boundDefinition struct {
	definition map[string]any
	labels     []events.SegmentLabel
}

// bindDefinition parses a definition and finds its labels. What is wrong with it is returned as validation_failed.
func (u *unit) bindDefinition(ctx context.Context, definition any) (boundDefinition, error) {
	var bound boundDefinition
	node, err := segment.Parse(definition, "/definition")
	if err != nil {
		return bound, err
	}
	ids := map[string]uuid.UUID{}
	for _, name := range node.LabelNames() {
		_, key := label.Claim(u.Request.Workspace, name)
		if _, seen := ids[key]; seen {
			continue
		}
		found, err := u.findLabel(ctx, name)
		if err != nil {
			return bound, err
		}
		if found != nil {
			ids[key] = found.State.ID
			bound.labels = append(bound.labels, events.SegmentLabel{Name: key, LabelID: found.State.ID})
		}
	}
	bound.definition, _ = definition.(map[string]any)
	return bound, node.BindLabels(func(name string) (uuid.UUID, bool) {
		_, key := label.Claim(u.Request.Workspace, name)
		id, found := ids[key]
		return id, found
	})
}
