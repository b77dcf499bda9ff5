package writeapi

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/commands"
	"ledgerline/domain/savedreply"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// CreateSavedReply is the request of POST /v1/saved-replies.
type CreateSavedReply struct {
	Body struct {
		Title  string                      `json:"title" maxLength:"120"`
		Body   string                      `json:"body" maxLength:"2000"`
		TeamID httpapi.Nullable[uuid.UUID] `json:"team_id,omitzero" doc:"null: for everyone"`
	}
}

func (a *API) createSavedReply(ctx context.Context, c *httpapi.Call, in *CreateSavedReply) (httpapi.WriteResult, error) {
	b := &in.Body
	return result(a.app.CreateSavedReply(ctx, request(c), savedreply.Text{Title: b.Title, Body: b.Body, TeamID: b.TeamID.Ptr()}))
}

// UpdateSavedReply is the request of PATCH /v1/saved-replies/{id}.
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
	return result(a.app.UpdateSavedReply(ctx, request(c), in.ID, commands.UpdateSavedReply{
		Title: b.Title.Ptr(), Body: b.Body.Ptr(), SetTeam: b.TeamID.Set, TeamID: b.TeamID.Ptr(),
	}))
}

func (a *API) deleteSavedReply(ctx context.Context, c *httpapi.Call, in *httpapi.UUIDParam) (httpapi.WriteResult, error) {
	return result(a.app.DeleteSavedReply(ctx, request(c), in.ID))
}

func (a *API) savedReplies() resource[projections.SavedReply] {
	return resource[projections.SavedReply]{
		a.store, "saved reply", byUUID(a.store.SavedReply), consumers(projections.SavedReplies),
	}
}
