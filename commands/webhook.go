package commands

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/fault"
	"ledgerline/domain/webhook"
	"ledgerline/events"
	"ledgerline/eventstore"
)

// CreateWebhook has the properties of a webhook endpoint (rules WHK-1 and WHK-2).
type CreateWebhook struct {
	URL    string
	Events []string
	// Answer, when not nil, renders the answer so that it commits with the idempotency record. Only this answer shows
	// the secret.
	Answer func(CreatedWebhook) ([]byte, error)
}

// CreatedWebhook is a new endpoint. Its Event contains the secret.
type CreatedWebhook struct {
	Result
	Event events.WebhookCreated
}

// CreateWebhook creates a webhook endpoint of the request's workspace; Ref is its id. Refusals: validation_failed,
// conflict when the workspace or the organisation has as many endpoints as it may have (rule WHK-1).
func (a *App) CreateWebhook(ctx context.Context, req Request, in CreateWebhook) (CreatedWebhook, error) {
	secret, err := a.newWebhookSecret()
	if err != nil {
		return CreatedWebhook{}, err
	}
	id := a.engine.IDs.TypeID("whk")
	var created CreatedWebhook
	result, err := a.run(ctx, req, func(ctx context.Context, u *unit) error {
		if _, err := u.Workspace(ctx, req.Workspace); err != nil {
			return err
		}
		list, err := webhook.Create(id, in.URL, secret, in.Events, a.insideWebhooks)
		if err != nil {
			return err
		}
		engine.Begin(u.Unit, a.engine.Webhooks, id).Record(list...)
		u.countWebhooks(1)
		e, ok := list[0].(*events.WebhookCreated)
		if !ok {
			return errors.New("commands: the first event of an endpoint is not webhook.created")
		}
		u.Ref, u.Subject = id, id
		created = CreatedWebhook{Result: Result{Ref: id, Shard: a.engine.Ledger.ShardOf(req.Organisation), At: u.Now}, Event: *e}
		return renderAnswer(u, created, in.Answer)
	})
	if err != nil {
		return CreatedWebhook{}, err
	}
	created.Result = result
	return created, nil
}

func (a *App) newWebhookSecret() (string, error) {
	var random [32]byte
	if err := a.random(random[:]); err != nil {
		return "", err
	}
	return webhook.NewSecret(random), nil
}

// countWebhooks adds n to the numbers of endpoints of the workspace and of the organisation, within their limits.
func (u *unit) countWebhooks(n int64) {
	u.Quota(engine.CountQuota("webhooks:"+u.Request.Workspace.String(), n, webhook.MaxPerWorkspace),
		fault.New(fault.Conflict, "A workspace has at most %d webhook endpoints.", webhook.MaxPerWorkspace))
	u.Quota(engine.CountQuota("webhooks:"+u.Request.Organisation.String(), n, webhook.MaxPerOrganisation),
		fault.New(fault.Conflict, "An organisation has at most %d webhook endpoints.", webhook.MaxPerOrganisation))
}

// loadWebhook loads an endpoint of the request's workspace; not_found when there is none.
func (u *unit) loadWebhook(ctx context.Context, id string) (*engine.Aggregate[webhook.Endpoint], error) {
	endpoint, err := engine.Load(ctx, u.Unit, u.Engine.Webhooks, id)
	if err == nil && (!endpoint.State.Exists() || endpoint.State.Workspace != u.Request.Workspace) {
		err = engine.NotFound("webhook endpoint")
	}
	return endpoint, err
}

// UpdateWebhook changes an endpoint of the request's workspace. Refusals: not_found, and those of
// webhook.Endpoint.Update.
func (a *App) UpdateWebhook(ctx context.Context, req Request, id string, change webhook.Change) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		endpoint, err := u.loadWebhook(ctx, id)
		if err != nil {
			return err
		}
		changed, err := endpoint.State.Update(change, u.Now, a.insideWebhooks)
		if err != nil {
			return err
		}
		endpoint.Record(changed...)
		u.Ref = id
		return nil
	})
}

// RotatedWebhook is an endpoint with its new secret.
type RotatedWebhook struct {
	Result
	Secret string
}

// RotateWebhook gives an endpoint of the request's workspace a new secret (rule WHK-7). answer, when not nil, renders
// the answer so that it commits with the idempotency record. Only this answer shows the secret.
func (a *App) RotateWebhook(ctx context.Context, req Request, id string, answer func(RotatedWebhook) ([]byte, error)) (RotatedWebhook, error) {
	secret, err := a.newWebhookSecret()
	if err != nil {
		return RotatedWebhook{}, err
	}
	result, err := a.run(ctx, req, func(ctx context.Context, u *unit) error {
		endpoint, err := u.loadWebhook(ctx, id)
		if err != nil {
			return err
		}
		endpoint.Record(endpoint.State.Rotate(secret, u.Now)...)
		u.Ref, u.Subject = id, id
		rotated := RotatedWebhook{Result{Ref: id, Shard: a.engine.Ledger.ShardOf(req.Organisation), At: u.Now}, secret}
		return renderAnswer(u, rotated, answer)
	})
	return RotatedWebhook{result, secret}, err
}

// DeleteWebhook deletes an endpoint of the request's workspace. The key of its secrets is destroyed with the same
// append.
func (a *App) DeleteWebhook(ctx context.Context, req Request, id string) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		endpoint, err := u.loadWebhook(ctx, id)
		if err != nil {
			return err
		}
		endpoint.Record(endpoint.State.Delete()...)
		u.countWebhooks(-1)
		u.Erase(id)
		u.Ref = id
		return nil
	})
}

// DisableWebhook disables an active endpoint of the request's workspace. An endpoint that is not active is left as it
// is.
func (a *App) DisableWebhook(ctx context.Context, req Request, id, reason string) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		endpoint, err := u.loadWebhook(ctx, id)
		if err != nil {
			return err
		}
		endpoint.Record(endpoint.State.Disable(reason)...)
		u.Ref = id
		return nil
	})
}

// FindWebhook reads an endpoint with its secrets, and the version of its stream, from the ledger. A deleted endpoint is
// returned with its status; not_found means that there never was one.
func (a *App) FindWebhook(ctx context.Context, id string) (endpoint webhook.Endpoint, version int, err error) {
	found, err := a.engine.Webhooks.Read(ctx, id, true)
	if err == nil && found.Version == 0 {
		err = engine.NotFound("webhook endpoint")
	}
	return found.State, found.Version, err
}

// RequestedDelivery is a delivery that a request asked for.
type RequestedDelivery struct {
	Result
	DeliveryID uuid.UUID
	EventID    uuid.UUID // of the example event
}

// TestWebhook requests one delivery of an example event to an endpoint of the request's workspace; Ref is the
// delivery's id. Refusals: not_found, rate_limited (rule WHK-16).
func (a *App) TestWebhook(ctx context.Context, req Request, id, eventType string) (RequestedDelivery, error) {
	requested := RequestedDelivery{DeliveryID: a.engine.IDs.UUID(), EventID: a.engine.IDs.UUID()}
	quotaKey := "webhook_tests:" + req.Workspace.String()
	var err error
	requested.Result, err = a.run(ctx, req, func(ctx context.Context, u *unit) error {
		if _, err := u.loadWebhook(ctx, id); err != nil {
			return err
		}
		u.RecordOnStream(events.DeliveryStream(requested.DeliveryID), eventstore.NoStream, &events.WebhookTested{
			EndpointID: id, DeliveryID: requested.DeliveryID, EventID: requested.EventID, Type: eventType,
		})
		u.LimitPerMinute(quotaKey, webhook.TestsPerMinute, "test events")
		u.Ref = requested.DeliveryID.String()
		return nil
	})
	return requested, a.engine.RetryAfter(ctx, quotaKey, err)
}

// ReplayDelivery requests one more attempt of a delivery to an active endpoint of the request's workspace; Ref is the
// delivery's id. The caller has checked that the delivery is finished; replays is the number of its replays at that
// time, and isTest whether it is the delivery of a test. Refusals: not_found, conflict when the delivery was replayed
// since or the endpoint is not active, rate_limited (rule WHK-15).
func (a *App) ReplayDelivery(ctx context.Context, req Request, endpointID string, deliveryID uuid.UUID, isTest bool, replays int) (Result, error) {
	stream := events.DeliveryStream(deliveryID)
	expected := replays // the version of the stream: one event for each replay
	if isTest {
		expected++ // and one for the test
	}
	quotaKey := "webhook_replays:" + req.Workspace.String()
	result, err := a.run(ctx, req, func(ctx context.Context, u *unit) error {
		endpoint, err := u.loadWebhook(ctx, endpointID)
		if err != nil {
			return err
		}
		if endpoint.State.Status != webhook.Active {
			return fault.New(fault.Conflict, "The endpoint is %s. Only deliveries of an active one can be replayed.", endpoint.State.Status)
		}
		if u.Fresh { // the first try was refused, perhaps because another request replayed the delivery
			recorded, err := u.Engine.Ledger.Load(ctx, stream, 0)
			if err != nil {
				return engine.Unreadable(err)
			}
			if len(recorded) != expected {
				return fault.New(fault.Conflict, "The delivery is being replayed already.")
			}
		}
		u.RecordOnStream(stream, expected, &events.WebhookReplayed{EndpointID: endpointID, DeliveryID: deliveryID})
		u.LimitPerMinute(quotaKey, webhook.ReplaysPerMinute, "replays")
		u.Ref = deliveryID.String()
		return nil
	})
	return result, a.engine.RetryAfter(ctx, quotaKey, err)
}

// WebhookRange is finished deliveries of an endpoint that were created from From to To.
type WebhookRange struct {
	EndpointID string
	From, To   time.Time
	Deliveries []uuid.UUID
}

// ReplayWebhookRange requests one more attempt of each delivery of a range to an active endpoint of the request's
// workspace; Ref is the endpoint's id. answer, when not nil, renders the answer so that it commits with the idempotency
// record. Refusals: not_found, conflict when the endpoint is not active, rate_limited (rule WHK-24).
func (a *App) ReplayWebhookRange(ctx context.Context, req Request, in WebhookRange, answer func(Result) ([]byte, error)) (Result, error) {
	quotaKey := "webhook_ranges:" + req.Workspace.String()
	result, err := a.run(ctx, req, func(ctx context.Context, u *unit) error {
		endpoint, err := u.loadWebhook(ctx, in.EndpointID)
		if err != nil {
			return err
		}
		if endpoint.State.Status != webhook.Active {
			return fault.New(fault.Conflict, "The endpoint is %s. Only deliveries of an active one can be replayed.", endpoint.State.Status)
		}
		u.RecordOnStream(events.AttemptStream(a.engine.IDs.UUID()), eventstore.NoStream, &events.WebhookRangeReplayed{
			EndpointID: in.EndpointID, From: in.From, To: in.To, DeliveryIDs: in.Deliveries,
		})
		u.LimitPerMinute(quotaKey, webhook.RangesPerMinute, "replays of a range")
		u.Ref = in.EndpointID
		return renderAnswer(u, Result{Ref: in.EndpointID}, answer)
	})
	return result, a.engine.RetryAfter(ctx, quotaKey, err)
}

// WebhookResult is an event about a delivery: *events.WebhookAttempted or *events.WebhookGivenUp.
type WebhookResult struct {
	Workspace uuid.UUID
	Event     events.Event
}

// RecordWebhookResults records events about deliveries to endpoints of one organisation, in one append. Each event
// begins a stream of its own, so that the append collides with no other.
func (a *App) RecordWebhookResults(ctx context.Context, organisation uuid.UUID, results []WebhookResult) (Result, error) {
	now := a.engine.Ledger.Now()
	toAppend := eventstore.Append{Organisation: organisation, Actor: events.Actor{Type: "system", ID: "webhooks"}, At: now}
	for _, r := range results {
		toAppend.Streams = append(toAppend.Streams, eventstore.StreamEvents{
			Stream: events.AttemptStream(a.engine.IDs.UUID()), Expected: eventstore.NoStream, Workspace: r.Workspace, Events: []events.Event{r.Event},
		})
	}
	appended, err := a.engine.Ledger.Append(ctx, toAppend)
	switch {
	case errors.Is(err, eventstore.ErrUnknownOutcome):
		return Result{}, engine.UnknownOutcome(err)
	case errors.Is(err, eventstore.ErrUnavailable), errors.Is(err, eventstore.ErrRewound), errors.Is(err, eventstore.ErrClosed):
		return Result{}, engine.Unavailable(err)
	case err != nil:
		return Result{}, fmt.Errorf("commands: record webhooks: %w", err)
	}
	return Result{Shard: appended.Shard, Position: appended.Last, At: now}, nil
}
