package projections

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"ledgerline/events"
	"ledgerline/eventstore"
)

var webhooksTable = &Table{Name: "webhooks", Key: []string{"id"}, Columns: []Column{
	{Name: "id", Type: `text collate "C" not null`},
	{Name: "workspace_id", Type: "uuid not null"},
	{Name: "url", Type: "text not null"},
	{Name: "events", Type: "text[] not null"},
	{Name: "status", Type: "text not null"},
	{Name: "disabled_at", Type: "timestamptz"},
	{Name: "disabled_reason", Type: "text"},
	{Name: "created_at", Type: "timestamptz not null"},
	{Name: "updated_at", Type: "timestamptz not null", Merge: Latest},
}}

// Webhooks are the webhook endpoints as they are now. Secrets are not in it: nobody is shown one again.
var Webhooks = &Projection{
	ID: "webhooks", Program: 1,
	Tables:  []*Table{webhooksTable},
	Indexes: []string{`create index on @webhooks (workspace_id, created_at desc, id desc)`},
	Wants: events.NamesOf((*events.WebhookCreated)(nil), (*events.WebhookUpdated)(nil), (*events.WebhookPaused)(nil), (*events.WebhookResumed)(nil),
		(*events.WebhookDisabled)(nil), (*events.WebhookEnabled)(nil), (*events.WebhookSecretRotated)(nil), (*events.WebhookDeleted)(nil)),
	Project: projectWebhook,
}

func projectWebhook(r *eventstore.Recorded, c *Changes) {
	at := stamp(r.OccurredAt)
	set := func(id string, columns Row) {
		columns["id"], columns["updated_at"] = id, at
		c.Update(webhooksTable, columns)
	}
	switch e := r.Event.(type) {
	case *events.WebhookCreated:
		c.Insert(webhooksTable, Row{
			"id": e.EndpointID, "workspace_id": r.WorkspaceID, "url": e.Private.URL, "events": e.Events, "status": "active",
			"created_at": at, "updated_at": at,
		})
	case *events.WebhookUpdated:
		row := Row{}
		if e.Moved {
			row["url"] = e.Private.URL
		}
		if len(e.Events) > 0 {
			row["events"] = e.Events
		}
		set(e.EndpointID, row)
	case *events.WebhookPaused:
		set(e.EndpointID, Row{"status": "paused"})
	case *events.WebhookResumed:
		set(e.EndpointID, Row{"status": "active"})
	case *events.WebhookDisabled:
		set(e.EndpointID, Row{"status": "disabled", "disabled_at": at, "disabled_reason": e.Reason})
	case *events.WebhookEnabled:
		set(e.EndpointID, Row{"status": "active", "disabled_at": nil, "disabled_reason": nil})
	case *events.WebhookSecretRotated:
		set(e.EndpointID, Row{})
	case *events.WebhookDeleted:
		c.Delete(webhooksTable, Row{"id": e.EndpointID})
	}
}

// Webhook is a webhook endpoint as the API shows it (administration 2.10).
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

// WebhookWithSecret is what creation and rotation answer.
type WebhookWithSecret struct {
	Webhook
	Secret string `json:"secret" doc:"Signs the deliveries. Shown here once and never again"`
}

// NewWebhook is an endpoint as its first event tells of it.
func NewWebhook(e *events.WebhookCreated, at time.Time) WebhookWithSecret {
	return WebhookWithSecret{Webhook{
		ID: e.EndpointID, URL: e.Private.URL, Events: e.Events, Status: "active", CreatedAt: stamp(at), UpdatedAt: stamp(at),
	}, e.Private.Secret}
}

// Rotated is the endpoint with a new secret.
func (w Webhook) Rotated(secret string, at time.Time) WebhookWithSecret {
	w.UpdatedAt = stamp(at)
	return WebhookWithSecret{w, secret}
}

// rateOver is what the failure rate looks back on.
const rateOver = 7 * 24 * time.Hour

// The rate's place takes the start of the time that it looks back on.
const webhookColumns = `w.id, w.url, w.events, w.status, w.disabled_at, w.disabled_reason,
	coalesce((select sum(failed)::float8 / nullif(sum(attempts), 0) from webhook_rates r where r.endpoint_id = w.id and r.hour > %s), 0),
	w.created_at, w.updated_at`

func scanWebhook(row pgx.CollectableRow) (Webhook, error) {
	var w Webhook
	var disabled *time.Time
	var created, updated time.Time
	err := row.Scan(&w.ID, &w.URL, &w.Events, &w.Status, &disabled, &w.DisabledReason, &w.FailureRate, &created, &updated)
	w.DisabledAt, w.CreatedAt, w.UpdatedAt = stampOrNull(disabled), stamp(created), stamp(updated)
	return w, err
}

// webhooks begins a query of the viewer's endpoints.
func (s *Store) webhooks(v Viewer) (sql string, f *filter) {
	f = &filter{}
	f.add("w.workspace_id = %s", v.Workspace)
	since := f.arg(s.ledger.Now().Add(-rateOver))
	return `select ` + strings.Replace(webhookColumns, "%s", since, 1) + ` from read.webhooks w`, f
}

// Webhook finds an endpoint of the workspace; found is false when there is none.
func (s *Store) Webhook(ctx context.Context, v Viewer, id string) (w Webhook, found bool, err error) {
	sql, f := s.webhooks(v)
	f.add("w.id = %s", id)
	return single(ctx, s, "webhook", scanWebhook, sql+f.where(), f.args...)
}

// Webhooks lists the endpoints of the workspace, newest first.
func (s *Store) Webhooks(ctx context.Context, v Viewer, after *Cursor, limit int) (Page[Webhook], error) {
	sql, f := s.webhooks(v)
	if after != nil {
		f.add("(w.created_at, w.id) < (%s::timestamptz, "+f.arg(after.ID)+")", after.At)
	}
	found, err := list(ctx, s, "webhooks", scanWebhook, sql+f.where()+` order by w.created_at desc, w.id desc limit `+f.arg(limit+1), f.args...)
	if err != nil {
		return Page[Webhook]{}, err
	}
	return page(found, limit, func(w *Webhook) Cursor { return Cursor{w.CreatedAt, w.ID} }), nil
}
