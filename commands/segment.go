package commands

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/fault"
	"ledgerline/domain/label"
	"ledgerline/domain/segment"
	"ledgerline/events"
)

// CreateSegment makes a segment of the request's workspace; Ref is its id. The definition is JSON as it decodes; what is
// wrong with it is told at its nodes, and labels that do not exist are refused there. A name that exists is a conflict.
func (a *App) CreateSegment(ctx context.Context, req Request, name string, definition any) (Result, error) {
	id := a.engine.IDs.UUID()
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		issues, err := collect(nil, segment.CheckName(name))
		if err != nil {
			return err
		}
		defined, issues, err := u.define(ctx, definition, issues)
		if err != nil {
			return err
		}
		if len(issues) > 0 {
			return fault.Invalids(issues...)
		}
		u.Ref = id.String()
		scope, key := segment.Claim(u.Request.Workspace, name)
		u.Claim(scope, key, u.Ref, segmentTaken)
		engine.Begin(u.Unit, u.Engine.Segments, segment.Stream(id)).Record(segment.Create(id, name, defined.definition, defined.labels)...)
		return nil
	})
}

func segmentTaken(string) error { return fault.New(fault.Conflict, "A segment with this name exists.") }

// UpdateSegment renames a segment of the request's workspace, unless name is nil, and defines it anew, unless define is
// false. The refusals are those of CreateSegment.
func (a *App) UpdateSegment(ctx context.Context, req Request, id uuid.UUID, name *string, define bool, definition any) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		s, err := u.segment(ctx, id)
		if err != nil {
			return err
		}
		u.Ref = id.String()
		var issues []fault.Issue
		var defined defined
		if name != nil {
			if issues, err = collect(issues, segment.CheckName(*name)); err != nil {
				return err
			}
		}
		if define {
			if defined, issues, err = u.define(ctx, definition, issues); err != nil {
				return err
			}
		}
		if len(issues) > 0 {
			return fault.Invalids(issues...)
		}
		scope, before := segment.Claim(u.Request.Workspace, s.State.Name)
		s.Record(s.State.Update(name, defined.definition, defined.labels)...)
		if _, after := segment.Claim(u.Request.Workspace, s.State.Name); after != before {
			u.ReleaseClaim(scope, before, u.Ref)
			u.Claim(scope, after, u.Ref, segmentTaken)
		}
		return nil
	})
}

// DeleteSegment ends a segment of the request's workspace and frees its name.
func (a *App) DeleteSegment(ctx context.Context, req Request, id uuid.UUID) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		s, err := u.segment(ctx, id)
		if err != nil {
			return err
		}
		u.Ref = id.String()
		scope, key := segment.Claim(u.Request.Workspace, s.State.Name)
		u.ReleaseClaim(scope, key, u.Ref)
		s.Record(s.State.Delete()...)
		return nil
	})
}

// segment loads a segment of the request's workspace.
func (u *unit) segment(ctx context.Context, id uuid.UUID) (*engine.Aggregate[segment.Segment], error) {
	s, err := engine.Load(ctx, u.Unit, u.Engine.Segments, segment.Stream(id))
	if err == nil && (!s.State.Exists() || s.State.Workspace != u.Request.Workspace) {
		err = engine.NotFound("segment")
	}
	return s, err
}

// defined is a definition with the labels that it names.
type defined struct {
	definition map[string]any
	labels     []events.SegmentLabel
}

// define reads a definition and adds what is wrong with it to the issues.
func (u *unit) define(ctx context.Context, definition any, issues []fault.Issue) (d defined, _ []fault.Issue, err error) {
	node, err := segment.Parse(definition, "/definition")
	if err != nil {
		issues, err = collect(issues, err)
		return d, issues, err
	}
	ids := map[string]uuid.UUID{}
	for _, name := range node.LabelNames() {
		_, key := label.Claim(u.Request.Workspace, name)
		if _, seen := ids[key]; seen {
			continue
		}
		known, err := u.labelNamed(ctx, name)
		if err != nil {
			return d, nil, err
		}
		if known != nil {
			ids[key] = known.State.ID
			d.labels = append(d.labels, events.SegmentLabel{Name: key, LabelID: known.State.ID})
		}
	}
	issues, err = collect(issues, node.BindLabels(func(name string) (uuid.UUID, bool) {
		_, key := label.Claim(u.Request.Workspace, name)
		id, found := ids[key]
		return id, found
	}))
	d.definition, _ = definition.(map[string]any)
	return d, issues, err
}
