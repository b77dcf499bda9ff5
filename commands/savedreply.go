package commands

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/fault"
	"ledgerline/domain/savedreply"
)

func titleTaken(string) error {
	return fault.New(fault.Conflict, "A saved reply with this title exists.")
}

// CreateSavedReply keeps a text in the request's workspace; Ref is its id. A title that exists is refused with conflict.
func (a *App) CreateSavedReply(ctx context.Context, req Request, in savedreply.Text) (Result, error) {
	id := a.engine.IDs.UUID()
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		made, err := savedreply.Create(id, in)
		if err := u.withTeam(ctx, err, in.TeamID); err != nil {
			return err
		}
		u.Ref = id.String()
		scope, key := savedreply.Claim(u.Request.Workspace, in.Title)
		u.Claim(scope, key, u.Ref, titleTaken)
		engine.Begin(u.Unit, a.engine.SavedReplies, savedreply.Stream(id)).Record(made...)
		return nil
	})
}

// withTeam tells what is wrong with a text together with what is wrong with its team.
func (u *unit) withTeam(ctx context.Context, err error, team *uuid.UUID) error {
	issues, err := collect(nil, err)
	if err == nil {
		issues, err = collect(issues, u.teamAt(ctx, team, "/team_id"))
	}
	if err == nil && len(issues) > 0 {
		err = fault.Invalids(issues...)
	}
	return err
}

// UpdateSavedReply is what may be changed of a saved reply; nil leaves what is there.
type UpdateSavedReply struct {
	Title   *string
	Body    *string
	SetTeam bool
	TeamID  *uuid.UUID // nil: for everyone
}

// UpdateSavedReply changes a saved reply of the request's workspace. A title that another one has is refused with
// conflict.
func (a *App) UpdateSavedReply(ctx context.Context, req Request, id uuid.UUID, in UpdateSavedReply) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		s, err := u.savedReply(ctx, id)
		if err != nil {
			return err
		}
		u.Ref = id.String()
		text := s.State.Text
		if in.Title != nil {
			text.Title = *in.Title
		}
		if in.Body != nil {
			text.Body = *in.Body
		}
		if in.SetTeam {
			text.TeamID = in.TeamID
		}
		changed, err := s.State.Update(text)
		if err := u.withTeam(ctx, err, text.TeamID); err != nil {
			return err
		}
		scope, before := savedreply.Claim(u.Request.Workspace, s.State.Title)
		if _, after := savedreply.Claim(u.Request.Workspace, text.Title); after != before {
			u.ReleaseClaim(scope, before, u.Ref)
			u.Claim(scope, after, u.Ref, titleTaken)
		}
		s.Record(changed...)
		return nil
	})
}

// DeleteSavedReply ends a saved reply of the request's workspace and frees its title.
func (a *App) DeleteSavedReply(ctx context.Context, req Request, id uuid.UUID) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		s, err := u.savedReply(ctx, id)
		if err != nil {
			return err
		}
		u.Ref = id.String()
		scope, key := savedreply.Claim(u.Request.Workspace, s.State.Title)
		u.ReleaseClaim(scope, key, u.Ref)
		s.Record(s.State.Delete()...)
		return nil
	})
}

// savedReply loads a saved reply of the request's workspace.
func (u *unit) savedReply(ctx context.Context, id uuid.UUID) (*engine.Aggregate[savedreply.SavedReply], error) {
	s, err := engine.Load(ctx, u.Unit, u.Engine.SavedReplies, savedreply.Stream(id))
	if err == nil && (!s.State.Exists() || s.State.Workspace != u.Request.Workspace) {
		err = engine.NotFound("saved reply")
	}
	return s, err
}
