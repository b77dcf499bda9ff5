package writeapi

import (
	"context"

	"ledgerline/commands"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// CreateSegment is the request of POST /v1/segments.
type CreateSegment struct {
	Body struct {
		Name       string `json:"name" maxLength:"80"`
		Definition any    `json:"definition" doc:"all, any, not, or a condition with field, op and value"`
	}
}

func (a *API) createSegment(ctx context.Context, c *httpapi.Call, in *CreateSegment) (httpapi.WriteResult, error) {
	return result(a.app.CreateSegment(ctx, request(c), in.Body.Name, in.Body.Definition))
}

// UpdateSegment is the request of PATCH /v1/segments/{id}.
type UpdateSegment struct {
	httpapi.UUIDParam
	Body struct {
		Name       httpapi.Optional[string] `json:"name,omitzero" maxLength:"80"`
		Definition httpapi.Optional[any]    `json:"definition,omitzero" doc:"Replaces the definition"`
	}
}

func (a *API) updateSegment(ctx context.Context, c *httpapi.Call, in *UpdateSegment) (httpapi.WriteResult, error) {
	return result(a.app.UpdateSegment(ctx, request(c), in.ID, commands.UpdateSegment{
		Name: in.Body.Name.Ptr(), SetDefinition: in.Body.Definition.Set, Definition: in.Body.Definition.Value,
	}))
}

func (a *API) deleteSegment(ctx context.Context, c *httpapi.Call, in *httpapi.UUIDParam) (httpapi.WriteResult, error) {
	return result(a.app.DeleteSegment(ctx, request(c), in.ID))
}

func (a *API) segments() resource[projections.Segment] {
	return resource[projections.Segment]{
		a.store, "segment", a.store.Segment, consumers(projections.Segments, projections.Contacts),
	}
}
