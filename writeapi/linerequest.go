package writeapi

import (
	"context"

	"ledgerline/commands"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// RequestLines is the request of POST /v1/line-requests.
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
	return result(a.app.RequestLines(ctx, request(c), commands.RequestLines{
		Count: b.Count, AreaCodes: b.AreaCodes, Note: b.Note.Ptr(), PoolID: b.PoolID.Ptr(),
	}))
}

func (a *API) lineRequests() resource[projections.LineRequest] {
	return resource[projections.LineRequest]{
		a.store, "line request", byUUID(a.store.LineRequest), consumers(projections.LineRequests),
	}
}
