package webhooks

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/domain/webhook"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/processes"
	"ledgerline/processes/tasks"
	"ledgerline/processes/webhooks/payload"
	"ledgerline/projections"
)

// changes are the changes that a batch of events makes to the tables of this package, and the tasks that it schedules.
type changes struct {
	endpoints map[string]*endpointRow
	bodies    []body
	pending   []delivery // new ones
	failed    []delivery // new ones of disabled endpoints
	replays   []replay
	ranges    []replay
	rounds    [][]events.WebhookAttempt // a delivery is in each round at most once, as a statement updates a row once
	round     map[uuid.UUID]int         // the next round of a delivery
	ended     []endedAttempt
	givenUp   map[string][]uuid.UUID // deliveries by reason
	rates     map[rateKey]*rate
	erased    []string // contacts
	tasks     []tasks.Task
	err       error // of a handler
}

type body struct {
	id      uuid.UUID
	subject string
	text    []byte
	at      time.Time
}

type delivery struct {
	id          uuid.UUID
	endpoint    string
	event       uuid.UUID
	webhookType string
	test        bool
	at          time.Time
}

type replay struct {
	delivery uuid.UUID
	at       time.Time
}

type endedAttempt struct {
	endpoint string
	delivery uuid.UUID
}

type rateKey struct {
	endpoint string
	hour     time.Time
}

type rate struct{ attempts, failed int }

func newChanges(endpoints map[string]*endpointRow) *changes {
	return &changes{endpoints: endpoints, round: map[uuid.UUID]int{}, givenUp: map[string][]uuid.UUID{}, rates: map[rateKey]*rate{}}
}

var handlers = feed.NewHandlers(
	feed.On(func(c *changes, e *events.WebhookCreated, r *eventstore.Recorded) {
		c.endpoints[e.EndpointID] = &endpointRow{
			ID: e.EndpointID, Organisation: r.OrganisationID, Workspace: r.WorkspaceID, Shard: r.Shard, Version: r.Version, Status: webhook.Active,
			ChangedAt: r.OccurredAt, Events: e.Events, changed: true,
		}
	}),
	feed.On(func(c *changes, e *events.WebhookUpdated, r *eventstore.Recorded) {
		if row := c.setVersion(r, e.EndpointID); row != nil && len(e.Events) > 0 {
			row.Events = e.Events
		}
	}),
	feed.On(func(c *changes, e *events.WebhookSecretRotated, r *eventstore.Recorded) {
		c.setVersion(r, e.EndpointID)
	}),
	feed.On(func(c *changes, e *events.WebhookPaused, r *eventstore.Recorded) {
		c.setStatus(r, e.EndpointID, webhook.Paused)
	}),
	feed.On(func(c *changes, e *events.WebhookResumed, r *eventstore.Recorded) {
		c.setStatus(r, e.EndpointID, webhook.Active)
	}),
	feed.On(func(c *changes, e *events.WebhookDisabled, r *eventstore.Recorded) {
		c.setStatus(r, e.EndpointID, webhook.Disabled)
	}),
	feed.On(func(c *changes, e *events.WebhookEnabled, r *eventstore.Recorded) {
		if row := c.setStatus(r, e.EndpointID, webhook.Active); row != nil {
			row.Window, row.Gone = webhook.FailureWindow{}, false
		}
	}),
	feed.On(func(c *changes, e *events.WebhookDeleted, r *eventstore.Recorded) {
		c.setStatus(r, e.EndpointID, webhook.Deleted)
	}),
	feed.On((*changes).addTest),
	feed.On(func(c *changes, e *events.WebhookReplayed, r *eventstore.Recorded) {
		if row := c.endpoints[e.EndpointID]; row != nil {
			c.replays = append(c.replays, replay{e.DeliveryID, r.OccurredAt})
			c.schedule(row, r.OccurredAt, r)
		}
	}),
	feed.On(func(c *changes, e *events.WebhookRangeReplayed, r *eventstore.Recorded) {
		if row := c.endpoints[e.EndpointID]; row != nil {
			for _, id := range e.DeliveryIDs {
				c.ranges = append(c.ranges, replay{id, r.OccurredAt})
			}
			c.schedule(row, r.OccurredAt, r)
		}
	}),
	feed.On((*changes).addAttempts),
	feed.On(func(c *changes, e *events.WebhookGivenUp, _ *eventstore.Recorded) {
		c.givenUp[e.Reason] = append(c.givenUp[e.Reason], e.DeliveryIDs...)
	}),
	feed.On(func(c *changes, e *events.ContactDeleted, _ *eventstore.Recorded) {
		c.erased = append(c.erased, e.ContactID)
	}),
)

// setVersion sets the version of an endpoint. It returns nil when there is no such endpoint.
func (c *changes) setVersion(r *eventstore.Recorded, id string) *endpointRow {
	row := c.endpoints[id]
	if row != nil {
		row.Version, row.changed = r.Version, true
	}
	return row
}

// setStatus sets the version and the status of an endpoint, and schedules its task. It returns nil when there is no
// such endpoint.
func (c *changes) setStatus(r *eventstore.Recorded, id string, status webhook.Status) *endpointRow {
	row := c.setVersion(r, id)
	if row != nil {
		row.Status, row.ChangedAt = status, r.OccurredAt
		c.schedule(row, r.OccurredAt, r)
	}
	return row
}

func (c *changes) schedule(row *endpointRow, due time.Time, r *eventstore.Recorded) {
	c.tasks = append(c.tasks, processes.TaskOf(processName, row.ID, due, r))
}

// addDelivery adds a new delivery. That of a disabled endpoint has failed, and can be replayed.
func (c *changes) addDelivery(row *endpointRow, one delivery, r *eventstore.Recorded) {
	if row.Status == webhook.Disabled {
		c.failed = append(c.failed, one)
		return
	}
	c.pending = append(c.pending, one)
	c.schedule(row, r.OccurredAt, r)
}

// addTest adds the delivery of an example event.
func (c *changes) addTest(e *events.WebhookTested, r *eventstore.Recorded) {
	row := c.endpoints[e.EndpointID]
	if row == nil || row.Status == webhook.Deleted {
		return
	}
	text, err := payload.Example(e.Type, e.EventID, r.WorkspaceID)
	if err != nil {
		c.err = err
		return
	}
	c.bodies = append(c.bodies, body{e.EventID, "", text, r.OccurredAt})
	c.addDelivery(row, delivery{e.DeliveryID, row.ID, e.EventID, e.Type, true, r.OccurredAt}, r)
}

// addAttempts applies the results of attempts.
func (c *changes) addAttempts(e *events.WebhookAttempted, r *eventstore.Recorded) {
	row := c.endpoints[e.EndpointID]
	for _, a := range e.Attempts {
		round := c.round[a.DeliveryID]
		c.round[a.DeliveryID]++
		if round == len(c.rounds) {
			c.rounds = append(c.rounds, nil)
		}
		c.rounds[round] = append(c.rounds[round], a)
		c.ended = append(c.ended, endedAttempt{e.EndpointID, a.DeliveryID})
		if row == nil || row.Status == webhook.Deleted {
			continue
		}
		if a.Next != nil {
			c.schedule(row, *a.Next, r)
		}
		if !a.Uncounted {
			c.count(row, &a, r)
		}
	}
}

// count counts an attempt for its endpoint: in the failure rate, in the failure window, and as an answer 410.
func (c *changes) count(row *endpointRow, a *events.WebhookAttempt, r *eventstore.Recorded) {
	k := rateKey{row.ID, a.At.Truncate(time.Hour)}
	if c.rates[k] == nil {
		c.rates[k] = &rate{}
	}
	c.rates[k].attempts++
	if a.Error == "" {
		if row.Window.Attempts > 0 {
			row.Window, row.changed = webhook.FailureWindow{}, true
		}
		return
	}
	c.rates[k].failed++
	row.Window, row.changed = row.Window.AfterFailure(a.At, a.EventID), true
	if end, enough := row.Window.DisableAt(); enough {
		c.schedule(row, end, r)
	}
	if a.Gone && row.Status == webhook.Active {
		row.Gone = true
		c.schedule(row, r.OccurredAt, r)
	}
}

const (
	insertBodiesSQL = `insert into webhook_events (id, subject, body, created_at)
		select u.id, nullif(u.subject, ''), u.body, u.at from unnest($1::uuid[], $2::text[], $3::bytea[], $4::timestamptz[]) u (id, subject, body, at)
		on conflict do nothing`
	insertDeliveriesSQL = `insert into webhook_deliveries (id, endpoint_id, event_id, event_type, test, status, error, created_at, next_attempt_at)
		select u.id, u.endpoint, u.event, u.type, u.test, $7, $8, u.at, case when $7 = 'pending' then u.at end
		from unnest($1::uuid[], $2::text[], $3::uuid[], $4::text[], $5::boolean[], $6::timestamptz[]) u (id, endpoint, event, type, test, at)
		on conflict do nothing`
	replaySQL = `update webhook_deliveries d set status = 'pending', error = null, replays = d.replays + 1, next_attempt_at = u.at
		from unnest($1::uuid[], $2::timestamptz[]) u (id, at) where d.id = u.id and d.status <> 'pending'`
	replayRangeSQL = `update webhook_deliveries d set status = 'pending', error = null, range_replays = d.range_replays + 1, next_attempt_at = u.at
		from (select id, max(at) as at from unnest($1::uuid[], $2::timestamptz[]) l (id, at) group by id) u where d.id = u.id and d.status <> 'pending'`
	// An attempt is applied once, however often its result is in the ledger. Here and below the status is inside a
	// function, so that the planner looks the rows up by their ids. It knows no better than to read the index of pending
	// deliveries instead, which can be long.
	applyAttemptsSQL = `update webhook_deliveries d set attempt = u.number, status = u.status, status_code = u.code, latency_ms = u.latency, error = u.error,
			delivered_at = coalesce(u.delivered, d.delivered_at), next_attempt_at = u.next,
			attempts = case when jsonb_array_length(d.attempts) >= 100 then d.attempts - 0 else d.attempts end || u.entry::jsonb
		from unnest($1::uuid[], $2::int[], $3::text[], $4::int[], $5::int[], $6::text[], $7::timestamptz[], $8::timestamptz[], $9::text[])
			u (id, number, status, code, latency, error, delivered, next, entry)
		where d.id = u.id and coalesce(d.status, '') = 'pending' and d.attempt = u.number - 1`
	deleteStartsSQL = `delete from webhook_started_attempts b using unnest($1::text[], $2::uuid[]) u (endpoint, delivery)
		where b.endpoint_id = u.endpoint and b.delivery_id = u.delivery`
	giveUpSQL = `update webhook_deliveries d set status = 'failed', error = $2, next_attempt_at = null
		from unnest($1::uuid[]) u (id) where d.id = u.id and coalesce(d.status, '') = 'pending'`
	addRatesSQL = `insert into webhook_rates as w (endpoint_id, hour, attempts, failed)
		select * from unnest($1::text[], $2::timestamptz[], $3::int[], $4::int[])
		on conflict (endpoint_id, hour) do update set attempts = w.attempts + excluded.attempts, failed = w.failed + excluded.failed`
	deleteBodiesSQL = `delete from webhook_events where subject = any($1)`
	putEndpointSQL  = `insert into webhook_endpoints (` + endpointColumns + `) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
		on conflict (endpoint_id) do update set version = excluded.version, status = excluded.status, changed_at = excluded.changed_at,
			events = excluded.events, failing_since = excluded.failing_since, failed_attempts = excluded.failed_attempts,
			failed_events = excluded.failed_events, failed_first = excluded.failed_first, gone = excluded.gone`
)

// addTo adds the statements that write the changes to a batch.
func (c *changes) addTo(b *pgx.Batch, wakeups *tasks.Wakeups) error {
	if c.err != nil {
		return c.err
	}
	c.addBodiesTo(b)
	addDeliveriesTo(b, c.pending, "pending", nil)
	disabled := webhook.ErrorDisabled
	addDeliveriesTo(b, c.failed, "failed", &disabled)
	addReplaysTo(b, replaySQL, c.replays)
	addReplaysTo(b, replayRangeSQL, c.ranges)
	for _, round := range c.rounds {
		if err := addAttemptsTo(b, round); err != nil {
			return err
		}
	}
	if len(c.ended) > 0 {
		var endpoints []string
		var ids []uuid.UUID
		for _, one := range c.ended {
			endpoints, ids = append(endpoints, one.endpoint), append(ids, one.delivery)
		}
		b.Queue(deleteStartsSQL, endpoints, ids)
	}
	for reason, ids := range c.givenUp {
		b.Queue(giveUpSQL, ids, reason)
	}
	if len(c.erased) > 0 {
		b.Queue(deleteBodiesSQL, c.erased)
	}
	for _, row := range c.endpoints {
		if row.changed {
			row.addTo(b)
		}
	}
	if len(c.rates) > 0 {
		var endpoints []string
		var hours []time.Time
		var attempts, failed []int32
		for k, one := range c.rates {
			endpoints, hours = append(endpoints, k.endpoint), append(hours, k.hour)
			attempts, failed = append(attempts, int32(one.attempts)), append(failed, int32(one.failed)) //nolint:gosec // of one batch
		}
		b.Queue(addRatesSQL, endpoints, hours, attempts, failed)
	}
	wakeups.Schedule(b, c.tasks...)
	return nil
}

func (e *endpointRow) addTo(b *pgx.Batch) {
	var since *time.Time
	var first *uuid.UUID
	if e.Window.Attempts > 0 {
		since, first = &e.Window.Since, &e.Window.FirstEvent
	}
	b.Queue(putEndpointSQL, e.ID, e.Organisation, e.Workspace, e.Shard, e.Version, string(e.Status), e.ChangedAt, e.Events, since,
		e.Window.Attempts, e.Window.Events, first, e.Gone)
}

func (c *changes) addBodiesTo(b *pgx.Batch) {
	n := len(c.bodies)
	if n == 0 {
		return
	}
	ids, subjects, texts, at := make([]uuid.UUID, n), make([]string, n), make([][]byte, n), make([]time.Time, n)
	for i, one := range c.bodies {
		ids[i], subjects[i], texts[i], at[i] = one.id, one.subject, one.text, one.at
	}
	b.Queue(insertBodiesSQL, ids, subjects, texts, at)
}

// addDeliveriesTo adds the insertion of new deliveries with a status and its error.
func addDeliveriesTo(b *pgx.Batch, list []delivery, status string, failure *string) {
	n := len(list)
	if n == 0 {
		return
	}
	ids, endpoints, eventIDs := make([]uuid.UUID, n), make([]string, n), make([]uuid.UUID, n)
	types, tests, at := make([]string, n), make([]bool, n), make([]time.Time, n)
	for i, one := range list {
		ids[i], endpoints[i], eventIDs[i], types[i], tests[i], at[i] = one.id, one.endpoint, one.event, one.webhookType, one.test, one.at
	}
	b.Queue(insertDeliveriesSQL, ids, endpoints, eventIDs, types, tests, at, status, failure)
}

func addReplaysTo(b *pgx.Batch, sql string, list []replay) {
	if len(list) == 0 {
		return
	}
	ids, at := make([]uuid.UUID, len(list)), make([]time.Time, len(list))
	for i, one := range list {
		ids[i], at[i] = one.delivery, one.at
	}
	b.Queue(sql, ids, at)
}

// addAttemptsTo adds the update of deliveries by one attempt each.
func addAttemptsTo(b *pgx.Batch, list []events.WebhookAttempt) error {
	n := len(list)
	ids, numbers, statuses := make([]uuid.UUID, n), make([]int32, n), make([]string, n)
	codes, latencies, failures := make([]*int, n), make([]*int, n), make([]*string, n)
	delivered, next, entries := make([]*time.Time, n), make([]*time.Time, n), make([]string, n)
	for i := range list {
		a := &list[i]
		entry := projections.AttemptOf(a)
		ids[i], numbers[i], next[i] = a.DeliveryID, int32(a.Number), a.Next //nolint:gosec // small
		codes[i], latencies[i], failures[i] = entry.StatusCode, entry.LatencyMS, entry.Error
		switch {
		case a.Error == "":
			statuses[i], delivered[i] = "succeeded", &a.At
		case a.Next != nil:
			statuses[i] = "pending"
		default:
			statuses[i] = "failed"
		}
		text, err := json.Marshal(entry)
		if err != nil {
			return fmt.Errorf("webhooks: attempt: %w", err)
		}
		entries[i] = string(text)
	}
	b.Queue(applyAttemptsSQL, ids, numbers, statuses, codes, latencies, failures, delivered, next, entries)
	return nil
}
