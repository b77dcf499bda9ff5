package writeapi

import (
	"context"

	"ledgerline/httpapi"
	"ledgerline/projections"
)

// CreateSegment is the request of POST /v1/segments (interface 4.2).
type CreateSegment struct {
	Body struct {
		Name       string `json:"name" maxLength:"80"`
		Definition any    `json:"definition" doc:"all, any, not, or a condition with field, op and value"`
	}
}

func (a *API) createSegment(ctx context.Context, c *httpapi.Call, in *CreateSegment) (httpapi.WriteResult, error) {
	return done(a.app.CreateSegment(ctx, request(c), in.Body.Name, in.Body.Definition))
}

// UpdateSegment is the request of PATCH /v1/segments/{id} (interface 4.2).
type UpdateSegment struct {
	httpapi.UUIDParam
	Body struct {
		Name       httpapi.Optional[string] `json:"name,omitzero" maxLength:"80"`
		Definition httpapi.Optional[any]    `json:"definition,omitzero" doc:"Replaces the definition"`
	}
}

func (a *API) updateSegment(ctx context.Context, c *httpapi.Call, in *UpdateSegment) (httpapi.WriteResult, error) {
	return done(a.app.UpdateSegment(ctx, request(c), in.ID, in.Body.Name.Ptr(), in.Body.Definition.Set, in.Body.Definition.Value))
}

func (a *API) deleteSegment(ctx context.Context, c *httpapi.Call, in *httpapi.UUIDParam) (httpapi.WriteResult, error) {
	return done(a.app.DeleteSegment(ctx, request(c), in.ID))
}

// segmentDeleted answers the deletion of a segment when no list shows it any more.
func (a *API) segmentDeleted(ctx context.Context, _ *httpapi.Call, d httpapi.WriteResult) (httpapi.Deleted, error) {
	return httpapi.Deleted{Deleted: true, ID: d.Ref}, a.reach(ctx, d, projections.Segments)
}

// segment is the view that answers writes on a segment.
func (a *API) segment(ctx context.Context, c *httpapi.Call, d httpapi.WriteResult) (projections.Segment, error) {
	if err := a.reach(ctx, d, projections.Segments, projections.Contacts); err != nil {
		return projections.Segment{}, err
	}
	found, ok, err := a.store.Segment(ctx, viewer(c, d.Shard), d.Ref)
	if err == nil && !ok {
		err = gone("segment")
	}
	return found, err
}
