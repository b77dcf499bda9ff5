package commands

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/agent"
	"ledgerline/domain/conversation"
	"ledgerline/domain/fault"
	"ledgerline/domain/line"
	"ledgerline/domain/organisation"
)

// The checks below refuse, with validation_failed at a JSON pointer, ids in a request that name nothing in the
// request's workspace. A nil id is accepted.

// checkMember refuses a user who is not a member of the request's workspace. The current user is accepted without a
// check: that user may have left the workspace, and a client may send back what it was shown (rule CON-4).
func (u *unit) checkMember(ctx context.Context, current, id *uuid.UUID, pointer string) error {
	if id == nil || current != nil && *current == *id {
		return nil
	}
	user, err := u.loadUser(ctx, *id)
	if err == nil && user.State.MemberOf(u.Request.Workspace) {
		return nil
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	return fault.Invalid(pointer, "not_a_member", "The user is not a member of this workspace.")
}

// checkTeam refuses, at /team_id, a team that the request's workspace does not have.
func (u *unit) checkTeam(ctx context.Context, id *uuid.UUID) error {
	if id == nil {
		return nil
	}
	team, err := engine.Load(ctx, u.Unit, u.Engine.Teams, organisation.TeamStream(*id))
	if err != nil {
		return err
	}
	if team.State.ID == uuid.Nil || team.State.Workspace != u.Request.Workspace {
		return fault.Invalid("/team_id", "not_found", "There is no such team in this workspace.")
	}
	return nil
}

// checkPool refuses, at /pool_id, a pool that the request's workspace does not have.
func (u *unit) checkPool(ctx context.Context, id *string) error {
	if id == nil {
		return nil
	}
	_, err := pools.load(ctx, u, *id)
	if fault.Is(err, fault.NotFound) {
		return fault.Invalid("/pool_id", "not_found", "There is no such pool.")
	}
	return err
}

// checkLines refuses allowed lines that the request's workspace does not have or that are retired, at their indexes.
func (u *unit) checkLines(ctx context.Context, ids []string) error {
	var issues issueList
	for i, id := range ids {
		l, err := engine.Load(ctx, u.Unit, u.Engine.Lines, id)
		if err != nil {
			return err
		}
		if l.State.ID == "" || l.State.Workspace != u.Request.Workspace || l.State.State == line.Retired {
			issues.add(fmt.Sprintf("/allowed_line_ids/%d", i), "not_found", "There is no such line.")
		}
	}
	return issues.fault()
}

// checkHandler refuses a handler that is neither the team nor a live agent of the request's workspace. The current
// handler is accepted without a check: a client may send back what it was shown.
func (u *unit) checkHandler(ctx context.Context, current string, handler *string) error {
	if handler == nil || *handler == current {
		return nil
	}
	id, err := conversation.ParseHandler(*handler)
	if err != nil || id == nil {
		return err
	}
	a, err := agents.load(ctx, u, *id)
	if found, err := foundUnless(err); err != nil || found && a.State.Status == agent.Live {
		return err
	}
	return fault.Invalid("/handled_by", "not_found", "There is no such live agent in this workspace.")
}
