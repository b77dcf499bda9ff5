package projections

import (
	"context"
	"time"

	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/projections/readmodel"
)

// Webhook is a webhook endpoint as the API shows it, and defines the columns of its table: see readmodel.TableOf.
type Webhook struct {
	ID             string   `json:"id" doc:"whk_ id" sql:"text collate \"C\" not null"`
	URL            string   `json:"url" sql:"text not null"`
	Events         []string `json:"events" nullable:"false" enum:"message.received,message.status,contact.created,contact.opted_out,contact.opted_in,conversation.assigned,line.state_changed,line.degraded,line.recovered,workflow.run.completed,agent.handoff,workflow.webhook" sql:"text[] not null"`
	Status         string   `json:"status" enum:"active,paused,disabled" sql:"text not null"`
	DisabledAt     *string  `json:"disabled_at" format:"date-time" sql:"timestamptz"`
	DisabledReason *string  `json:"disabled_reason" doc:"failing: nothing succeeded for 120 hours; gone: the receiver answered 410" sql:"text"`
	FailureRate    float64  `json:"failure_rate_7d" minimum:"0" maximum:"1" doc:"Share of attempts of the last 7 days that failed, by the hour, to four places; tests and replays do not count"`
	CreatedAt      string   `json:"created_at" format:"date-time" sql:"timestamptz not null"`
	UpdatedAt      string   `json:"updated_at" format:"date-time" sql:"timestamptz not null" merge:"latest"`
}

var webhooksTable = readmodel.TableOf[Webhook]("webhooks", []string{"id"}, readmodel.Column{Name: "workspace_id", Type: "uuid not null"})

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

// webhookFields selects endpoint w. $1 is the start of the failure rate's period.
var webhookFields = readmodel.Select[Webhook](webhooksTable, "w", map[string]string{
	"failure_rate_7d": `coalesce((select round(sum(failed)::numeric / nullif(sum(attempts), 0), 4)::float8
		from webhook_rates r where r.endpoint_id = w.id and r.hour > $1), 0)`,
})

// webhooks returns the start of a query for the endpoints of the viewer's workspace.
func (s *Store) webhooks(v Viewer) (sql string, f *readmodel.Filter) {
	f = &readmodel.Filter{Args: []any{s.Ledger().Now().Add(-ratePeriod)}}
	f.Add("w.workspace_id = %s", v.Workspace)
	return `select ` + webhookFields.SQL + ` from read.webhooks w`, f
}

// Webhook finds an endpoint of the workspace; found is false when there is none.
func (s *Store) Webhook(ctx context.Context, v Viewer, id string) (w Webhook, found bool, err error) {
	sql, f := s.webhooks(v)
	f.Add("w.id = %s", id)
	return readmodel.One(ctx, s.Reader, "webhook", webhookFields.Scan, sql+f.Where(), f.Args...)
}

// Webhooks lists the endpoints of the workspace, newest first.
func (s *Store) Webhooks(ctx context.Context, v Viewer, after *readmodel.Cursor, limit int) (readmodel.Page[Webhook], error) {
	sql, f := s.webhooks(v)
	if after != nil {
		f.Add("(w.created_at, w.id) < (%s::timestamptz, "+f.Arg(after.ID)+")", after.At)
	}
	key := func(w *Webhook) readmodel.Cursor { return readmodel.Cursor{At: w.CreatedAt, ID: w.ID} }
	return readmodel.ReadPage(ctx, s.Reader, "webhooks", limit, webhookFields.Scan, key, sql+f.Where()+` order by w.created_at desc, w.id desc limit `+f.Arg(limit+1), f.Args...)
}
