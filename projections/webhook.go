package projections

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/projections/readmodel"
)

var webhooksTable = &readmodel.Table{Name: "webhooks", Key: []string{"id"}, Columns: []readmodel.Column{
	{Name: "id", Type: `text collate "C" not null`},
	{Name: "workspace_id", Type: "uuid not null"},
	{Name: "url", Type: "text not null"},
	{Name: "events", Type: "text[] not null"},
	{Name: "status", Type: "text not null"},
	{Name: "disabled_at", Type: "timestamptz"},
	{Name: "disabled_reason", Type: "text"},
	{Name: "created_at", Type: "timestamptz not null"},
	{Name: "updated_at", Type: "timestamptz not null", Merge: readmodel.Latest},
}}

// Webhooks has the present state of the webhook endpoints, without their secrets, which are shown only once.
var Webhooks = &readmodel.Projection{
	ID: "webhooks", Program: 1,
	Tables:  []*readmodel.Table{webhooksTable},
	Indexes: []string{`create index on @webhooks (workspace_id, created_at desc, id desc)`},
	Handlers: feed.NewHandlers(
		feed.On(func(c *readmodel.Changes, e *events.WebhookCreated, r *eventstore.Recorded) {
			c.Insert(webhooksTable, readmodel.Row{
				"id": e.EndpointID, "workspace_id": r.WorkspaceID, "url": e.Private.URL, "events": e.Events, "status": "active",
				"created_at": readmodel.Stamp(r.OccurredAt), "updated_at": readmodel.Stamp(r.OccurredAt),
			})
		}),
		feed.On(func(c *readmodel.Changes, e *events.WebhookUpdated, r *eventstore.Recorded) {
			row := readmodel.Row{}
			if e.URLChanged {
				row["url"] = e.Private.URL
			}
			if len(e.Events) > 0 {
				row["events"] = e.Events
			}
			updateWebhook(c, r, e.EndpointID, row)
		}),
		feed.On(func(c *readmodel.Changes, e *events.WebhookPaused, r *eventstore.Recorded) {
			updateWebhook(c, r, e.EndpointID, readmodel.Row{"status": "paused"})
		}),
		feed.On(func(c *readmodel.Changes, e *events.WebhookResumed, r *eventstore.Recorded) {
			updateWebhook(c, r, e.EndpointID, readmodel.Row{"status": "active"})
		}),
		feed.On(func(c *readmodel.Changes, e *events.WebhookDisabled, r *eventstore.Recorded) {
			updateWebhook(c, r, e.EndpointID, readmodel.Row{
				"status": "disabled", "disabled_at": readmodel.Stamp(r.OccurredAt), "disabled_reason": e.Reason,
			})
		}),
		feed.On(func(c *readmodel.Changes, e *events.WebhookEnabled, r *eventstore.Recorded) {
			updateWebhook(c, r, e.EndpointID, readmodel.Row{"status": "active", "disabled_at": nil, "disabled_reason": nil})
		}),
		feed.On(func(c *readmodel.Changes, e *events.WebhookSecretRotated, r *eventstore.Recorded) {
			updateWebhook(c, r, e.EndpointID, readmodel.Row{})
		}),
		feed.On(func(c *readmodel.Changes, e *events.WebhookDeleted, _ *eventstore.Recorded) {
			c.Delete(webhooksTable, readmodel.Row{"id": e.EndpointID})
		}),
	),
}

func updateWebhook(c *readmodel.Changes, r *eventstore.Recorded, id string, row readmodel.Row) {
	row["id"], row["updated_at"] = id, readmodel.Stamp(r.OccurredAt)
	c.Update(webhooksTable, row)
}

// Webhook is a webhook endpoint as the API shows it.
type Webhook struct {
	ID             string   `json:"id" doc:"whk_ id"`
	URL            string   `json:"url"`
	Events         []string `json:"events" nullable:"false" enum:"message.received,message.status,contact.created,contact.opted_out,contact.opted_in,conversation.assigned,line.state_changed,line.degraded,line.recovered,workflow.run.completed,agent.handoff,workflow.webhook"`
	Status         string   `json:"status" enum:"active,paused,disabled"`
	DisabledAt     *string  `json:"disabled_at" format:"date-time"`
	DisabledReason *string  `json:"disabled_reason" doc:"failing: nothing succeeded for 120 hours; gone: the receiver answered 410"`
	FailureRate    float64  `json:"failure_rate_7d" minimum:"0" maximum:"1" doc:"Share of attempts of the last 7 days that failed, by the hour; tests and replays do not count"`
	CreatedAt      string   `json:"created_at" format:"date-time"`
	UpdatedAt      string   `json:"updated_at" format:"date-time"`
}

// WebhookWithSecret is the answer to the creation of an endpoint and to the rotation of its secret.
type WebhookWithSecret struct {
	Webhook
	Secret string `json:"secret" doc:"Signs the deliveries. Shown here once and never again"`
}

// NewWebhook is an endpoint right after its creation.
func NewWebhook(e *events.WebhookCreated, at time.Time) WebhookWithSecret {
	return WebhookWithSecret{Webhook{
		ID: e.EndpointID, URL: e.Private.URL, Events: e.Events, Status: "active", CreatedAt: readmodel.Stamp(at), UpdatedAt: readmodel.Stamp(at),
	}, e.Private.Secret}
}

// Rotated is the endpoint right after its secret was rotated.
func (w Webhook) Rotated(secret string, at time.Time) WebhookWithSecret {
	w.UpdatedAt = readmodel.Stamp(at)
	return WebhookWithSecret{w, secret}
}

// ratePeriod is the period of the failure rate.
const ratePeriod = 7 * 24 * time.Hour

// webhookColumns are the selected columns of an endpoint. %s stands for the parameter with the start of the failure
// rate's period.
const webhookColumns = `w.id, w.url, w.events, w.status, w.disabled_at, w.disabled_reason,
	coalesce((select sum(failed)::float8 / nullif(sum(attempts), 0) from webhook_rates r where r.endpoint_id = w.id and r.hour > %s), 0),
	w.created_at, w.updated_at`

func scanWebhook(row pgx.CollectableRow) (Webhook, error) {
	var w Webhook
	var disabled *time.Time
	var created, updated time.Time
	err := row.Scan(&w.ID, &w.URL, &w.Events, &w.Status, &disabled, &w.DisabledReason, &w.FailureRate, &created, &updated)
	w.DisabledAt, w.CreatedAt, w.UpdatedAt = readmodel.StampOrNull(disabled), readmodel.Stamp(created), readmodel.Stamp(updated)
	return w, err
}

// webhooks returns the start of a query for the endpoints of the viewer's workspace.
func (s *Store) webhooks(v Viewer) (sql string, f *readmodel.Filter) {
	f = &readmodel.Filter{}
	f.Add("w.workspace_id = %s", v.Workspace)
	since := f.Arg(s.Ledger().Now().Add(-ratePeriod))
	return `select ` + strings.Replace(webhookColumns, "%s", since, 1) + ` from read.webhooks w`, f
}

// Webhook finds an endpoint of the workspace; found is false when there is none.
func (s *Store) Webhook(ctx context.Context, v Viewer, id string) (w Webhook, found bool, err error) {
	sql, f := s.webhooks(v)
	f.Add("w.id = %s", id)
	return readmodel.One(ctx, s.Reader, "webhook", scanWebhook, sql+f.Where(), f.Args...)
}

// Webhooks lists the endpoints of the workspace, newest first.
func (s *Store) Webhooks(ctx context.Context, v Viewer, after *readmodel.Cursor, limit int) (readmodel.Page[Webhook], error) {
	sql, f := s.webhooks(v)
	if after != nil {
		f.Add("(w.created_at, w.id) < (%s::timestamptz, "+f.Arg(after.ID)+")", after.At)
	}
	key := func(w *Webhook) readmodel.Cursor { return readmodel.Cursor{At: w.CreatedAt, ID: w.ID} }
	return readmodel.ReadPage(ctx, s.Reader, "webhooks", limit, scanWebhook, key, sql+f.Where()+` order by w.created_at desc, w.id desc limit `+f.Arg(limit+1), f.Args...)
}
