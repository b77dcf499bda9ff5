package readapi

import (
	"context"

	"ledgerline/httpapi"
	"ledgerline/projections"
)

// labels answers GET /v1/labels.
func (a *API) labels(ctx context.Context, c *httpapi.Call, _ *struct{}) (httpapi.List[projections.Label], error) {
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.Contacts); err != nil {
		return httpapi.List[projections.Label]{}, err
	}
	rows, err := a.store.Labels(ctx, v)
	return httpapi.List[projections.Label]{Data: rows}, err
}
