package readapi

import (
	"context"

	"ledgerline/domain/fault"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// ListWorkflows is the query of GET /v1/workflows.
type ListWorkflows struct {
	httpapi.PageParams
	Status string `query:"status" enum:"draft,live,paused,archived"`
}

// workflows answers GET /v1/workflows.
func (a *API) workflows(ctx context.Context, c *httpapi.Call, in *ListWorkflows) (httpapi.Page[projections.Workflow], error) {
	after, err := a.openCursor(c, "workflows", in.Status, in.Cursor)
	if err != nil {
		return httpapi.Page[projections.Workflow]{}, err
	}
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.Workflows, projections.Runs); err != nil {
		return httpapi.Page[projections.Workflow]{}, err
	}
	page, err := a.store.Workflows(ctx, v, in.Status, after, in.Limit)
	return answerPage(a, c, "workflows", in.Status, page, err)
}

// workflow answers GET /v1/workflows/{id}.
func (a *API) workflow(ctx context.Context, c *httpapi.Call, in *httpapi.UUIDParam) (projections.Workflow, error) {
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.Workflows, projections.Runs); err != nil {
		return projections.Workflow{}, err
	}
	found, ok, err := a.store.Workflow(ctx, v, in.ID)
	if err == nil && !ok {
		err = fault.New(fault.NotFound, "There is no such workflow.")
	}
	return found, err
}

// workflowVersions answers GET /v1/workflows/{id}/versions.
func (a *API) workflowVersions(ctx context.Context, c *httpapi.Call, in *httpapi.UUIDParam) (httpapi.List[projections.WorkflowVersion], error) {
	if _, err := a.workflow(ctx, c, in); err != nil {
		return httpapi.List[projections.WorkflowVersion]{}, err
	}
	versions, err := a.store.WorkflowVersions(ctx, a.viewer(c), in.ID)
	return httpapi.List[projections.WorkflowVersion]{Data: versions}, err
}
