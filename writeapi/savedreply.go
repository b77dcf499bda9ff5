package writeapi

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/commands"
	"ledgerline/domain/savedreply"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// CreateSavedReply is the request of POST /v1/saved-replies (interface 4.3).
type CreateSavedReply struct {
	Body struct {
		Title  string                      `json:"title" maxLength:"120"`
		Body   string                      `json:"body" maxLength:"2000"`
		TeamID httpapi.Nullable[uuid.UUID] `json:"team_id,omitzero" doc:"null: for everyone"`
	}
}

func (a *API) createSavedReply(ctx context.Context, c *httpapi.Call, in *CreateSavedReply) (httpapi.WriteResult, error) {
	b := &in.Body
	return done(a.app.CreateSavedReply(ctx, request(c), savedreply.Text{Title: b.Title, Body: b.Body, TeamID: b.TeamID.Ptr()}))
}

// UpdateSavedReply is the request of PATCH /v1/saved-replies/{id} (interface 4.3).
type UpdateSavedReply struct {
	httpapi.UUIDParam
	Body struct {
		Title  httpapi.Optional[string]    `json:"title,omitzero" maxLength:"120"`
		Body   httpapi.Optional[string]    `json:"body,omitzero" maxLength:"2000"`
		TeamID httpapi.Nullable[uuid.UUID] `json:"team_id,omitzero" doc:"null: for everyone"`
	}
}

func (a *API) updateSavedReply(ctx context.Context, c *httpapi.Call, in *UpdateSavedReply) (httpapi.WriteResult, error) {
	b := &in.Body
	return done(a.app.UpdateSavedReply(ctx, request(c), in.ID, commands.UpdateSavedReply{
		Title: b.Title.Ptr(), Body: b.Body.Ptr(), SetTeam: b.TeamID.Set, TeamID: b.TeamID.Ptr(),
	}))
}

// savedReply is the view that answers writes on a saved reply.
func (a *API) savedReply(ctx context.Context, c *httpapi.Call, d httpapi.WriteResult) (projections.SavedReply, error) {
	if err := a.reach(ctx, d, projections.SavedReplies); err != nil {
		return projections.SavedReply{}, err
	}
	id, err := uuid.Parse(d.Ref)
	if err != nil {
		return projections.SavedReply{}, err
	}
	found, ok, err := a.store.SavedReply(ctx, viewer(c, d.Shard), id)
	if err == nil && !ok {
		err = gone("saved reply")
	}
	return found, err
}

func (a *API) deleteSavedReply(ctx context.Context, c *httpapi.Call, in *httpapi.UUIDParam) (httpapi.WriteResult, error) {
	return done(a.app.DeleteSavedReply(ctx, request(c), in.ID))
}

// deletedSavedReply answers a deletion when nothing shows the saved reply any more.
func (a *API) deletedSavedReply(ctx context.Context, _ *httpapi.Call, d httpapi.WriteResult) (httpapi.Deleted, error) {
	return httpapi.Deleted{Deleted: true, ID: d.Ref}, a.reach(ctx, d, projections.SavedReplies)
}
