package commands

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/fault"
	"ledgerline/domain/organisation"
)

// CreateTeam creates a team of the request's workspace; Ref is the team's id. Refusals are those of AddTeamMember.
func (a *App) CreateTeam(ctx context.Context, req Request, name string, members ...uuid.UUID) (Result, error) {
	id := a.engine.IDs.UUID()
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		if _, err := u.Workspace(ctx, req.Workspace); err != nil {
			return err
		}
		created, err := organisation.CreateTeam(id, name)
		if err != nil {
			return err
		}
		team := engine.Begin(u.Unit, a.engine.Teams, organisation.TeamStream(id))
		team.Record(created...)
		u.Ref = id.String()
		for _, member := range members {
			if err := u.addTeamMember(ctx, team, member); err != nil {
				return err
			}
		}
		return nil
	})
}

// AddTeamMember adds a member of the request's workspace to a team. Refusals: not_found for the team or the user,
// validation_failed for a user who is not a member of the workspace.
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
		return u.addTeamMember(ctx, team, userID)
	})
}

func (u *unit) addTeamMember(ctx context.Context, team *engine.Aggregate[organisation.Team], userID uuid.UUID) error {
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
