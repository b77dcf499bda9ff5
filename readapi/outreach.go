package readapi

import (
	"context"

	"ledgerline/domain/fault"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// ListOutreaches is the query of GET /v1/outreach.
type ListOutreaches struct {
	httpapi.PageParams
	Status string `query:"status" enum:"scheduled,running,completed,cancelled"`
}

// outreaches answers GET /v1/outreach.
func (a *API) outreaches(ctx context.Context, c *httpapi.Call, in *ListOutreaches) (httpapi.Page[projections.Outreach], error) {
	after, err := a.openCursor(c, "outreach", in.Status, in.Cursor)
	if err != nil {
		return httpapi.Page[projections.Outreach]{}, err
	}
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.Outreaches); err != nil {
		return httpapi.Page[projections.Outreach]{}, err
	}
	page, err := a.store.Outreaches(ctx, v, in.Status, after, in.Limit)
	return answerPage(a, c, "outreach", in.Status, page, err)
}

// outreach answers GET /v1/outreach/{id}.
func (a *API) outreach(ctx context.Context, c *httpapi.Call, in *httpapi.UUIDParam) (projections.Outreach, error) {
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.Outreaches); err != nil {
		return projections.Outreach{}, err
	}
	found, ok, err := a.store.Outreach(ctx, v, in.ID)
	if err == nil && !ok {
		err = fault.New(fault.NotFound, "There is no such outreach.")
	}
	return found, err
}
