package readapi

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// ListWorkflowRuns is the query of GET /v1/workflow-runs.
type ListWorkflowRuns struct {
	httpapi.PageParams
	WorkflowID httpapi.Optional[uuid.UUID] `query:"workflow_id"`
	Status     string                      `query:"status" enum:"running,waiting,completed,failed,cancelled"`
	ContactID  string                      `query:"contact_id"`
}

// Check implements httpapi.Checked.
func (in *ListWorkflowRuns) Check() []fault.Issue {
	return idIssues("/contact_id", "ctc_", in.ContactID)
}

// workflowRuns answers GET /v1/workflow-runs.
func (a *API) workflowRuns(ctx context.Context, c *httpapi.Call, in *ListWorkflowRuns) (httpapi.Page[projections.WorkflowRun], error) {
	if issues := in.Check(); len(issues) > 0 {
		return httpapi.Page[projections.WorkflowRun]{}, fault.Invalids(issues...)
	}
	by := projections.RunFilter{Status: in.Status, ContactID: in.ContactID}
	if in.WorkflowID.Set {
		by.WorkflowID = in.WorkflowID.Value.String()
	}
	after, err := a.openCursor(c, "workflow_runs", by, in.Cursor)
	if err != nil {
		return httpapi.Page[projections.WorkflowRun]{}, err
	}
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.Runs); err != nil {
		return httpapi.Page[projections.WorkflowRun]{}, err
	}
	page, err := a.store.WorkflowRuns(ctx, v, by, after, in.Limit)
	return answerPage(a, c, "workflow_runs", by, page, err)
}

// workflowRun answers GET /v1/workflow-runs/{id}.
func (a *API) workflowRun(ctx context.Context, c *httpapi.Call, in *httpapi.UUIDParam) (projections.WorkflowRun, error) {
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.Runs); err != nil {
		return projections.WorkflowRun{}, err
	}
	found, ok, err := a.store.WorkflowRun(ctx, v, in.ID)
	if err == nil && !ok {
		err = fault.New(fault.NotFound, "There is no such run.")
	}
	return found, err
}
