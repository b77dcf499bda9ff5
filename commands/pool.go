package commands

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/fault"
	"ledgerline/domain/line"
	"ledgerline/events"
)

// CreatePool is what a pool is made of (administration 4.4).
type CreatePool struct {
	Name     string
	Rotation line.Rotation
	Fallback line.FallbackMode // "" is off
}

// CreatePool makes a pool of the request's workspace; Ref is its id. Its name is unique there.
func (a *App) CreatePool(ctx context.Context, req Request, in CreatePool) (Result, error) {
	id := a.engine.IDs.TypeID("pool")
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		if _, err := u.Workspace(ctx, req.Workspace); err != nil {
			return err
		}
		u.Ref = id
		return u.newPool(id, in, false)
	})
}

func poolNames(workspace uuid.UUID) string { return "pool:" + workspace.String() }

func poolTaken(string) error { return fault.New(fault.Conflict, "A pool with this name exists.") }

func (u *unit) newPool(id string, in CreatePool, isDefault bool) error {
	made, err := line.CreatePool(events.PoolCreated{
		PoolID: id, Name: in.Name, Rotation: string(in.Rotation), Default: isDefault, FallbackSMSMode: string(in.Fallback),
	})
	if err != nil {
		return err
	}
	u.Claim(poolNames(u.Request.Workspace), nameKey(in.Name), id, poolTaken)
	engine.Begin(u.Unit, u.Engine.Pools, id).Record(made...)
	return nil
}

// UpdatePool changes a pool of the request's workspace. A name that another pool has is refused with conflict.
func (a *App) UpdatePool(ctx context.Context, req Request, poolID string, c line.PoolChange) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		pool, err := u.pool(ctx, poolID)
		if err != nil {
			return err
		}
		u.Ref = poolID
		before := nameKey(pool.State.Name)
		changed, err := pool.State.Update(c)
		if err != nil {
			return err
		}
		pool.Record(changed...)
		if after := nameKey(pool.State.Name); after != before {
			u.ReleaseClaim(poolNames(u.Request.Workspace), before, poolID)
			u.Claim(poolNames(u.Request.Workspace), after, poolID, poolTaken)
		}
		return nil
	})
}

// pool loads a pool of the request's workspace.
func (u *unit) pool(ctx context.Context, id string) (*engine.Aggregate[line.Pool], error) {
	pool, err := engine.Load(ctx, u.Unit, u.Engine.Pools, id)
	if err == nil && (pool.State.ID == "" || pool.State.Workspace != u.Request.Workspace) {
		err = engine.NotFound("pool")
	}
	return pool, err
}
