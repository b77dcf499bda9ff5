package processes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/domain/webhook"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/processes/tasks"
	"ledgerline/projections"
)

// Types implements feed.Consumer.
func (w *Webhooks) Types() []string {
	return append(events.NamesOf(
		(*events.WebhookCreated)(nil), (*events.WebhookUpdated)(nil), (*events.WebhookPaused)(nil), (*events.WebhookResumed)(nil),
		(*events.WebhookDisabled)(nil), (*events.WebhookEnabled)(nil), (*events.WebhookSecretRotated)(nil), (*events.WebhookDeleted)(nil),
		(*events.WebhookTested)(nil), (*events.WebhookReplayed)(nil), (*events.WebhookAttempted)(nil), (*events.WebhookGivenUp)(nil),
		(*events.ContactDeleted)(nil)), projections.ToldEvents()...)
}

// subscriber is an endpoint at the consumer's place in the ledger.
type subscriber struct {
	ID           string
	Organisation uuid.UUID
	Workspace    uuid.UUID
	Shard        int
	Version      int
	Status       webhook.Status
	ChangedAt    time.Time
	Events       []string
	Window       webhook.FailureWindow
	Gone         bool

	changed bool
}

const subscriberColumns = `endpoint_id, organisation_id, workspace_id, shard, version, status, changed_at, events, failing_since,
	failed_attempts, failed_events, failed_first, gone`

func scanSubscriber(row pgx.CollectableRow) (*subscriber, error) {
	var s subscriber
	var since *time.Time
	var first *uuid.UUID
	err := row.Scan(&s.ID, &s.Organisation, &s.Workspace, &s.Shard, &s.Version, &s.Status, &s.ChangedAt, &s.Events, &since,
		&s.Window.Attempts, &s.Window.Events, &first, &s.Gone)
	if since != nil && first != nil {
		s.Window.Since, s.Window.FirstEvent = *since, *first
	}
	return &s, err
}

const subscribersSQL = `select ` + subscriberColumns + ` from webhook_endpoints where workspace_id = any($1)`

// subscribers reads the endpoints of the workspaces that a batch is about.
func (w *Webhooks) subscribers(ctx context.Context, recorded []eventstore.Recorded) (map[string]*subscriber, error) {
	var workspaces []uuid.UUID
	for i := range recorded {
		if id := recorded[i].WorkspaceID; !slices.Contains(workspaces, id) {
			workspaces = append(workspaces, id)
		}
	}
	rows, err := w.ledger.Pool().Query(ctx, subscribersSQL, workspaces)
	if err != nil {
		return nil, fmt.Errorf("processes: subscribers: %w", err)
	}
	found, err := pgx.CollectRows(rows, scanSubscriber)
	if err != nil {
		return nil, fmt.Errorf("processes: subscribers: %w", err)
	}
	all := map[string]*subscriber{}
	for _, s := range found {
		all[s.ID] = s
	}
	return all, nil
}

// WriteContext implements feed.ReadingConsumer. A batch's endpoints are read as of the checkpoint: if another worker moves that
// meanwhile, nothing of this commits.
func (w *Webhooks) WriteContext(ctx context.Context, b *pgx.Batch, _ int, recorded []eventstore.Recorded) error {
	if len(recorded) == 0 {
		return nil
	}
	subscribers, err := w.subscribers(ctx, recorded)
	if err != nil {
		return err
	}
	d := deliveryChanges{subscribers: subscribers, rates: map[rateKey]*rate{}}
	var wanted []*eventstore.Recorded
	to := map[toldAs][]*subscriber{}
	for i := range recorded {
		r := &recorded[i]
		if err := d.take(r); err != nil {
			return err
		}
		for _, kind := range projections.ToldAs(r.Type) {
			for _, s := range subscribers {
				if s.Workspace == r.WorkspaceID && s.Status != webhook.Deleted && slices.Contains(s.Events, kind) {
					as := *s // with the status that it has here
					to[toldAs{r.Position, kind}] = append(to[toldAs{r.Position, kind}], &as)
				}
			}
		}
		if len(to) > 0 && slices.ContainsFunc(projections.ToldAs(r.Type), func(kind string) bool { return to[toldAs{r.Position, kind}] != nil }) {
			wanted = append(wanted, r)
		}
	}
	tellings, err := w.store.Tell(ctx, wanted)
	if err != nil {
		return err
	}
	for i := range tellings {
		t := &tellings[i]
		endpoints := to[toldAs{t.Event.Position, t.Type}]
		if len(endpoints) == 0 {
			continue
		}
		d.bodies = append(d.bodies, body{t.ID, t.Subject, t.Body, t.Event.OccurredAt})
		for _, s := range endpoints {
			d.deliver(s, delivery{webhook.DeliveryID(t.ID, s.ID), s.ID, t.ID, t.Type, false, t.Event.OccurredAt}, t.Event)
		}
	}
	return d.queue(b, w.wakeups)
}

// toldAs names an event of a shard and one of the types as which it is told.
type toldAs struct {
	position int64
	kind     string
}

// deliveryChanges is the net effect of a batch of events.
type deliveryChanges struct {
	subscribers map[string]*subscriber
	bodies      []body
	made        [2][]delivery // that wait, and that fail at once
	replayed    []replayed
	rounds      [][]events.WebhookAttempt // a delivery is in each at most once
	seen        map[uuid.UUID]int
	settled     []began
	givenUp     map[string][]uuid.UUID // by reason
	rates       map[rateKey]*rate
	erased      []string
	asks        []tasks.Task
}

type body struct {
	id      uuid.UUID
	subject string
	text    []byte
	at      time.Time
}

type delivery struct {
	id       uuid.UUID
	endpoint string
	event    uuid.UUID
	kind     string
	test     bool
	at       time.Time
}

type replayed struct {
	id uuid.UUID
	at time.Time
}

type began struct {
	endpoint string
	delivery uuid.UUID
}

type rateKey struct {
	endpoint string
	hour     time.Time
}

type rate struct{ attempts, failed int }

// take follows what concerns endpoints and their deliveries.
func (d *deliveryChanges) take(r *eventstore.Recorded) error {
	switch e := r.Event.(type) {
	case *events.WebhookCreated:
		d.subscribers[e.EndpointID] = &subscriber{
			ID: e.EndpointID, Organisation: r.OrganisationID, Workspace: r.WorkspaceID, Shard: r.Shard, Version: r.Version, Status: webhook.Active,
			ChangedAt: r.OccurredAt, Events: e.Events, changed: true,
		}
	case *events.WebhookUpdated:
		if s := d.move(r, e.EndpointID, ""); s != nil && len(e.Events) > 0 {
			s.Events = e.Events
		}
	case *events.WebhookSecretRotated:
		d.move(r, e.EndpointID, "")
	case *events.WebhookPaused:
		d.move(r, e.EndpointID, webhook.Paused)
	case *events.WebhookResumed:
		d.move(r, e.EndpointID, webhook.Active)
	case *events.WebhookDisabled:
		d.move(r, e.EndpointID, webhook.Disabled)
	case *events.WebhookEnabled:
		if s := d.move(r, e.EndpointID, webhook.Active); s != nil {
			s.Window, s.Gone = webhook.FailureWindow{}, false
		}
	case *events.WebhookDeleted:
		d.move(r, e.EndpointID, webhook.Deleted)
	case *events.WebhookTested:
		return d.test(r, e)
	case *events.WebhookReplayed:
		if s := d.subscribers[e.EndpointID]; s != nil {
			d.replayed = append(d.replayed, replayed{e.DeliveryID, r.OccurredAt})
			d.ask(s, r.OccurredAt, r)
		}
	case *events.WebhookAttempted:
		d.attempted(r, e)
	case *events.WebhookGivenUp:
		if d.givenUp == nil {
			d.givenUp = map[string][]uuid.UUID{}
		}
		d.givenUp[e.Reason] = append(d.givenUp[e.Reason], e.DeliveryIDs...)
	case *events.ContactDeleted:
		d.erased = append(d.erased, e.ContactID)
	}
	return nil
}

// move notes an endpoint's version and, unless it is "", its new status, which gives its worker something to do.
func (d *deliveryChanges) move(r *eventstore.Recorded, id string, to webhook.Status) *subscriber {
	s := d.subscribers[id]
	if s == nil {
		return nil
	}
	s.Version, s.changed = r.Version, true
	if to != "" {
		s.Status, s.ChangedAt = to, r.OccurredAt
		d.ask(s, r.OccurredAt, r)
	}
	return s
}

func (d *deliveryChanges) ask(s *subscriber, due time.Time, r *eventstore.Recorded) {
	d.asks = append(d.asks, tasks.Task{Process: webhooksProcess, Key: s.ID, Shard: r.Shard, DueAt: due, Position: r.Position})
}

// deliver makes a delivery. A disabled endpoint's fails at once, so that it can be replayed.
func (d *deliveryChanges) deliver(s *subscriber, one delivery, r *eventstore.Recorded) {
	if s.Status == webhook.Disabled {
		d.made[1] = append(d.made[1], one)
		return
	}
	d.made[0] = append(d.made[0], one)
	d.ask(s, r.OccurredAt, r)
}

func (d *deliveryChanges) test(r *eventstore.Recorded, e *events.WebhookTested) error {
	s := d.subscribers[e.EndpointID]
	if s == nil || s.Status == webhook.Deleted {
		return nil
	}
	text, err := projections.Example(e.Type, e.EventID, r.WorkspaceID)
	if err != nil {
		return err
	}
	d.bodies = append(d.bodies, body{e.EventID, "", text, r.OccurredAt})
	d.deliver(s, delivery{e.DeliveryID, s.ID, e.EventID, e.Type, true, r.OccurredAt}, r)
	return nil
}

func (d *deliveryChanges) attempted(r *eventstore.Recorded, e *events.WebhookAttempted) {
	s := d.subscribers[e.EndpointID]
	if d.seen == nil {
		d.seen = map[uuid.UUID]int{}
	}
	for _, a := range e.Attempts {
		round := d.seen[a.DeliveryID]
		d.seen[a.DeliveryID]++
		if round == len(d.rounds) {
			d.rounds = append(d.rounds, nil)
		}
		d.rounds[round] = append(d.rounds[round], a)
		d.settled = append(d.settled, began{e.EndpointID, a.DeliveryID})
		if s == nil || s.Status == webhook.Deleted {
			continue
		}
		if a.Next != nil {
			d.ask(s, *a.Next, r)
		}
		if !a.Uncounted {
			d.count(s, &a, r)
		}
	}
}

// count is what a counted attempt says about its endpoint.
func (d *deliveryChanges) count(s *subscriber, a *events.WebhookAttempt, r *eventstore.Recorded) {
	k := rateKey{s.ID, a.At.Truncate(time.Hour)}
	if d.rates[k] == nil {
		d.rates[k] = &rate{}
	}
	d.rates[k].attempts++
	if a.Error == "" {
		if s.Window.Attempts > 0 {
			s.Window, s.changed = webhook.FailureWindow{}, true
		}
		return
	}
	d.rates[k].failed++
	s.Window, s.changed = s.Window.AfterFailure(a.At, a.EventID), true
	if end, enough := s.Window.DisableAt(); enough {
		d.ask(s, end, r)
	}
	if a.Gone && s.Status == webhook.Active {
		s.Gone = true
		d.ask(s, r.OccurredAt, r)
	}
}

const (
	bodiesSQL = `insert into webhook_events (id, subject, body, created_at)
		select u.id, nullif(u.subject, ''), u.body, u.at from unnest($1::uuid[], $2::text[], $3::bytea[], $4::timestamptz[]) u (id, subject, body, at)
		on conflict do nothing`
	deliveriesSQL = `insert into webhook_deliveries (id, endpoint_id, event_id, event_type, test, status, error, created_at, next_attempt_at)
		select u.id, u.endpoint, u.event, u.kind, u.test, $7, $8, u.at, case when $7 = 'pending' then u.at end
		from unnest($1::uuid[], $2::text[], $3::uuid[], $4::text[], $5::boolean[], $6::timestamptz[]) u (id, endpoint, event, kind, test, at)
		on conflict do nothing`
	replayedSQL = `update webhook_deliveries d set status = 'pending', error = null, replays = d.replays + 1, next_attempt_at = u.at
		from unnest($1::uuid[], $2::timestamptz[]) u (id, at) where d.id = u.id and d.status <> 'pending'`
	// An attempt is taken once, whoever tells of it again. The status stands in a function here and below, so that the rows are
	// looked up by their ids: the index of all that is pending would do as well to the planner, which does not know how much
	// that can be.
	attemptedSQL = `update webhook_deliveries d set attempt = u.number, status = u.status, status_code = u.code, latency_ms = u.latency, error = u.error,
			delivered_at = coalesce(u.delivered, d.delivered_at), next_attempt_at = u.next,
			attempts = case when jsonb_array_length(d.attempts) >= 100 then d.attempts - 0 else d.attempts end || u.entry::jsonb
		from unnest($1::uuid[], $2::int[], $3::text[], $4::int[], $5::int[], $6::text[], $7::timestamptz[], $8::timestamptz[], $9::text[])
			u (id, number, status, code, latency, error, delivered, next, entry)
		where d.id = u.id and coalesce(d.status, '') = 'pending' and d.attempt = u.number - 1`
	settledSQL = `delete from webhook_begun b using unnest($1::text[], $2::uuid[]) u (endpoint, delivery)
		where b.endpoint_id = u.endpoint and b.delivery_id = u.delivery`
	givenUpSQL = `update webhook_deliveries d set status = 'failed', error = $2, next_attempt_at = null
		from unnest($1::uuid[]) u (id) where d.id = u.id and coalesce(d.status, '') = 'pending'`
	ratesSQL = `insert into webhook_rates as w (endpoint_id, hour, attempts, failed)
		select * from unnest($1::text[], $2::timestamptz[], $3::int[], $4::int[])
		on conflict (endpoint_id, hour) do update set attempts = w.attempts + excluded.attempts, failed = w.failed + excluded.failed`
	erasedSQL     = `delete from webhook_events where subject = any($1)`
	subscriberSQL = `insert into webhook_endpoints (` + subscriberColumns + `) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
		on conflict (endpoint_id) do update set version = excluded.version, status = excluded.status, changed_at = excluded.changed_at,
			events = excluded.events, failing_since = excluded.failing_since, failed_attempts = excluded.failed_attempts,
			failed_events = excluded.failed_events, failed_first = excluded.failed_first, gone = excluded.gone`
)

func (d *deliveryChanges) queue(b *pgx.Batch, wakeups *tasks.Wakeups) error {
	d.queueMade(b)
	if len(d.replayed) > 0 {
		var ids []uuid.UUID
		var at []time.Time
		for _, r := range d.replayed {
			ids, at = append(ids, r.id), append(at, r.at)
		}
		b.Queue(replayedSQL, ids, at)
	}
	for _, round := range d.rounds {
		if err := queueAttempts(b, round); err != nil {
			return err
		}
	}
	if len(d.settled) > 0 {
		var endpoints []string
		var ids []uuid.UUID
		for _, s := range d.settled {
			endpoints, ids = append(endpoints, s.endpoint), append(ids, s.delivery)
		}
		b.Queue(settledSQL, endpoints, ids)
	}
	for reason, ids := range d.givenUp {
		b.Queue(givenUpSQL, ids, reason)
	}
	if len(d.erased) > 0 {
		b.Queue(erasedSQL, d.erased)
	}
	for _, s := range d.subscribers {
		if s.changed {
			s.queue(b)
		}
	}
	if len(d.rates) > 0 {
		var endpoints []string
		var hours []time.Time
		var attempts, failed []int32
		for k, r := range d.rates {
			endpoints, hours = append(endpoints, k.endpoint), append(hours, k.hour)
			attempts, failed = append(attempts, int32(r.attempts)), append(failed, int32(r.failed)) //nolint:gosec // of one batch
		}
		b.Queue(ratesSQL, endpoints, hours, attempts, failed)
	}
	wakeups.Schedule(b, d.asks...)
	return nil
}

func (s *subscriber) queue(b *pgx.Batch) {
	var since *time.Time
	var first *uuid.UUID
	if s.Window.Attempts > 0 {
		since, first = &s.Window.Since, &s.Window.FirstEvent
	}
	b.Queue(subscriberSQL, s.ID, s.Organisation, s.Workspace, s.Shard, s.Version, string(s.Status), s.ChangedAt, s.Events, since,
		s.Window.Attempts, s.Window.Events, first, s.Gone)
}

func (d *deliveryChanges) queueMade(b *pgx.Batch) {
	if n := len(d.bodies); n > 0 {
		ids, subjects, texts, at := make([]uuid.UUID, n), make([]string, n), make([][]byte, n), make([]time.Time, n)
		for i, x := range d.bodies {
			ids[i], subjects[i], texts[i], at[i] = x.id, x.subject, x.text, x.at
		}
		b.Queue(bodiesSQL, ids, subjects, texts, at)
	}
	for i, made := range d.made {
		n := len(made)
		if n == 0 {
			continue
		}
		ids, endpoints, evts := make([]uuid.UUID, n), make([]string, n), make([]uuid.UUID, n)
		kinds, tests, at := make([]string, n), make([]bool, n), make([]time.Time, n)
		for j, x := range made {
			ids[j], endpoints[j], evts[j], kinds[j], tests[j], at[j] = x.id, x.endpoint, x.event, x.kind, x.test, x.at
		}
		status, failure := "pending", (*string)(nil)
		if i == 1 {
			disabled := webhook.ErrorDisabled
			status, failure = "failed", &disabled
		}
		b.Queue(deliveriesSQL, ids, endpoints, evts, kinds, tests, at, status, failure)
	}
}

func queueAttempts(b *pgx.Batch, list []events.WebhookAttempt) error {
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
			return fmt.Errorf("processes: attempt: %w", err)
		}
		entries[i] = string(text)
	}
	b.Queue(attemptedSQL, ids, numbers, statuses, codes, latencies, failures, delivered, next, entries)
	return nil
}
