package readapi

import (
	"context"

	"ledgerline/domain/fault"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// webhooks answers GET /v1/webhooks.
func (a *API) webhooks(ctx context.Context, c *httpapi.Call, in *httpapi.PageParams) (httpapi.Page[projections.Webhook], error) {
	after, err := a.openCursor(c, "webhooks", nil, in.Cursor)
	if err != nil {
		return httpapi.Page[projections.Webhook]{}, err
	}
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.Webhooks); err != nil {
		return httpapi.Page[projections.Webhook]{}, err
	}
	page, err := a.store.Webhooks(ctx, v, after, in.Limit)
	return answerPage(a, c, "webhooks", nil, page, err)
}

// webhook answers GET /v1/webhooks/{id}.
func (a *API) webhook(ctx context.Context, c *httpapi.Call, in *httpapi.IDParam) (projections.Webhook, error) {
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.Webhooks); err != nil {
		return projections.Webhook{}, err
	}
	found, ok, err := a.store.Webhook(ctx, v, in.ID)
	if err == nil && !ok {
		err = fault.New(fault.NotFound, "There is no such webhook endpoint.")
	}
	return found, err
}

// delivery answers GET /v1/webhook-deliveries/{id}.
func (a *API) delivery(ctx context.Context, c *httpapi.Call, in *httpapi.UUIDParam) (projections.DeliveryWithBody, error) {
	v := a.viewer(c)
	if err := a.store.WaitForHeadByName(ctx, v.Shard, projections.DeliveriesConsumer); err != nil {
		return projections.DeliveryWithBody{}, err
	}
	found, ok, err := a.store.DeliveryWithBody(ctx, v, in.ID)
	if err == nil && !ok {
		err = fault.New(fault.NotFound, "There is no such delivery.")
	}
	return found, err
}

// ListDeliveries is the query of GET /v1/webhooks/{id}/deliveries.
type ListDeliveries struct {
	httpapi.IDParam
	httpapi.PageParams
	Status    string `query:"status" enum:"pending,succeeded,failed"`
	EventType string `query:"event_type" enum:"message.received,message.status,contact.created,contact.opted_out,contact.opted_in,conversation.assigned,line.state_changed,line.degraded,line.recovered,workflow.run.completed,agent.handoff,workflow.webhook"`
}

// deliveries answers GET /v1/webhooks/{id}/deliveries.
func (a *API) deliveries(ctx context.Context, c *httpapi.Call, in *ListDeliveries) (httpapi.Page[projections.Delivery], error) {
	by := projections.DeliveryFilter{EndpointID: in.ID, Status: in.Status, EventType: in.EventType}
	after, err := a.openCursor(c, "deliveries", by, in.Cursor)
	if err != nil {
		return httpapi.Page[projections.Delivery]{}, err
	}
	v := a.viewer(c)
	if err := a.store.WaitForHeadByName(ctx, v.Shard, projections.Webhooks.ID, projections.DeliveriesConsumer); err != nil {
		return httpapi.Page[projections.Delivery]{}, err
	}
	_, found, err := a.store.Webhook(ctx, v, in.ID)
	if err == nil && !found {
		err = fault.New(fault.NotFound, "There is no such webhook endpoint.")
	}
	if err != nil {
		return httpapi.Page[projections.Delivery]{}, err
	}
	page, err := a.store.Deliveries(ctx, by, after, in.Limit)
	return answerPage(a, c, "deliveries", by, page, err)
}
