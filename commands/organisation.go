package commands

import (
	"context"
	"fmt"
	"io"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/fault"
	"ledgerline/domain/line"
	"ledgerline/domain/organisation"
	"ledgerline/events"
)

// loadUser loads a user of the request's organisation; not_found when there is none.
func (u *unit) loadUser(ctx context.Context, id uuid.UUID) (*engine.Aggregate[organisation.User], error) {
	user, err := engine.Load(ctx, u.Unit, u.Engine.Users, organisation.UserStream(id))
	if err == nil && (!user.State.Exists() || user.State.Organisation != u.Request.Organisation) {
		err = engine.NotFound("user")
	}
	return user, err
}

// CreateOrganisation opens an organisation; Ref is its id. Organisation and Workspace of the request are not used.
func (a *App) CreateOrganisation(ctx context.Context, req Request, name, timeZone string) (Result, error) {
	id := a.engine.IDs.UUID()
	req.Organisation, req.Workspace = id, uuid.Nil
	return a.run(ctx, req, func(_ context.Context, u *unit) error {
		made, err := organisation.Create(id, name, timeZone)
		if err != nil {
			return err
		}
		engine.Begin(u.Unit, a.engine.Organisations, organisation.Stream(id)).Record(made...)
		u.Ref = id.String()
		return nil
	})
}

// PauseOrganisation stops every write of an organisation, and every message but automatic texts; one that is paused stays so.
func (a *App) PauseOrganisation(ctx context.Context, req Request, reason string) (Result, error) {
	return a.changeOrganisation(ctx, req, func(o organisation.Organisation) ([]events.Event, error) { return o.Pause(reason) })
}

// ResumeOrganisation lifts the pause.
func (a *App) ResumeOrganisation(ctx context.Context, req Request) (Result, error) {
	return a.changeOrganisation(ctx, req, organisation.Organisation.Resume)
}

func (a *App) changeOrganisation(ctx context.Context, req Request, change func(organisation.Organisation) ([]events.Event, error)) (Result, error) {
	req.Workspace = uuid.Nil
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		org, err := u.Organisation(ctx)
		if err != nil {
			return err
		}
		changed, err := change(org.State)
		org.Record(changed...)
		u.Ref = req.Organisation.String()
		return err
	})
}

// CreatedWorkspace is what CreateWorkspace made.
type CreatedWorkspace struct {
	Result
	ID            uuid.UUID
	DefaultPoolID string
	SandboxLineID string
	SandboxPhone  string
}

// CreateWorkspace opens a workspace of the request's organisation, with a pool "Default" and a sandbox line.
func (a *App) CreateWorkspace(ctx context.Context, req Request, name string) (CreatedWorkspace, error) {
	w := CreatedWorkspace{ID: a.engine.IDs.UUID(), DefaultPoolID: a.engine.IDs.TypeID("pool"), SandboxLineID: a.engine.IDs.TypeID("ln")}
	req.Workspace = w.ID
	var err error
	w.Result, err = a.run(ctx, req, func(ctx context.Context, u *unit) error {
		org, err := u.Organisation(ctx)
		if err != nil {
			return err
		}
		made, err := org.State.CreateWorkspace(events.WorkspaceCreated{
			WorkspaceID: w.ID, Name: name, DefaultPoolID: w.DefaultPoolID, SandboxLineID: w.SandboxLineID,
		})
		if err != nil {
			return err
		}
		engine.Begin(u.Unit, a.engine.Workspaces, organisation.WorkspaceStream(w.ID)).Record(made...)
		if err := u.beginDefaultPool(w.DefaultPoolID); err != nil {
			return err
		}
		if w.SandboxPhone, err = a.sandboxPhone(); err != nil {
			return err
		}
		display := "Sandbox"
		u.Ref = w.ID.String()
		return u.newLine(events.LineProvisioned{
			LineID: w.SandboxLineID, Phone: w.SandboxPhone, DisplayName: &display, IsSandbox: true,
			Carrier: "simulator", State: string(line.Active),
		}, func(string) error { return nil }) // another number then
	})
	return w, err
}

// sandboxPhone makes up a number for a sandbox line: area code 555 is given to nobody, so that it can never be dialled
// by mistake. The exchange begins with 2 to 9, as in every number of that plan.
func (a *App) sandboxPhone() (string, error) {
	var random [4]byte
	if _, err := io.ReadFull(a.engine.Random, random[:]); err != nil {
		return "", fmt.Errorf("commands: randomness: %w", err)
	}
	n := uint32(random[0])<<24 | uint32(random[1])<<16 | uint32(random[2])<<8 | uint32(random[3])
	return fmt.Sprintf("+1555%07d", 2_000_000+n%8_000_000), nil
}

// CreateUser is what a user is made of. Roles are by workspace of the organisation.
type CreateUser struct {
	FullName string
	Email    string
	Roles    map[uuid.UUID]organisation.Role
}

// CreateUser makes a person known to the request's organisation; Ref is the user's id.
func (a *App) CreateUser(ctx context.Context, req Request, in CreateUser) (Result, error) {
	id := a.engine.IDs.UUID()
	req.Workspace = uuid.Nil
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		org, err := u.Organisation(ctx)
		if err != nil {
			return err
		}
		made, err := org.State.CreateUser(id, events.UserPersonal{FullName: in.FullName, Email: in.Email})
		if err != nil {
			return err
		}
		user := engine.Begin(u.Unit, a.engine.Users, organisation.UserStream(id))
		user.Record(made...)
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

// GrantRole gives a user a role in the request's workspace, in place of an earlier one.
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

// CreateTeam makes a team of the request's workspace with members of it; Ref is the team's id.
func (a *App) CreateTeam(ctx context.Context, req Request, name string, members ...uuid.UUID) (Result, error) {
	id := a.engine.IDs.UUID()
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		if _, err := u.Workspace(ctx, req.Workspace); err != nil {
			return err
		}
		made, err := organisation.CreateTeam(id, name)
		if err != nil {
			return err
		}
		team := engine.Begin(u.Unit, a.engine.Teams, organisation.TeamStream(id))
		team.Record(made...)
		u.Ref = id.String()
		for _, member := range members {
			if err := u.join(ctx, team, member); err != nil {
				return err
			}
		}
		return nil
	})
}

// AddTeamMember puts a member of the request's workspace into a team.
func (a *App) AddTeamMember(ctx context.Context, req Request, teamID, userID uuid.UUID) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		team, err := engine.Load(ctx, u.Unit, a.engine.Teams, organisation.TeamStream(teamID))
		if err != nil {
			return err
		}
		if team.State.ID == uuid.Nil || team.State.Workspace != req.Workspace {
			return engine.NotFound("team")
		}
		u.Ref = teamID.String()
		return u.join(ctx, team, userID)
	})
}

func (u *unit) join(ctx context.Context, team *engine.Aggregate[organisation.Team], userID uuid.UUID) error {
	user, err := u.loadUser(ctx, userID)
	if err != nil {
		return err
	}
	if !user.State.MemberOf(u.Request.Workspace) {
		return fault.Invalid("/user_id", "not_a_member", "The user is not a member of this workspace.")
	}
	team.Record(team.State.AddMember(userID)...)
	return nil
}
