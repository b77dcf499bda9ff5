package writeapi

import (
	"cmp"
	"context"
	"time"

	"github.com/google/uuid"

	"ledgerline/commands"
	"ledgerline/domain/fault"
	"ledgerline/domain/webhook"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// CreateWebhook is the request of POST /v1/webhooks.
type CreateWebhook struct {
	Body struct {
		URL    string   `json:"url" format:"uri" maxLength:"2048" doc:"https://"`
		Events []string `json:"events" nullable:"false" enum:"message.received,message.status,contact.created,contact.opted_out,contact.opted_in,conversation.assigned,line.state_changed,line.degraded,line.recovered,workflow.run.completed,agent.handoff,workflow.webhook" doc:"What it is told of: at least one type"`
	}
}

// Check implements httpapi.Checked. It accepts http and private addresses: whether the installation does is
// checked by the command.
func (in *CreateWebhook) Check() []fault.Issue {
	return append(webhook.CheckURL(in.Body.URL, true), webhook.CheckEvents(in.Body.Events)...)
}

func (a *API) createWebhook(ctx context.Context, c *httpapi.Call, in *CreateWebhook) (httpapi.WriteResult, error) {
	body := func(m commands.CreatedWebhook) projections.WebhookWithSecret {
		return projections.NewWebhook(&m.Event, m.At)
	}
	made, err := a.app.CreateWebhook(ctx, request(c), commands.CreateWebhook{
		URL: in.Body.URL, Events: in.Body.Events, Answer: recordedBody(c, body),
	})
	w, err := resultWithBody(c, made.Result, made, body, err)
	if err != nil {
		return w, err
	}
	return w, a.store.WaitForPosition(ctx, w.Shard, w.Position, projections.Webhooks)
}

// UpdateWebhook is the request of PATCH /v1/webhooks/{id}.
type UpdateWebhook struct {
	httpapi.IDParam
	Body struct {
		URL    httpapi.Optional[string]   `json:"url,omitzero" format:"uri" maxLength:"2048" doc:"https://"`
		Events httpapi.Optional[[]string] `json:"events,omitzero" enum:"message.received,message.status,contact.created,contact.opted_out,contact.opted_in,conversation.assigned,line.state_changed,line.degraded,line.recovered,workflow.run.completed,agent.handoff,workflow.webhook" doc:"In place of those so far"`
		Status httpapi.Optional[string]   `json:"status,omitzero" enum:"active,paused" doc:"active also enables a disabled endpoint again, at most once in ten minutes"`
	}
}

// Check implements httpapi.Checked in the same way as CreateWebhook.
func (in *UpdateWebhook) Check() []fault.Issue {
	var issues []fault.Issue
	if in.Body.URL.Set {
		issues = webhook.CheckURL(in.Body.URL.Value, true)
	}
	if in.Body.Events.Set {
		issues = append(issues, webhook.CheckEvents(in.Body.Events.Value)...)
	}
	return issues
}

func (a *API) updateWebhook(ctx context.Context, c *httpapi.Call, in *UpdateWebhook) (httpapi.WriteResult, error) {
	change := webhook.Change{URL: in.Body.URL.Ptr(), Events: in.Body.Events.Ptr()}
	if in.Body.Status.Set {
		status := webhook.Status(in.Body.Status.Value)
		change.Status = &status
	}
	return result(a.app.UpdateWebhook(ctx, request(c), in.ID, change))
}

// secretErased is the view of answers with a secret. No read model has the secret: it is stored with the idempotency
// record only, until the endpoint is deleted. A retry that comes later gets not_found.
func (a *API) secretErased(context.Context, *httpapi.Call, httpapi.WriteResult) (projections.WebhookWithSecret, error) {
	return projections.WebhookWithSecret{}, notFound("webhook endpoint")
}

func (a *API) webhooks() resource[projections.Webhook] {
	return resource[projections.Webhook]{a.store, "webhook endpoint", a.store.Webhook, consumers(projections.Webhooks)}
}

func (a *API) rotateWebhook(ctx context.Context, c *httpapi.Call, in *httpapi.IDParam) (httpapi.WriteResult, error) {
	before, err := a.webhooks().current(ctx, c, in.ID)
	if err != nil {
		return httpapi.WriteResult{}, err
	}
	body := func(r commands.RotatedWebhook) projections.WebhookWithSecret { return before.Rotated(r.Secret, r.At) }
	made, err := a.app.RotateWebhook(ctx, request(c), in.ID, recordedBody(c, body))
	return resultWithBody(c, made.Result, made, body, err)
}

func (a *API) deleteWebhook(ctx context.Context, c *httpapi.Call, in *httpapi.IDParam) (httpapi.WriteResult, error) {
	return result(a.app.DeleteWebhook(ctx, request(c), in.ID))
}

// webhookDeleted answers when no read model shows the endpoint any more and no further delivery to it begins.
func (a *API) webhookDeleted(ctx context.Context, _ *httpapi.Call, w httpapi.WriteResult) (httpapi.Deleted, error) {
	if err := a.store.WaitForPosition(ctx, w.Shard, w.Position, projections.Webhooks); err != nil {
		return httpapi.Deleted{}, err
	}
	return httpapi.Deleted{Deleted: true, ID: w.Ref}, a.store.WaitForPositionByName(ctx, w.Shard, w.Position, projections.DeliveriesConsumer)
}

// TestWebhook is the request of POST /v1/webhooks/{id}/test.
type TestWebhook struct {
	httpapi.IDParam
	Body *struct {
		Type string `json:"type,omitempty" default:"message.received" enum:"message.received,message.status,contact.created,contact.opted_out,contact.opted_in,conversation.assigned,line.state_changed,line.degraded,line.recovered,workflow.run.completed,agent.handoff,workflow.webhook"`
	}
}

func (a *API) testWebhook(ctx context.Context, c *httpapi.Call, in *TestWebhook) (httpapi.WriteResult, error) {
	kind := "message.received"
	if in.Body != nil && in.Body.Type != "" {
		kind = in.Body.Type
	}
	test, err := a.app.TestWebhook(ctx, request(c), in.ID, kind)
	w, err := result(test.Result, err)
	if err == nil {
		w.Body = projections.NewDelivery(test.DeliveryID, test.EventID, in.ID, kind, test.At)
	}
	return w, err
}

func (a *API) replayDelivery(ctx context.Context, c *httpapi.Call, in *httpapi.UUIDParam) (httpapi.WriteResult, error) {
	found, err := a.deliveries().current(ctx, c, in.ID.String())
	switch {
	case err != nil:
		return httpapi.WriteResult{}, err
	case found.Status == "pending":
		return httpapi.WriteResult{}, fault.New(fault.Conflict, "The delivery is pending. Only a finished one can be replayed.")
	case found.Erased:
		return httpapi.WriteResult{}, fault.New(fault.Conflict, "What the delivery told of was erased or is too old.")
	}
	w, err := result(a.app.ReplayDelivery(ctx, request(c), found.EndpointID, in.ID, found.Test, found.Replays))
	if err == nil {
		w.Body = found.Replayed(a.store.Ledger().Now())
	}
	return w, err
}

// ReplayWebhookRange is the request of POST /v1/webhooks/{id}/replay.
type ReplayWebhookRange struct {
	httpapi.IDParam
	Body struct {
		From   time.Time                   `json:"from" doc:"Deliveries that were created at or after this time"`
		To     time.Time                   `json:"to" doc:"Deliveries that were created before this time"`
		Status string                      `json:"status,omitempty" enum:"failed,succeeded,all" default:"failed" doc:"Which finished deliveries are repeated"`
		Type   string                      `json:"type,omitempty" enum:"message.received,message.status,contact.created,contact.opted_out,contact.opted_in,conversation.assigned,line.state_changed,line.degraded,line.recovered,workflow.run.completed,agent.handoff,workflow.webhook" doc:"Only deliveries of this type"`
		After  httpapi.Optional[uuid.UUID] `json:"after,omitzero" doc:"next_after of the request before, to continue it"`
	}
}

// Check implements httpapi.Checked.
func (in *ReplayWebhookRange) Check() []fault.Issue {
	if in.Body.From.Before(in.Body.To) {
		return nil
	}
	return []fault.Issue{{Location: "body", Path: "/to", Code: "out_of_range", Message: "Must be after from."}}
}

// ReplayedRange is the answer of POST /v1/webhooks/{id}/replay.
type ReplayedRange struct {
	Replayed  int        `json:"replayed" minimum:"0" maximum:"1000" doc:"Deliveries that are attempted once more"`
	NextAfter *uuid.UUID `json:"next_after" format:"uuid" doc:"The value of after with which the next request continues; null when this was the last one of the range"`
}

// replayRange answers POST /v1/webhooks/{id}/replay (rule WHK-24).
func (a *API) replayRange(ctx context.Context, c *httpapi.Call, in *ReplayWebhookRange) (httpapi.WriteResult, error) {
	if issues := in.Check(); len(issues) > 0 {
		return httpapi.WriteResult{}, fault.Invalids(issues...)
	}
	if _, err := a.webhooks().current(ctx, c, in.ID); err != nil {
		return httpapi.WriteResult{}, err
	}
	by := projections.ReplayFilter{
		EndpointID: in.ID, EventType: in.Body.Type, Status: cmp.Or(in.Body.Status, "failed"), From: in.Body.From, To: in.Body.To, After: in.Body.After.Value,
	}
	ids, err := a.store.ReplayableDeliveries(ctx, by, webhook.MaxRangeDeliveries+1)
	if err != nil {
		return httpapi.WriteResult{}, err
	}
	var answer ReplayedRange
	if len(ids) > webhook.MaxRangeDeliveries {
		ids = ids[:webhook.MaxRangeDeliveries]
		answer.NextAfter = &ids[len(ids)-1]
	}
	answer.Replayed = len(ids)
	body := func(commands.Result) ReplayedRange { return answer }
	found := commands.WebhookRange{EndpointID: in.ID, From: by.From, To: by.To, Deliveries: ids}
	w, err := a.app.ReplayWebhookRange(ctx, request(c), found, recordedBody(c, body))
	return resultWithBody(c, w, w, body, err)
}

// deliveries are shown by the process that makes the attempts, not by a projection.
func (a *API) deliveries() resource[projections.Delivery] {
	return resource[projections.Delivery]{
		a.store, "delivery", byUUID(a.store.Delivery), []string{projections.DeliveriesConsumer},
	}
}
