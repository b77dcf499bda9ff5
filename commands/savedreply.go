package commands

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/savedreply"
	"ledgerline/events"
)

var savedReplies = named[uuid.UUID, savedreply.SavedReply]{
	noun: "saved reply", nameField: "title", most: maxSavedReplies,
	kind:         func(e *engine.Engine) engine.Kind[savedreply.SavedReply] { return e.SavedReplies },
	stream:       savedreply.Stream,
	exists:       savedreply.SavedReply.Exists,
	workspace:    func(s savedreply.SavedReply) uuid.UUID { return s.Workspace },
	claim:        func(s savedreply.SavedReply) (scope, key string) { return savedreply.Claim(s.Workspace, s.Title) },
	deleteEvents: savedreply.SavedReply.Delete,
}

// CreateSavedReply creates a saved reply of the request's workspace; Ref is its id. Refusals: validation_failed,
// conflict for a title that exists.
func (a *App) CreateSavedReply(ctx context.Context, req Request, in savedreply.Text) (Result, error) {
	id := a.engine.IDs.UUID()
	return savedReplies.create(ctx, a, req, id, func(ctx context.Context, u *unit) ([]events.Event, error) {
		created, err := savedreply.Create(id, in)
		var issues issueList
		if err := issues.collect(err, u.checkTeam(ctx, in.TeamID)); err != nil {
			return nil, err
		}
		return created, issues.fault()
	})
}

// UpdateSavedReply has the changes of a saved reply; nil leaves a field as it is.
type UpdateSavedReply struct {
	Title   *string
	Body    *string
	SetTeam bool
	TeamID  *uuid.UUID // nil: for everyone
}

// UpdateSavedReply changes a saved reply of the request's workspace. Refusals: not_found, validation_failed, conflict
// for a title that another saved reply has.
func (a *App) UpdateSavedReply(ctx context.Context, req Request, id uuid.UUID, in UpdateSavedReply) (Result, error) {
	return savedReplies.update(ctx, a, req, id, func(ctx context.Context, u *unit, s savedreply.SavedReply) ([]events.Event, error) {
		text := s.Text
		if in.Title != nil {
			text.Title = *in.Title
		}
		if in.Body != nil {
			text.Body = *in.Body
		}
		if in.SetTeam {
			text.TeamID = in.TeamID
		}
		changed, err := s.Update(text)
		var issues issueList
		if err := issues.collect(err, u.checkTeam(ctx, text.TeamID)); err != nil {
			return nil, err
		}
		return changed, issues.fault()
	})
}

// DeleteSavedReply deletes a saved reply of the request's workspace and releases its title.
func (a *App) DeleteSavedReply(ctx context.Context, req Request, id uuid.UUID) (Result, error) {
	return savedReplies.remove(ctx, a, req, id)
}
