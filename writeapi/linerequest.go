package writeapi

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/commands"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// RequestLines is the request of POST /v1/line-requests (administration 4.4).
type RequestLines struct {
	Body struct {
		Count     int                      `json:"count" minimum:"1" maximum:"50"`
		AreaCodes []string                 `json:"area_codes,omitempty" maxItems:"10" nullable:"false"`
		Note      httpapi.Optional[string] `json:"note,omitzero" maxLength:"1000" doc:"For the operator. Put no personal data here"`
		PoolID    httpapi.Optional[string] `json:"pool_id,omitzero" doc:"The pool that the lines are to be in"`
	}
}

func (a *API) requestLines(ctx context.Context, c *httpapi.Call, in *RequestLines) (httpapi.WriteResult, error) {
	b := &in.Body
	return done(a.app.RequestLines(ctx, request(c), commands.RequestLines{
		Count: b.Count, AreaCodes: b.AreaCodes, Note: b.Note.Ptr(), PoolID: b.PoolID.Ptr(),
	}))
}

// lineRequest is the view that answers a request for lines.
func (a *API) lineRequest(ctx context.Context, c *httpapi.Call, d httpapi.WriteResult) (projections.LineRequest, error) {
	if err := a.reach(ctx, d, projections.LineRequests); err != nil {
		return projections.LineRequest{}, err
	}
	id, err := uuid.Parse(d.Ref)
	if err != nil {
		return projections.LineRequest{}, err
	}
	found, ok, err := a.store.LineRequest(ctx, viewer(c, d.Shard), id)
	if err == nil && !ok {
		err = gone("line request")
	}
	return found, err
}
