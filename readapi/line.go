package readapi

import (
	"context"

	"ledgerline/domain/fault"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// ListLines is the query of GET /v1/lines.
type ListLines struct {
	PoolID string `query:"pool_id" doc:"pool_ id"`
	State  string `query:"state" enum:"provisioning,ready,warming,active,throttled,paused,quarantined,retired"`
}

// Check implements httpapi.Checked.
func (in *ListLines) Check() []fault.Issue { return idIssues("/pool_id", "pool_", in.PoolID) }

// lines answers GET /v1/lines.
func (a *API) lines(ctx context.Context, c *httpapi.Call, in *ListLines) (httpapi.List[projections.Line], error) {
	if issues := in.Check(); len(issues) > 0 {
		return httpapi.List[projections.Line]{}, fault.Invalids(issues...)
	}
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.Lines, projections.Usage); err != nil {
		return httpapi.List[projections.Line]{}, err
	}
	found, err := a.store.Lines(ctx, c.OrganisationID, v, projections.LineFilter{PoolID: in.PoolID, State: in.State})
	return httpapi.List[projections.Line]{Data: found}, err
}

// line answers GET /v1/lines/{id}.
func (a *API) line(ctx context.Context, c *httpapi.Call, in *httpapi.IDParam) (projections.Line, error) {
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.Lines, projections.Usage); err != nil {
		return projections.Line{}, err
	}
	found, ok, err := a.store.Line(ctx, c.OrganisationID, v, in.ID)
	if err == nil && !ok {
		err = fault.New(fault.NotFound, "There is no such line.")
	}
	return found, err
}

// pools answers GET /v1/pools.
func (a *API) pools(ctx context.Context, c *httpapi.Call, _ *struct{}) (httpapi.List[projections.Pool], error) {
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.Lines); err != nil {
		return httpapi.List[projections.Pool]{}, err
	}
	found, err := a.store.Pools(ctx, v)
	return httpapi.List[projections.Pool]{Data: found}, err
}

// lineRequests answers GET /v1/line-requests.
func (a *API) lineRequests(ctx context.Context, c *httpapi.Call, in *httpapi.PageParams) (httpapi.Page[projections.LineRequest], error) {
	after, err := a.openCursor(c, "line-requests", nil, in.Cursor)
	if err != nil {
		return httpapi.Page[projections.LineRequest]{}, err
	}
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.LineRequests); err != nil {
		return httpapi.Page[projections.LineRequest]{}, err
	}
	page, err := a.store.LineRequests(ctx, v, after, in.Limit)
	return answerPage(a, c, "line-requests", nil, page, err)
}
