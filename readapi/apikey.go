package readapi

import (
	"context"

	"ledgerline/httpapi"
	"ledgerline/projections"
)

// apiKeys answers GET /v1/api-keys.
func (a *API) apiKeys(ctx context.Context, c *httpapi.Call, in *httpapi.PageParams) (httpapi.Page[projections.APIKey], error) {
	after, err := a.openCursor(c, "api-keys", nil, in.Cursor)
	if err != nil {
		return httpapi.Page[projections.APIKey]{}, err
	}
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.Credentials); err != nil {
		return httpapi.Page[projections.APIKey]{}, err
	}
	page, err := a.store.APIKeys(ctx, v, after, in.Limit)
	return answerPage(a, c, "api-keys", nil, page, err)
}
