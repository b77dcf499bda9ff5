package commands

import (
	"context"
	"strings"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/line"
	"ledgerline/events"
)

var pools = named[string, line.Pool]{
	noun: "pool", nameField: "name", most: maxPools,
	kind:      func(e *engine.Engine) engine.Kind[line.Pool] { return e.Pools },
	stream:    func(id string) string { return id },
	exists:    func(p line.Pool) bool { return p.ID != "" },
	workspace: func(p line.Pool) uuid.UUID { return p.Workspace },
	claim: func(p line.Pool) (scope, key string) {
		return "pool:" + p.Workspace.String(), strings.ToLower(strings.TrimSpace(p.Name))
	},
}

// CreatePool has the properties of a pool (rule LIN-30).
type CreatePool struct {
	Name     string
	Rotation line.Rotation
	Fallback line.FallbackMode // "" is off
}

// CreatePool creates a pool of the request's workspace; Ref is its id. A name that exists is refused with conflict.
func (a *App) CreatePool(ctx context.Context, req Request, in CreatePool) (Result, error) {
	id := a.engine.IDs.TypeID("pool")
	return pools.create(ctx, a, req, id, func(ctx context.Context, u *unit) ([]events.Event, error) {
		if _, err := u.Workspace(ctx, req.Workspace); err != nil {
			return nil, err
		}
		return line.CreatePool(events.PoolCreated{
			PoolID: id, Name: in.Name, Rotation: string(in.Rotation), FallbackSMSMode: string(in.Fallback),
		})
	})
}

// recordDefaultPool records the default pool of a new workspace.
func (u *unit) recordDefaultPool(id string) error {
	created, err := line.CreatePool(events.PoolCreated{PoolID: id, Name: "Default", Rotation: string(line.Sticky), Default: true})
	if err != nil {
		return err
	}
	pools.begin(u, id, created, pools.nameTaken)
	return nil
}

// UpdatePool changes a pool of the request's workspace. A name that another pool has is refused with conflict.
func (a *App) UpdatePool(ctx context.Context, req Request, poolID string, c line.PoolChange) (Result, error) {
	return pools.update(ctx, a, req, poolID, func(_ context.Context, _ *unit, p line.Pool) ([]events.Event, error) {
		return p.Update(c)
	})
}
