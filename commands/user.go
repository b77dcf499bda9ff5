package commands

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/organisation"
	"ledgerline/events"
)

// CreateUser has the properties of a user.
type CreateUser struct {
	FullName string
	Email    string
	Roles    map[uuid.UUID]organisation.Role // by workspace of the organisation
}

// CreateUser creates a user of the request's organisation; Ref is the user's id.
func (a *App) CreateUser(ctx context.Context, req Request, in CreateUser) (Result, error) {
	id := a.engine.IDs.UUID()
	req.Workspace = uuid.Nil
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		org, err := u.Organisation(ctx)
		if err != nil {
			return err
		}
		created, err := org.State.CreateUser(id, events.UserPersonal{FullName: in.FullName, Email: in.Email})
		if err != nil {
			return err
		}
		user := engine.Begin(u.Unit, a.engine.Users, organisation.UserStream(id))
		user.Record(created...)
		for workspace, role := range in.Roles {
			if _, err := u.Workspace(ctx, workspace); err != nil {
				return err
			}
			granted, err := user.State.GrantRole(workspace, role)
			if err != nil {
				return err
			}
			user.Record(granted...)
		}
		u.Ref = id.String()
		return nil
	})
}

// GrantRole gives a user a role in the request's workspace; it replaces an earlier one (rule ACC-17).
func (a *App) GrantRole(ctx context.Context, req Request, userID uuid.UUID, role organisation.Role) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		if _, err := u.Workspace(ctx, req.Workspace); err != nil {
			return err
		}
		user, err := u.loadUser(ctx, userID)
		if err != nil {
			return err
		}
		granted, err := user.State.GrantRole(req.Workspace, role)
		user.Record(granted...)
		u.Ref = userID.String()
		return err
	})
}

// RevokeRole ends a user's membership of the request's workspace.
func (a *App) RevokeRole(ctx context.Context, req Request, userID uuid.UUID) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		user, err := u.loadUser(ctx, userID)
		if err != nil {
			return err
		}
		user.Record(user.State.RevokeRole(req.Workspace)...)
		u.Ref = userID.String()
		return nil
	})
}

// RevokeSessions ends all sessions of a user that were issued until now, on every node (rule ACC-37).
func (a *App) RevokeSessions(ctx context.Context, req Request, userID uuid.UUID) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		user, err := u.loadUser(ctx, userID)
		if err != nil {
			return err
		}
		user.Record(user.State.RevokeSessions(u.Now)...)
		u.Ref = userID.String()
		return nil
	})
}

// loadUser loads a user of the request's organisation; not_found when there is none.
func (u *unit) loadUser(ctx context.Context, id uuid.UUID) (*engine.Aggregate[organisation.User], error) {
	user, err := engine.Load(ctx, u.Unit, u.Engine.Users, organisation.UserStream(id))
	if err == nil && (!user.State.Exists() || user.State.Organisation != u.Request.Organisation) {
		err = engine.NotFound("user")
	}
	return user, err
}
