package commands

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/fault"
	"ledgerline/domain/label"
)

// CreateLabel makes a label of the request's workspace; Ref is its id. A name that exists is refused with conflict.
func (a *App) CreateLabel(ctx context.Context, req Request, name string, color *string) (Result, error) {
	id := a.engine.IDs.UUID()
	return a.run(ctx, req, func(_ context.Context, u *unit) error {
		u.Ref = id.String()
		return u.newLabel(id, name, color, "/name", labelTaken)
	})
}

func labelTaken(string) error { return fault.New(fault.Conflict, "A label with this name exists.") }

func (u *unit) newLabel(id uuid.UUID, name string, color *string, pointer string, taken func(string) error) error {
	made, err := label.Create(id, name, color, pointer)
	if err != nil {
		return err
	}
	scope, key := label.Claim(u.Request.Workspace, name)
	u.Claim(scope, key, id.String(), taken)
	engine.Begin(u.Unit, u.Engine.Labels, label.Stream(id)).Record(made...)
	return nil
}

// UpdateLabel is what may be changed of a label (interface 4.2). A nil Name leaves the name; a nil Color takes the color
// away if SetColor says so.
type UpdateLabel struct {
	Name     *string
	SetColor bool
	Color    *string
}

// UpdateLabel renames a label of the request's workspace, which keeps its contacts, or changes its color. A name that
// another label has is refused with conflict.
func (a *App) UpdateLabel(ctx context.Context, req Request, id uuid.UUID, in UpdateLabel) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		l, err := u.label(ctx, id)
		if err != nil {
			return err
		}
		u.Ref = id.String()
		scope, before := label.Claim(u.Request.Workspace, l.State.Name)
		changed, err := l.State.Update(in.Name, in.SetColor, in.Color)
		if err != nil {
			return err
		}
		l.Record(changed...)
		if _, after := label.Claim(u.Request.Workspace, l.State.Name); after != before {
			u.ReleaseClaim(scope, before, id.String())
			u.Claim(scope, after, id.String(), labelTaken)
		}
		return nil
	})
}

// DeleteLabel takes a label of the request's workspace off every contact and frees its name.
func (a *App) DeleteLabel(ctx context.Context, req Request, id uuid.UUID) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		l, err := u.label(ctx, id)
		if err != nil {
			return err
		}
		u.Ref = id.String()
		scope, key := label.Claim(u.Request.Workspace, l.State.Name)
		u.ReleaseClaim(scope, key, id.String())
		l.Record(l.State.Delete()...)
		return nil
	})
}

// label loads a label of the request's workspace.
func (u *unit) label(ctx context.Context, id uuid.UUID) (*engine.Aggregate[label.Label], error) {
	l, err := engine.Load(ctx, u.Unit, u.Engine.Labels, label.Stream(id))
	if err == nil && (!l.State.Exists() || l.State.Workspace != u.Request.Workspace) {
		err = engine.NotFound("label")
	}
	return l, err
}

// labelNamed finds a label of the request's workspace by its name; nil when there is none. The append depends on the
// label being as it was found: names move, and labels go.
func (u *unit) labelNamed(ctx context.Context, name string) (*engine.Aggregate[label.Label], error) {
	scope, key := label.Claim(u.Request.Workspace, name)
	owner, found, err := u.Owner(ctx, scope, key)
	if err != nil || !found {
		return nil, err
	}
	id, err := uuid.Parse(owner)
	if err != nil {
		return nil, fmt.Errorf("commands: owner of a label's name: %w", err)
	}
	l, err := engine.Load(ctx, u.Unit, u.Engine.Labels, label.Stream(id))
	if err != nil {
		return nil, err
	}
	if !l.State.Holds(key) {
		return nil, engine.ErrInconsistent // renamed or deleted between the two looks
	}
	return l, nil
}

// labelsNamed gives the ids of labels by name and makes those that do not exist, in the same append. What is wrong
// with a name is told at its place under pointer.
func (u *unit) labelsNamed(ctx context.Context, names []string, pointer string) ([]uuid.UUID, []fault.Issue, error) {
	var ids []uuid.UUID
	var issues []fault.Issue
	seen := map[string]bool{}
	for i, name := range names {
		_, key := label.Claim(u.Request.Workspace, name)
		if seen[key] {
			continue
		}
		seen[key] = true
		if err := label.Check(name, fmt.Sprintf("%s/%d", pointer, i)); err != nil {
			if issues, err = collect(issues, err); err != nil {
				return nil, nil, err
			}
			continue
		}
		known, err := u.labelNamed(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		if known != nil {
			ids = append(ids, known.State.ID)
			continue
		}
		id := u.Engine.IDs.UUID()
		if err := u.newLabel(id, name, nil, pointer, decideAgain); err != nil {
			return nil, nil, err
		}
		ids = append(ids, id)
	}
	return ids, issues, nil
}

// labelsKnown gives the ids of those of the labels that exist; other names mean nothing.
func (u *unit) labelsKnown(ctx context.Context, names []string) ([]uuid.UUID, error) {
	var ids []uuid.UUID
	for _, name := range names {
		known, err := u.labelNamed(ctx, name)
		if err != nil {
			return nil, err
		}
		if known != nil {
			ids = append(ids, known.State.ID)
		}
	}
	return ids, nil
}

// decideAgain is for claims that somebody else taking them only means that there is something new to see.
func decideAgain(string) error { return nil }
