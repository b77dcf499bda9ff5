package commands

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/domain/savedreply"
)

func titleTaken(string) error {
	return fault.New(fault.Conflict, "A saved reply with this title exists.")
}

// CreateSavedReply keeps a text in the request's workspace; Ref is its id. A title that exists is refused with conflict.
func (a *App) CreateSavedReply(ctx context.Context, req Request, in savedreply.Text) (Result, error) {
	id := a.ids.UUID()
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		made, err := savedreply.Create(id, in)
		if err := u.withTeam(ctx, err, in.TeamID); err != nil {
			return err
		}
		u.ref = id.String()
		scope, key := savedreply.Claim(u.req.Workspace, in.Title)
		u.claim(scope, key, u.ref, titleTaken)
		begin(u, a.savedReplies, savedreply.Stream(id)).record(made...)
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
		u.ref = id.String()
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
		scope, before := savedreply.Claim(u.req.Workspace, s.State.Title)
		if _, after := savedreply.Claim(u.req.Workspace, text.Title); after != before {
			u.release(scope, before, u.ref)
			u.claim(scope, after, u.ref, titleTaken)
		}
		s.record(changed...)
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
		u.ref = id.String()
		scope, key := savedreply.Claim(u.req.Workspace, s.State.Title)
		u.release(scope, key, u.ref)
		s.record(s.State.Delete()...)
		return nil
	})
}

// savedReply loads a saved reply of the request's workspace.
func (u *unit) savedReply(ctx context.Context, id uuid.UUID) (*aggregate[savedreply.SavedReply], error) {
	s, err := load(ctx, u, u.app.savedReplies, savedreply.Stream(id))
	if err == nil && (!s.State.Exists() || s.State.Workspace != u.req.Workspace) {
		err = notFound("saved reply")
	}
	return s, err
}
