package writeapi

import (
	"context"

	"ledgerline/commands"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// CreateLabel is the request of POST /v1/labels.
type CreateLabel struct {
	Body struct {
		Name  string  `json:"name" maxLength:"64"`
		Color *string `json:"color,omitempty"`
	}
}

func (a *API) createLabel(ctx context.Context, c *httpapi.Call, in *CreateLabel) (httpapi.WriteResult, error) {
	return result(a.app.CreateLabel(ctx, request(c), in.Body.Name, in.Body.Color))
}

// UpdateLabel is the request of PATCH /v1/labels/{id}.
type UpdateLabel struct {
	httpapi.UUIDParam
	Body struct {
		Name  httpapi.Optional[string] `json:"name,omitzero" maxLength:"64"`
		Color httpapi.Nullable[string] `json:"color,omitzero"`
	}
}

func (a *API) updateLabel(ctx context.Context, c *httpapi.Call, in *UpdateLabel) (httpapi.WriteResult, error) {
	update := commands.UpdateLabel{Name: in.Body.Name.Ptr(), SetColor: in.Body.Color.Set, Color: in.Body.Color.Ptr()}
	return result(a.app.UpdateLabel(ctx, request(c), in.ID, update))
}

func (a *API) deleteLabel(ctx context.Context, c *httpapi.Call, in *httpapi.UUIDParam) (httpapi.WriteResult, error) {
	return result(a.app.DeleteLabel(ctx, request(c), in.ID))
}

func (a *API) labels() resource[projections.Label] {
	return resource[projections.Label]{a.store, "label", a.store.Label, consumers(projections.Contacts)}
}
