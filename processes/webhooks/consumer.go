package webhooks

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/domain/webhook"
	"ledgerline/eventstore"
	"ledgerline/processes/webhooks/payload"
)

// endpointRow is an endpoint as of the consumer's checkpoint.
type endpointRow struct {
	ID           string
	Organisation uuid.UUID
	Workspace    uuid.UUID
	Shard        int
	Version      int // of its stream
	Status       webhook.Status
	ChangedAt    time.Time // when Status changed
	Events       []string  // the webhook types that it subscribes to
	Window       webhook.FailureWindow
	Gone         bool // the receiver answered 410

	changed bool // the row differs from the stored one and must be written
}

const endpointColumns = `endpoint_id, organisation_id, workspace_id, shard, version, status, changed_at, events, failing_since,
	failed_attempts, failed_events, failed_first, gone`

func scanEndpoint(row pgx.CollectableRow) (*endpointRow, error) {
	var e endpointRow
	var since *time.Time
	var first *uuid.UUID
	err := row.Scan(&e.ID, &e.Organisation, &e.Workspace, &e.Shard, &e.Version, &e.Status, &e.ChangedAt, &e.Events, &since,
		&e.Window.Attempts, &e.Window.Events, &first, &e.Gone)
	if since != nil && first != nil {
		e.Window.Since, e.Window.FirstEvent = *since, *first
	}
	return &e, err
}

const endpointsSQL = `select ` + endpointColumns + ` from webhook_endpoints where workspace_id = any($1)`

// readEndpoints reads the endpoints of the workspaces that events belong to, by id.
func (p *Process) readEndpoints(ctx context.Context, recorded []eventstore.Recorded) (map[string]*endpointRow, error) {
	var workspaces []uuid.UUID
	for i := range recorded {
		if id := recorded[i].WorkspaceID; !slices.Contains(workspaces, id) {
			workspaces = append(workspaces, id)
		}
	}
	rows, err := p.ledger.Pool().Query(ctx, endpointsSQL, workspaces)
	if err != nil {
		return nil, fmt.Errorf("webhooks: read endpoints: %w", err)
	}
	found, err := pgx.CollectRows(rows, scanEndpoint)
	if err != nil {
		return nil, fmt.Errorf("webhooks: read endpoints: %w", err)
	}
	byID := map[string]*endpointRow{}
	for _, e := range found {
		byID[e.ID] = e
	}
	return byID, nil
}

// Types implements feed.Consumer: the events that change endpoints and deliveries, and the events that are sent to
// endpoints.
func (*Process) Types() []string { return append(handlers.Types(), payload.LedgerTypes()...) }

// payloadKey identifies the payload of an event of one shard.
type payloadKey struct {
	position    int64
	webhookType string
}

// WriteContext implements feed.ReadingConsumer. It reads the endpoints as of the checkpoint. If another node moves the
// checkpoint meanwhile, the transaction with these statements does not commit.
func (p *Process) WriteContext(ctx context.Context, b *pgx.Batch, _ int, recorded []eventstore.Recorded) error {
	if len(recorded) == 0 {
		return nil
	}
	endpoints, err := p.readEndpoints(ctx, recorded)
	if err != nil {
		return err
	}
	c := newChanges(endpoints)
	var wanted []*eventstore.Recorded            // events that some endpoint subscribes to
	receivers := map[payloadKey][]*endpointRow{} // the endpoints that get a payload
	for i := range recorded {
		r := &recorded[i]
		handlers.Handle(c, recorded[i:i+1])
		matched := false
		for _, webhookType := range payload.WebhookTypes(r.Type) {
			for _, e := range endpoints {
				if e.Workspace == r.WorkspaceID && e.Status != webhook.Deleted && slices.Contains(e.Events, webhookType) {
					asOfEvent := *e // later events of the batch may change its status
					k := payloadKey{r.Position, webhookType}
					receivers[k] = append(receivers[k], &asOfEvent)
					matched = true
				}
			}
		}
		if matched {
			wanted = append(wanted, r)
		}
	}
	payloads, err := payload.Render(ctx, p.store, wanted)
	if err != nil {
		return err
	}
	for i := range payloads {
		one := &payloads[i]
		to := receivers[payloadKey{one.Event.Position, one.Type}]
		if len(to) == 0 {
			continue
		}
		c.bodies = append(c.bodies, body{one.ID, one.Subject, one.Body, one.Event.OccurredAt})
		for _, e := range to {
			c.addDelivery(e, delivery{webhook.DeliveryID(one.ID, e.ID), e.ID, one.ID, one.Type, false, one.Event.OccurredAt}, one.Event)
		}
	}
	return c.addTo(b, p.wakeups)
}
