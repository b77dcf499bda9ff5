package projections

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/domain/webhook"
	"ledgerline/events"
	"ledgerline/projections/readmodel"
)

// DeliveriesConsumer names the feed consumer that writes the deliveries, for readers that wait for it. This consumer is
// not a projection: it is the process that also makes the deliveries (package processes/webhooks).
const DeliveriesConsumer = "process_webhooks"

// DeliveryAttempt is one attempt of a delivery.
type DeliveryAttempt struct {
	Number     int     `json:"number" minimum:"1"`
	At         string  `json:"at" format:"date-time"`
	StatusCode *int    `json:"status_code"`
	LatencyMS  *int    `json:"latency_ms" minimum:"0"`
	Error      *string `json:"error"`
}

// Delivery is a delivery as the API shows it, with its attempts: all of them, or the last hundred of a delivery that
// was replayed very often.
type Delivery struct {
	ID            uuid.UUID         `json:"id" format:"uuid"`
	EndpointID    string            `json:"endpoint_id" doc:"whk_ id"`
	EventID       string            `json:"event_id" doc:"evt_ id"`
	EventType     string            `json:"event_type" enum:"message.received,message.status,contact.created,contact.opted_out,contact.opted_in,conversation.assigned,line.state_changed,line.degraded,line.recovered,workflow.run.completed,agent.handoff,workflow.webhook"`
	Status        string            `json:"status" enum:"pending,succeeded,failed"`
	Attempt       int               `json:"attempt" minimum:"0" doc:"Attempts made so far"`
	StatusCode    *int              `json:"status_code" doc:"The receiver's last answer"`
	LatencyMS     *int              `json:"latency_ms" minimum:"0" doc:"Of the last attempt"`
	Error         *string           `json:"error" doc:"Why the last attempt failed, or why there is none: endpoint_disabled, endpoint_paused, erased"`
	CreatedAt     string            `json:"created_at" format:"date-time"`
	DeliveredAt   *string           `json:"delivered_at" format:"date-time"`
	NextAttemptAt *string           `json:"next_attempt_at" format:"date-time"`
	Attempts      []DeliveryAttempt `json:"attempts" nullable:"false" doc:"Every attempt, oldest first"`

	Replays int  `json:"-"` // how often it was replayed
	Test    bool `json:"-"` // it delivers an example event
	Erased  bool `json:"-"` // its body was erased: it cannot be replayed
}

// NewDelivery is a delivery that was requested just now and has no attempt.
func NewDelivery(id, event uuid.UUID, endpointID, eventType string, at time.Time) Delivery {
	due := readmodel.Stamp(at)
	return Delivery{
		ID: id, EndpointID: endpointID, EventID: webhook.FormatEventID(event), EventType: eventType, Status: "pending", CreatedAt: readmodel.Stamp(at), NextAttemptAt: &due,
		Attempts: []DeliveryAttempt{},
	}
}

// Replayed is the delivery after a request to replay it: pending, with its next attempt due at the given time.
func (d Delivery) Replayed(at time.Time) Delivery {
	due := readmodel.Stamp(at)
	d.Status, d.NextAttemptAt, d.Replays = "pending", &due, d.Replays+1
	return d
}

const deliveryColumns = `d.id, d.endpoint_id, d.event_id, d.event_type, d.status, d.attempt, d.status_code, d.latency_ms, d.error, d.attempts,
	d.created_at, d.delivered_at, d.next_attempt_at, d.replays, d.test, not exists (select from webhook_events e where e.id = d.event_id)`

func scanDelivery(row pgx.CollectableRow) (Delivery, error) {
	var d Delivery
	var event uuid.UUID
	var attempts []byte
	var created time.Time
	var delivered, next *time.Time
	if err := row.Scan(&d.ID, &d.EndpointID, &event, &d.EventType, &d.Status, &d.Attempt, &d.StatusCode, &d.LatencyMS, &d.Error, &attempts,
		&created, &delivered, &next, &d.Replays, &d.Test, &d.Erased); err != nil {
		return d, err
	}
	d.EventID, d.CreatedAt, d.DeliveredAt, d.NextAttemptAt = webhook.FormatEventID(event), readmodel.Stamp(created), readmodel.StampOrNull(delivered), readmodel.StampOrNull(next)
	if err := json.Unmarshal(attempts, &d.Attempts); err != nil {
		return d, fmt.Errorf("projections: attempts of a delivery: %w", err)
	}
	return d, nil
}

// Delivery finds a delivery of an endpoint of the workspace; found is false when there is none.
func (s *Store) Delivery(ctx context.Context, v Viewer, id uuid.UUID) (d Delivery, found bool, err error) {
	return readmodel.One(ctx, s.Reader, "delivery", scanDelivery, `select `+deliveryColumns+` from webhook_deliveries d
		join webhook_endpoints w on w.endpoint_id = d.endpoint_id where d.id = $1 and w.workspace_id = $2 and w.status <> 'deleted'`, id, v.Workspace)
}

// DeliveryWithBody is a delivery with what is sent.
type DeliveryWithBody struct {
	Delivery
	Body *string `json:"body" doc:"What is sent and signed, byte for byte; null when it was erased or is too old"`
}

// DeliveryWithBody finds a delivery like Delivery, with its body.
func (s *Store) DeliveryWithBody(ctx context.Context, v Viewer, id uuid.UUID) (d DeliveryWithBody, found bool, err error) {
	if d.Delivery, found, err = s.Delivery(ctx, v, id); err != nil || !found {
		return d, found, err
	}
	body, kept, err := readmodel.One(ctx, s.Reader, "body of a delivery", pgx.RowTo[[]byte],
		`select e.body from webhook_deliveries d join webhook_events e on e.id = d.event_id where d.id = $1`, id)
	if kept {
		text := string(body)
		d.Body = &text
	}
	return d, true, err
}

// DeliveryFilter are the filters of an endpoint's deliveries; empty ones do not filter.
type DeliveryFilter struct{ EndpointID, Status, EventType string }

// Deliveries lists the deliveries of an endpoint, newest first. The caller checks that the endpoint belongs to the
// viewer.
func (s *Store) Deliveries(ctx context.Context, by DeliveryFilter, after *readmodel.Cursor, limit int) (readmodel.Page[Delivery], error) {
	f := &readmodel.Filter{}
	f.Add("d.endpoint_id = %s", by.EndpointID)
	f.Equal("d.event_type", by.EventType)
	switch by.Status { // literal, so that the partial indexes apply
	case "pending":
		f.Conditions = append(f.Conditions, "d.status = 'pending'")
	case "failed":
		f.Conditions = append(f.Conditions, "d.status = 'failed'")
	case "succeeded":
		f.Conditions = append(f.Conditions, "d.status = 'succeeded'")
	}
	if after != nil {
		f.Add("d.id < %s::text::uuid", after.ID)
	}
	key := func(d *Delivery) readmodel.Cursor { return readmodel.Cursor{ID: d.ID.String()} }
	return readmodel.ReadPage(ctx, s.Reader, "deliveries", limit, scanDelivery, key, `select `+deliveryColumns+` from webhook_deliveries d`+f.Where()+
		` order by d.id desc limit `+f.Arg(limit+1), f.Args...)
}

// AttemptOf is an attempt as the API shows it.
func AttemptOf(e *events.WebhookAttempt) DeliveryAttempt {
	a := DeliveryAttempt{Number: e.Number, At: readmodel.Stamp(e.At), Error: readmodel.EmptyToNull(e.Error)}
	if e.StatusCode != 0 {
		a.StatusCode = &e.StatusCode
	}
	if e.Error != webhook.ErrorInterrupted {
		a.LatencyMS = &e.LatencyMS
	}
	return a
}

// ReplayFilter selects finished deliveries of an endpoint. From is inclusive, To exclusive.
type ReplayFilter struct {
	EndpointID string
	EventType  string // "" for all types
	Status     string // failed, succeeded or all
	From, To   time.Time
	After      uuid.UUID // only deliveries after this one; uuid.Nil for all
}

// ReplayableDeliveries lists the ids of finished deliveries that a replay of a range repeats, in the order of their
// ids, which is nearly that of their creation; at most limit. Tests, and deliveries whose body was erased, are not
// among them. The caller checks that the endpoint belongs to the viewer.
func (s *Store) ReplayableDeliveries(ctx context.Context, by ReplayFilter, limit int) ([]uuid.UUID, error) {
	f := &readmodel.Filter{}
	f.Add("d.endpoint_id = %s", by.EndpointID)
	f.Add("d.created_at >= %s", by.From)
	f.Add("d.created_at < %s", by.To)
	f.Add("d.id > %s", by.After)
	f.Equal("d.event_type", by.EventType)
	switch by.Status { // literal, so that the partial index applies
	case "failed":
		f.Require("d.status = 'failed'")
	case "succeeded":
		f.Require("d.status = 'succeeded'")
	default:
		f.Require("d.status <> 'pending'")
	}
	f.Require("not d.test and exists (select from webhook_events e where e.id = d.event_id)")
	return readmodel.List(ctx, s.Reader, "deliveries to replay", pgx.RowTo[uuid.UUID],
		`select d.id from webhook_deliveries d`+f.Where()+` order by d.id limit `+f.Arg(limit), f.Args...)
}
