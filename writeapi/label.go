package writeapi

import (
	"context"

	"ledgerline/commands"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// CreateLabel is the request of POST /v1/labels (interface 4.2).
type CreateLabel struct {
	Body struct {
		Name  string  `json:"name" maxLength:"64"`
		Color *string `json:"color,omitempty"`
	}
}

func (a *API) createLabel(ctx context.Context, c *httpapi.Call, in *CreateLabel) (httpapi.WriteResult, error) {
	return done(a.app.CreateLabel(ctx, request(c), in.Body.Name, in.Body.Color))
}

// UpdateLabel is the request of PATCH /v1/labels/{id} (interface 4.2).
type UpdateLabel struct {
	httpapi.UUIDParam
	Body struct {
		Name  httpapi.Optional[string] `json:"name,omitzero" maxLength:"64"`
		Color httpapi.Nullable[string] `json:"color,omitzero"`
	}
}

func (a *API) updateLabel(ctx context.Context, c *httpapi.Call, in *UpdateLabel) (httpapi.WriteResult, error) {
	update := commands.UpdateLabel{Name: in.Body.Name.Ptr(), SetColor: in.Body.Color.Set, Color: in.Body.Color.Ptr()}
	return done(a.app.UpdateLabel(ctx, request(c), in.ID, update))
}

func (a *API) deleteLabel(ctx context.Context, c *httpapi.Call, in *httpapi.UUIDParam) (httpapi.WriteResult, error) {
	return done(a.app.DeleteLabel(ctx, request(c), in.ID))
}

// labelDeleted answers the deletion of a label when no contact shows it any more.
func (a *API) labelDeleted(ctx context.Context, _ *httpapi.Call, d httpapi.WriteResult) (httpapi.Deleted, error) {
	return httpapi.Deleted{Deleted: true, ID: d.Ref}, a.reach(ctx, d, projections.Contacts)
}

// label is the view that answers writes on a label.
func (a *API) label(ctx context.Context, c *httpapi.Call, d httpapi.WriteResult) (projections.Label, error) {
	if err := a.reach(ctx, d, projections.Contacts); err != nil {
		return projections.Label{}, err
	}
	found, ok, err := a.store.Label(ctx, viewer(c, d.Shard), d.Ref)
	if err == nil && !ok {
		err = gone("label")
	}
	return found, err
}
