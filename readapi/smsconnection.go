package readapi

import (
	"context"

	"ledgerline/domain/fault"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// smsConnections answers GET /v1/sms-connections.
func (a *API) smsConnections(ctx context.Context, c *httpapi.Call, _ *struct{}) (httpapi.List[projections.SMSConnection], error) {
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.SMSConnections); err != nil {
		return httpapi.List[projections.SMSConnection]{}, err
	}
	found, err := a.store.SMSConnections(ctx, v)
	return httpapi.List[projections.SMSConnection]{Data: found}, err
}

// smsConnection answers GET /v1/sms-connections/{id}.
func (a *API) smsConnection(ctx context.Context, c *httpapi.Call, in *httpapi.IDParam) (projections.SMSConnection, error) {
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.SMSConnections); err != nil {
		return projections.SMSConnection{}, err
	}
	found, ok, err := a.store.SMSConnection(ctx, v, in.ID)
	if err == nil && !ok {
		err = fault.New(fault.NotFound, "There is no such SMS connection.")
	}
	return found, err
}
