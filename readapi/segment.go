package readapi

import (
	"context"

	"ledgerline/httpapi"
	"ledgerline/projections"
)

// segments answers GET /v1/segments.
func (a *API) segments(ctx context.Context, c *httpapi.Call, _ *struct{}) (httpapi.List[projections.Segment], error) {
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.Contacts, projections.Segments); err != nil {
		return httpapi.List[projections.Segment]{}, err
	}
	rows, err := a.store.Segments(ctx, v)
	return httpapi.List[projections.Segment]{Data: rows}, err
}
