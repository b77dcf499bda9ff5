package writeapi

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"ledgerline/commands"
	"ledgerline/domain/fault"
	"ledgerline/domain/webhook"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// CreateWebhook is the request of POST /v1/webhooks (administration 4.9).
type CreateWebhook struct {
	Body struct {
		URL    string   `json:"url" format:"uri" maxLength:"2048" doc:"https://"`
		Events []string `json:"events" nullable:"false" enum:"message.received,message.status,contact.created,contact.opted_out,contact.opted_in,conversation.assigned,line.state_changed,line.degraded,line.recovered,workflow.run.completed,agent.handoff,workflow.webhook" doc:"What it is told of; at least one type"`
	}
}

// Check implements httpapi.Checked. Whether plain http is taken is for the command to know.
func (in *CreateWebhook) Check() []fault.Issue {
	return append(webhook.CheckURL(in.Body.URL, true), webhook.CheckEvents(in.Body.Events)...)
}

func (a *API) createWebhook(ctx context.Context, c *httpapi.Call, in *CreateWebhook) (httpapi.WriteResult, error) {
	create := commands.CreateWebhook{URL: in.Body.URL, Events: in.Body.Events}
	if c.Idempotency != nil {
		create.Answer = func(m commands.WebhookMade) ([]byte, error) {
			return json.Marshal(projections.NewWebhook(&m.Event, m.At)) //nolint:gosec // the secret is what is answered, once
		}
	}
	made, err := a.app.CreateWebhook(ctx, request(c), create)
	d, err := done(made.Result, err)
	if err != nil {
		return d, err
	}
	d.Body, d.BodyStored = projections.NewWebhook(&made.Event, made.At), c.Idempotency != nil
	return d, a.reach(ctx, d, projections.Webhooks)
}

// UpdateWebhook is the request of PATCH /v1/webhooks/{id} (administration 4.9).
type UpdateWebhook struct {
	httpapi.IDParam
	Body struct {
		URL    httpapi.Optional[string]   `json:"url,omitzero" format:"uri" maxLength:"2048" doc:"https://"`
		Events httpapi.Optional[[]string] `json:"events,omitzero" enum:"message.received,message.status,contact.created,contact.opted_out,contact.opted_in,conversation.assigned,line.state_changed,line.degraded,line.recovered,workflow.run.completed,agent.handoff,workflow.webhook" doc:"In place of those so far"`
		Status httpapi.Optional[string]   `json:"status,omitzero" enum:"active,paused" doc:"active also enables a disabled endpoint again, at most once in ten minutes"`
	}
}

// Check implements httpapi.Checked, as for creation.
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
	return done(a.app.UpdateWebhook(ctx, request(c), in.ID, change))
}

// shown is in place of the view of an answer with a secret: that is stored with its receipt, until the endpoint is deleted.
func (a *API) shown(context.Context, *httpapi.Call, httpapi.WriteResult) (projections.WebhookWithSecret, error) {
	return projections.WebhookWithSecret{}, gone("webhook endpoint")
}

// webhook is the view that answers the other writes on a webhook endpoint.
func (a *API) webhook(ctx context.Context, c *httpapi.Call, d httpapi.WriteResult) (projections.Webhook, error) {
	if err := a.reach(ctx, d, projections.Webhooks); err != nil {
		return projections.Webhook{}, err
	}
	found, ok, err := a.store.Webhook(ctx, viewer(c, d.Shard), d.Ref)
	if err == nil && !ok {
		err = gone("webhook endpoint")
	}
	return found, err
}

func (a *API) rotateWebhook(ctx context.Context, c *httpapi.Call, in *httpapi.IDParam) (httpapi.WriteResult, error) {
	shard := a.store.Ledger().ShardOf(c.OrganisationID)
	if err := a.store.Current(ctx, shard, projections.Webhooks); err != nil {
		return httpapi.WriteResult{}, err
	}
	before, ok, err := a.store.Webhook(ctx, viewer(c, shard), in.ID)
	if err != nil {
		return httpapi.WriteResult{}, err
	}
	if !ok {
		return httpapi.WriteResult{}, gone("webhook endpoint")
	}
	rotated := func(r commands.WebhookRotated) projections.WebhookWithSecret { return before.Rotated(r.Secret, r.At) }
	var answer func(commands.WebhookRotated) ([]byte, error)
	if c.Idempotency != nil {
		answer = func(r commands.WebhookRotated) ([]byte, error) { return json.Marshal(rotated(r)) } //nolint:gosec // the secret is what is answered, once
	}
	made, err := a.app.RotateWebhook(ctx, request(c), in.ID, answer)
	d, err := done(made.Result, err)
	if err != nil {
		return d, err
	}
	d.Body, d.BodyStored = rotated(made), c.Idempotency != nil
	return d, nil
}

func (a *API) deleteWebhook(ctx context.Context, c *httpapi.Call, in *httpapi.IDParam) (httpapi.WriteResult, error) {
	return done(a.app.DeleteWebhook(ctx, request(c), in.ID))
}

// webhookDeleted answers when nothing shows the endpoint any more, and no further delivery to it is begun.
func (a *API) webhookDeleted(ctx context.Context, _ *httpapi.Call, d httpapi.WriteResult) (httpapi.Deleted, error) {
	if err := a.reach(ctx, d, projections.Webhooks); err != nil {
		return httpapi.Deleted{}, err
	}
	return httpapi.Deleted{Deleted: true, ID: d.Ref}, a.store.ReachedBy(ctx, d.Shard, d.Position, projections.DeliveriesBy)
}

// TestWebhook is the request of POST /v1/webhooks/{id}/test (administration 4.9).
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
	asked, err := a.app.TestWebhook(ctx, request(c), in.ID, kind)
	d, err := done(asked.Result, err)
	if err == nil {
		d.Body = projections.NewDelivery(asked.DeliveryID, asked.EventID, in.ID, kind, asked.At)
	}
	return d, err
}

func (a *API) replayDelivery(ctx context.Context, c *httpapi.Call, in *httpapi.UUIDParam) (httpapi.WriteResult, error) {
	shard := a.store.Ledger().ShardOf(c.OrganisationID)
	if err := a.store.CurrentOf(ctx, shard, projections.DeliveriesBy); err != nil {
		return httpapi.WriteResult{}, err
	}
	found, ok, err := a.store.Delivery(ctx, viewer(c, shard), in.ID)
	switch {
	case err != nil:
		return httpapi.WriteResult{}, err
	case !ok:
		return httpapi.WriteResult{}, gone("delivery")
	case found.Status == "pending":
		return httpapi.WriteResult{}, fault.New(fault.Conflict, "The delivery is pending. Only a finished one can be replayed.")
	case found.Erased:
		return httpapi.WriteResult{}, fault.New(fault.Conflict, "What the delivery told of was erased or is too old.")
	}
	d, err := done(a.app.ReplayDelivery(ctx, request(c), found.EndpointID, in.ID, found.Test, found.Replays))
	if err == nil {
		d.Body = found.Replayed(a.store.Ledger().Now())
	}
	return d, err
}

// delivery is the view that answers tests and replays when they are asked for again.
func (a *API) delivery(ctx context.Context, c *httpapi.Call, d httpapi.WriteResult) (projections.Delivery, error) {
	id, err := uuid.Parse(d.Ref)
	if err != nil {
		return projections.Delivery{}, gone("delivery")
	}
	if err := a.store.ReachedBy(ctx, d.Shard, d.Position, projections.DeliveriesBy); err != nil {
		return projections.Delivery{}, err
	}
	found, ok, err := a.store.Delivery(ctx, viewer(c, d.Shard), id)
	if err == nil && !ok {
		err = gone("delivery")
	}
	return found, err
}
