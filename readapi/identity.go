package readapi

import (
	"context"

	"ledgerline/httpapi"
	"ledgerline/projections"
)

// identities answers GET /v1/service-identities.
func (a *API) identities(ctx context.Context, c *httpapi.Call, in *httpapi.PageParams) (httpapi.Page[projections.Identity], error) {
	after, err := a.openCursor(c, "service-identities", nil, in.Cursor)
	if err != nil {
		return httpapi.Page[projections.Identity]{}, err
	}
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.Credentials); err != nil {
		return httpapi.Page[projections.Identity]{}, err
	}
	page, err := a.store.Identities(ctx, v, after, in.Limit)
	return answerPage(a, c, "service-identities", nil, page, err)
}
