package commands

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/fault"
	"ledgerline/domain/webhook"
	"ledgerline/events"
	"ledgerline/eventstore"
)

// CreateWebhook is what a webhook endpoint is made of (administration 4.9).
type CreateWebhook struct {
	URL    string
	Events []string
	// Answer, when not nil, renders the answer so that it commits with the receipt: the secret is shown in it and nowhere
	// else.
	Answer func(CreatedWebhook) ([]byte, error)
}

// CreatedWebhook is an endpoint that was made. Event has its secret.
type CreatedWebhook struct {
	Result
	Event events.WebhookCreated
}

// CreateWebhook makes a webhook endpoint of the request's workspace; Ref is its id. The 21st of a workspace and the 51st
// of an organisation are refused with conflict.
func (a *App) CreateWebhook(ctx context.Context, req Request, in CreateWebhook) (CreatedWebhook, error) {
	secret, err := a.webhookSecret()
	if err != nil {
		return CreatedWebhook{}, err
	}
	id := a.engine.IDs.TypeID("whk")
	var made CreatedWebhook
	result, err := a.run(ctx, req, func(ctx context.Context, u *unit) error {
		if _, err := u.Workspace(ctx, req.Workspace); err != nil {
			return err
		}
		list, err := webhook.Create(id, in.URL, secret, in.Events, a.plainWebhooks)
		if err != nil {
			return err
		}
		g := engine.Begin(u.Unit, a.engine.Webhooks, id)
		g.Record(list...)
		u.webhookPlaces(1)
		e, ok := list[0].(*events.WebhookCreated)
		if !ok {
			return errors.New("commands: an endpoint begins with its creation")
		}
		u.Ref, u.Subject = id, id
		made = CreatedWebhook{Result: Result{Ref: id, Shard: a.engine.Ledger.ShardOf(req.Organisation), At: u.Now}, Event: *e}
		return answerWith(u, in.Answer, made)
	})
	if err != nil {
		return CreatedWebhook{}, err
	}
	made.Result = result
	return made, nil
}

// answerWith renders an answer that commits with the receipt; nil renders none.
func answerWith[T any](u *unit, render func(T) ([]byte, error), what T) (err error) {
	if render == nil {
		return nil
	}
	if u.Body, err = render(what); err != nil {
		return fmt.Errorf("commands: render answer: %w", err)
	}
	return nil
}

func (a *App) webhookSecret() (string, error) {
	var random [32]byte
	if _, err := io.ReadFull(a.engine.Random, random[:]); err != nil {
		return "", fmt.Errorf("commands: randomness: %w", err)
	}
	return webhook.NewSecret(random), nil
}

// webhookPlaces takes places among the endpoints of the workspace and the organisation, or with -1 gives one back.
func (u *unit) webhookPlaces(n int64) {
	u.Quota(engine.CountQuota("webhooks:"+u.Request.Workspace.String(), n, webhook.MaxPerWorkspace),
		fault.New(fault.Conflict, "A workspace has at most %d webhook endpoints.", webhook.MaxPerWorkspace))
	u.Quota(engine.CountQuota("webhooks:"+u.Request.Organisation.String(), n, webhook.MaxPerOrganisation),
		fault.New(fault.Conflict, "An organisation has at most %d webhook endpoints.", webhook.MaxPerOrganisation))
}

// webhook loads an endpoint of the request's workspace.
func (u *unit) webhook(ctx context.Context, id string) (*engine.Aggregate[webhook.Endpoint], error) {
	g, err := engine.Load(ctx, u.Unit, u.Engine.Webhooks, id)
	if err == nil && (!g.State.Exists() || g.State.Workspace != u.Request.Workspace) {
		err = engine.NotFound("webhook endpoint")
	}
	return g, err
}

// UpdateWebhook changes an endpoint of the request's workspace. See webhook.Endpoint.Update for what is refused.
func (a *App) UpdateWebhook(ctx context.Context, req Request, id string, change webhook.Change) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		g, err := u.webhook(ctx, id)
		if err != nil {
			return err
		}
		list, err := g.State.Update(change, u.Now, a.plainWebhooks)
		if err != nil {
			return err
		}
		g.Record(list...)
		u.Ref = id
		return nil
	})
}

// RotatedWebhook is an endpoint with its new secret.
type RotatedWebhook struct {
	Result
	Secret string
}

// RotateWebhook gives an endpoint of the request's workspace a new secret. The answer has to be built by the caller: the
// secret is not kept with the receipt unless answer renders it there.
func (a *App) RotateWebhook(ctx context.Context, req Request, id string, answer func(RotatedWebhook) ([]byte, error)) (RotatedWebhook, error) {
	secret, err := a.webhookSecret()
	if err != nil {
		return RotatedWebhook{}, err
	}
	result, err := a.run(ctx, req, func(ctx context.Context, u *unit) error {
		g, err := u.webhook(ctx, id)
		if err != nil {
			return err
		}
		g.Record(g.State.Rotate(secret, u.Now)...)
		u.Ref, u.Subject = id, id
		return answerWith(u, answer, RotatedWebhook{Result{Ref: id, Shard: a.engine.Ledger.ShardOf(req.Organisation), At: u.Now}, secret})
	})
	return RotatedWebhook{result, secret}, err
}

// DeleteWebhook removes an endpoint of the request's workspace; its key is destroyed with the same append.
func (a *App) DeleteWebhook(ctx context.Context, req Request, id string) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		g, err := u.webhook(ctx, id)
		if err != nil {
			return err
		}
		g.Record(g.State.Delete()...)
		u.webhookPlaces(-1)
		u.Erase(id)
		u.Ref = id
		return nil
	})
}

// DisableWebhook takes an active endpoint out of service; another one is left as it is.
func (a *App) DisableWebhook(ctx context.Context, req Request, id, reason string) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		g, err := u.webhook(ctx, id)
		if err != nil {
			return err
		}
		g.Record(g.State.Disable(reason)...)
		u.Ref = id
		return nil
	})
}

// FindWebhook reads an endpoint with its secrets, and the version of its stream, from the ledger. One that was deleted is
// found as such; not_found is one that never was.
func (a *App) FindWebhook(ctx context.Context, id string) (webhook.Endpoint, int, error) {
	found, err := a.engine.Webhooks.Read(ctx, id, true)
	if err == nil && found.Version == 0 {
		err = engine.NotFound("webhook endpoint")
	}
	return found.State, found.Version, err
}

// RequestedDelivery is a delivery that was asked for by hand.
type RequestedDelivery struct {
	Result
	DeliveryID uuid.UUID
	EventID    uuid.UUID // only of a test
}

// TestWebhook asks for one delivery of an example to an endpoint of the request's workspace; Ref is the delivery's id.
// More than ten a minute in a workspace are refused with rate_limited.
func (a *App) TestWebhook(ctx context.Context, req Request, id, kind string) (RequestedDelivery, error) {
	asked := RequestedDelivery{DeliveryID: a.engine.IDs.UUID(), EventID: a.engine.IDs.UUID()}
	counter := "webhook_tests:" + req.Workspace.String()
	var err error
	asked.Result, err = a.run(ctx, req, func(ctx context.Context, u *unit) error {
		if _, err := u.webhook(ctx, id); err != nil {
			return err
		}
		u.RecordUnfolded(events.DeliveryStream(asked.DeliveryID), eventstore.NoStream, &events.WebhookTested{
			EndpointID: id, DeliveryID: asked.DeliveryID, EventID: asked.EventID, Type: kind,
		})
		u.LimitPerMinute(counter, webhook.TestsPerMinute, "test events")
		u.Ref = asked.DeliveryID.String()
		return nil
	})
	return asked, a.engine.RetryAfter(ctx, counter, err)
}

// ReplayDelivery asks for one more attempt of a delivery to an active endpoint of the request's workspace; Ref is its id.
// That the delivery is finished is for the caller to have seen, and replays is how often it had been replayed then: when
// that has changed since, it is refused with conflict. More than thirty a minute in a workspace are refused with
// rate_limited.
func (a *App) ReplayDelivery(ctx context.Context, req Request, endpointID string, deliveryID uuid.UUID, test bool, replays int) (Result, error) {
	stream := events.DeliveryStream(deliveryID)
	expected := replays
	if test {
		expected++ // its stream began with the test
	}
	counter := "webhook_replays:" + req.Workspace.String()
	result, err := a.run(ctx, req, func(ctx context.Context, u *unit) error {
		g, err := u.webhook(ctx, endpointID)
		if err != nil {
			return err
		}
		if g.State.Status != webhook.Active {
			return fault.New(fault.Conflict, "The endpoint is %s. Only deliveries of an active one can be replayed.", g.State.Status)
		}
		if u.Fresh { // the first try was refused: somebody may have replayed it
			known, err := u.Engine.Ledger.Load(ctx, stream, 0)
			if err != nil {
				return engine.Unreadable(err)
			}
			if len(known) != expected {
				return fault.New(fault.Conflict, "The delivery is being replayed already.")
			}
		}
		u.RecordUnfolded(stream, expected, &events.WebhookReplayed{EndpointID: endpointID, DeliveryID: deliveryID})
		u.LimitPerMinute(counter, webhook.ReplaysPerMinute, "replays")
		u.Ref = deliveryID.String()
		return nil
	})
	return result, a.engine.RetryAfter(ctx, counter, err)
}

// WebhookResult is what became of deliveries to one endpoint: a WebhookAttempted or a WebhookGivenUp.
type WebhookResult struct {
	Workspace uuid.UUID
	Event     events.Event
}

// RecordWebhookResults tells what became of deliveries to endpoints of one organisation, in one append. There is nothing to
// decide: it has happened. Each event begins a stream of its own, so that nobody waits for anybody.
func (a *App) RecordWebhookResults(ctx context.Context, organisation uuid.UUID, list []WebhookResult) (Result, error) {
	now := a.engine.Ledger.Now()
	appended := eventstore.Append{Organisation: organisation, Actor: events.Actor{Type: "system", ID: "webhooks"}, At: now}
	for _, o := range list {
		appended.Streams = append(appended.Streams, eventstore.StreamEvents{
			Stream: events.AttemptStream(a.engine.IDs.UUID()), Expected: eventstore.NoStream, Workspace: o.Workspace, Events: []events.Event{o.Event},
		})
	}
	result, err := a.engine.Ledger.Append(ctx, appended)
	switch {
	case errors.Is(err, eventstore.ErrUnavailable), errors.Is(err, eventstore.ErrClosed):
		return Result{}, engine.Unavailable(err)
	case err != nil:
		return Result{}, fmt.Errorf("commands: record webhooks: %w", err)
	}
	return Result{Shard: result.Shard, Position: result.Last, At: now}, nil
}
