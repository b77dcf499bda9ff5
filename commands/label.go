package commands

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/label"
	"ledgerline/events"
)

var labels = named[uuid.UUID, label.Label]{
	noun: "label", nameField: "name", most: maxLabels,
	kind:         func(e *engine.Engine) engine.Kind[label.Label] { return e.Labels },
	stream:       label.Stream,
	exists:       label.Label.Exists,
	workspace:    func(l label.Label) uuid.UUID { return l.Workspace },
	claim:        func(l label.Label) (scope, key string) { return label.Claim(l.Workspace, l.Name) },
	deleteEvents: label.Label.Delete,
}

// CreateLabel creates a label of the request's workspace; Ref is its id. A name that exists is refused with conflict.
func (a *App) CreateLabel(ctx context.Context, req Request, name string, color *string) (Result, error) {
	id := a.engine.IDs.UUID()
	return labels.create(ctx, a, req, id, func(context.Context, *unit) ([]events.Event, error) {
		return label.Create(id, name, color, "/name")
	})
}

// UpdateLabel has the changes of a label (rule CON-29). A nil Name leaves the name; with SetColor a nil Color
// removes the color.
type UpdateLabel struct {
	Name     *string
	SetColor bool
	Color    *string
}

// UpdateLabel renames a label of the request's workspace, which stays on its contacts, or changes its color. A name
// that another label has is refused with conflict.
func (a *App) UpdateLabel(ctx context.Context, req Request, id uuid.UUID, in UpdateLabel) (Result, error) {
	return labels.update(ctx, a, req, id, func(_ context.Context, _ *unit, l label.Label) ([]events.Event, error) {
		return l.Update(in.Name, in.SetColor, in.Color)
	})
}

// DeleteLabel takes a label of the request's workspace off every contact and releases its name.
func (a *App) DeleteLabel(ctx context.Context, req Request, id uuid.UUID) (Result, error) {
	return labels.remove(ctx, a, req, id)
}

// findLabel finds a label of the request's workspace by its name; nil when there is none. The label is guarded, since
// it may be renamed or deleted before the append.
func (u *unit) findLabel(ctx context.Context, name string) (*engine.Aggregate[label.Label], error) {
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
	if !l.State.HasClaim(key) {
		return nil, engine.ErrInconsistent // renamed or deleted after the claim's owner was read
	}
	return l, nil
}

// findOrCreateLabels returns the ids of the labels with these names. Labels that do not exist are created in the same
// append (rule CON-30). What is wrong with a name is reported at its index under pointer.
func (u *unit) findOrCreateLabels(ctx context.Context, names []string, pointer string) ([]uuid.UUID, issueList, error) {
	var ids []uuid.UUID
	var issues issueList
	seen := map[string]bool{}
	for i, name := range names {
		_, key := label.Claim(u.Request.Workspace, name)
		if seen[key] {
			continue
		}
		seen[key] = true
		if err := label.Check(name, fmt.Sprintf("%s/%d", pointer, i)); err != nil {
			if err := issues.collect(err); err != nil {
				return nil, nil, err
			}
			continue
		}
		found, err := u.findLabel(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		if found != nil {
			ids = append(ids, found.State.ID)
			continue
		}
		id := u.Engine.IDs.UUID()
		created, err := label.Create(id, name, nil, pointer)
		if err != nil {
			return nil, nil, err
		}
		labels.begin(u, id, created, decideAgain)
		ids = append(ids, id)
	}
	return ids, issues, nil
}

// findLabels returns the ids of the labels with these names. Names without a label are skipped.
func (u *unit) findLabels(ctx context.Context, names []string) ([]uuid.UUID, error) {
	var ids []uuid.UUID
	for _, name := range names {
		found, err := u.findLabel(ctx, name)
		if err != nil {
			return nil, err
		}
		if found != nil {
			ids = append(ids, found.State.ID)
		}
	}
	return ids, nil
}

// existingLabels returns those of the labels that have not been deleted.
func (u *unit) existingLabels(ctx context.Context, ids []uuid.UUID) ([]uuid.UUID, error) {
	var existing []uuid.UUID
	for _, id := range ids {
		l, err := engine.Load(ctx, u.Unit, u.Engine.Labels, label.Stream(id))
		if err != nil {
			return nil, err
		}
		if l.State.Exists() {
			existing = append(existing, id)
		}
	}
	return existing, nil
}
