package commands

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/domain/label"
)

// CreateLabel makes a label of the request's workspace; Ref is its id. A name that exists is refused with conflict.
func (a *App) CreateLabel(ctx context.Context, req Request, name string, color *string) (Result, error) {
	id := a.ids.UUID()
	return a.run(ctx, req, func(_ context.Context, u *unit) error {
		u.ref = id.String()
		return u.newLabel(id, name, color, "/name", func(string) error {
			return fault.New(fault.Conflict, "A label with this name exists.")
		})
	})
}

func (u *unit) newLabel(id uuid.UUID, name string, color *string, pointer string, taken func(string) error) error {
	made, err := label.Create(id, name, color, pointer)
	if err != nil {
		return err
	}
	scope, key := label.Claim(u.req.Workspace, name)
	u.claim(scope, key, id.String(), taken)
	begin(u, u.app.labels, label.Stream(id)).record(made...)
	return nil
}

// labelsNamed gives the ids of labels by name and makes those that do not exist, in the same append. What is wrong
// with a name is told at its place under pointer.
func (u *unit) labelsNamed(ctx context.Context, names []string, pointer string) ([]uuid.UUID, []fault.Issue, error) {
	var ids []uuid.UUID
	var issues []fault.Issue
	seen := map[string]bool{}
	for i, name := range names {
		scope, key := label.Claim(u.req.Workspace, name)
		if seen[key] {
			continue
		}
		seen[key] = true
		if _, err := label.Create(uuid.Nil, name, nil, fmt.Sprintf("%s/%d", pointer, i)); err != nil {
			if issues, err = collect(issues, err); err != nil {
				return nil, nil, err
			}
			continue
		}
		owner, found, err := u.owner(ctx, scope, key)
		if err != nil {
			return nil, nil, err
		}
		id := u.app.ids.UUID()
		if found {
			if id, err = uuid.Parse(owner); err != nil {
				return nil, nil, fmt.Errorf("commands: owner of a label's name: %w", err)
			}
		} else if err := u.newLabel(id, name, nil, pointer, decideAgain); err != nil {
			return nil, nil, err
		}
		ids = append(ids, id)
	}
	return ids, issues, nil
}

// decideAgain is for claims that somebody else taking them only means that there is something new to see.
func decideAgain(string) error { return nil }
