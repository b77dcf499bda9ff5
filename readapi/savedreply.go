package readapi

import (
	"context"

	"ledgerline/httpapi"
	"ledgerline/projections"
)

// savedReplies answers GET /v1/saved-replies.
func (a *API) savedReplies(ctx context.Context, c *httpapi.Call, _ *struct{}) (httpapi.List[projections.SavedReply], error) {
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.SavedReplies, projections.Directory); err != nil {
		return httpapi.List[projections.SavedReply]{}, err
	}
	found, err := a.store.SavedReplies(ctx, v)
	return httpapi.List[projections.SavedReply]{Data: found}, err
}
