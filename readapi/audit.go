package readapi

import (
	"context"
	"time"

	"ledgerline/httpapi"
	"ledgerline/projections"
)

// ListAuditLog is the query of GET /v1/audit-log.
type ListAuditLog struct {
	httpapi.PageParams
	Type       string                      `query:"type" maxLength:"64" doc:"For example api_key.rotated"`
	ActorType  string                      `query:"actor_type" enum:"key,identity,user,contact,system,operator"`
	ActorID    string                      `query:"actor_id" maxLength:"100"`
	TargetType string                      `query:"target_type" maxLength:"64" doc:"For example api_key, service_identity, line, contact"`
	TargetID   string                      `query:"target_id" maxLength:"100"`
	From       httpapi.Optional[time.Time] `query:"from" doc:"At or after this time"`
	To         httpapi.Optional[time.Time] `query:"to" doc:"Before this time"`
}

// auditLog answers GET /v1/audit-log.
func (a *API) auditLog(ctx context.Context, c *httpapi.Call, in *ListAuditLog) (httpapi.Page[projections.AuditEntry], error) {
	by := projections.AuditFilter{
		Type: in.Type, ActorType: in.ActorType, ActorID: in.ActorID, TargetType: in.TargetType, TargetID: in.TargetID, From: in.From.Ptr(), To: in.To.Ptr(),
	}
	after, err := a.openCursor(c, "audit-log", by, in.Cursor)
	if err != nil {
		return httpapi.Page[projections.AuditEntry]{}, err
	}
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.Audit); err != nil {
		return httpapi.Page[projections.AuditEntry]{}, err
	}
	page, err := a.store.AuditLog(ctx, v, c.OrganisationID, by, after, in.Limit)
	return answerPage(a, c, "audit-log", by, page, err)
}
