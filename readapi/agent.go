package readapi

import (
	"context"

	"ledgerline/domain/fault"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// ListAgents is the query of GET /v1/agents.
type ListAgents struct {
	httpapi.PageParams
	Status string `query:"status" enum:"draft,live,paused"`
}

// agents answers GET /v1/agents.
func (a *API) agents(ctx context.Context, c *httpapi.Call, in *ListAgents) (httpapi.Page[projections.Agent], error) {
	after, err := a.openCursor(c, "agents", in.Status, in.Cursor)
	if err != nil {
		return httpapi.Page[projections.Agent]{}, err
	}
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.Agents); err != nil {
		return httpapi.Page[projections.Agent]{}, err
	}
	page, err := a.store.Agents(ctx, v, in.Status, after, in.Limit)
	return answerPage(a, c, "agents", in.Status, page, err)
}

// agent answers GET /v1/agents/{id}.
func (a *API) agent(ctx context.Context, c *httpapi.Call, in *httpapi.UUIDParam) (projections.Agent, error) {
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.Agents); err != nil {
		return projections.Agent{}, err
	}
	found, ok, err := a.store.Agent(ctx, v, in.ID)
	if err == nil && !ok {
		err = fault.New(fault.NotFound, "There is no such agent.")
	}
	return found, err
}
