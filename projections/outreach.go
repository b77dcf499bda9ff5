package projections

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/projections/readmodel"
)

// Outreach is an outreach as the API shows it, and defines the columns of its table: see readmodel.TableOf.
type Outreach struct {
	ID              string           `json:"id" format:"uuid" sql:"uuid not null"`
	Name            string           `json:"name" sql:"text not null"`
	Status          string           `json:"status" enum:"scheduled,running,completed,cancelled" doc:"completed: every message has left or failed" sql:"text not null"`
	SegmentID       *string          `json:"segment_id" format:"uuid" doc:"The segment that it goes to; null when it names its contacts" sql:"uuid"`
	Body            string           `json:"body" doc:"The template of the messages" sql:"text not null"`
	PoolID          *string          `json:"pool_id" doc:"pool_ id" sql:"text collate \"C\""`
	LineID          *string          `json:"line_id" doc:"ln_ id" sql:"text collate \"C\""`
	SendAt          *string          `json:"send_at" format:"date-time" doc:"When it starts; null: at once" sql:"timestamptz"`
	Counts          OutreachCounts   `json:"counts" doc:"Contacts and messages so far"`
	SkippedByReason map[string]int64 `json:"skipped_by_reason" doc:"Contacts that got no message, by reason: contact_opted_out, consent_required, template_missing, contact_deleted or reference_missing"`
	EstimatedAt     *string          `json:"estimated_completion_at" format:"date-time" doc:"When every message will have left or failed; null when it has ended" sql:"timestamptz"`
	CreatedAt       string           `json:"created_at" format:"date-time" sql:"timestamptz not null"`
	StartedAt       *string          `json:"started_at" format:"date-time" doc:"When its audience was fixed" sql:"timestamptz"`
	FinishedAt      *string          `json:"finished_at" format:"date-time" doc:"When it was completed or cancelled" sql:"timestamptz"`
}

// OutreachCounts counts the contacts of an outreach and their messages.
type OutreachCounts struct {
	Total     int64 `json:"total" minimum:"0" doc:"Contacts of the audience" column:"total" sql:"bigint not null"`
	Accepted  int64 `json:"accepted" minimum:"0" doc:"Messages that were accepted" column:"accepted" sql:"bigint not null"`
	Sent      int64 `json:"sent" minimum:"0" doc:"Messages that left, also those delivered since" column:"sent" sql:"bigint not null"`
	Delivered int64 `json:"delivered" minimum:"0" doc:"Messages that were delivered" column:"delivered" sql:"bigint not null"`
	Failed    int64 `json:"failed" minimum:"0" doc:"Messages that failed" column:"failed" sql:"bigint not null"`
	Replied   int64 `json:"replied" minimum:"0" doc:"Contacts that wrote within 7 days after their message left" column:"replied" sql:"bigint not null"`
	Skipped   int64 `json:"skipped" minimum:"0" doc:"Contacts that got no message" column:"skipped" sql:"bigint not null"`
}

var (
	outreachTable     = readmodel.TableOf[Outreach]("outreaches", []string{"id"}, readmodel.Column{Name: "workspace_id", Type: "uuid not null"})
	outreachSkipTable = &readmodel.Table{Name: "outreach_skips", Key: []string{"outreach_id", "reason"}, Counters: true, Columns: []readmodel.Column{
		{Name: "outreach_id", Type: "uuid not null"},
		{Name: "reason", Type: `text collate "C" not null`},
		{Name: "contacts", Type: "bigint not null"},
	}}
	outreachMessagesTable = &readmodel.Table{Name: "outreach_messages", Key: []string{"message_id"}, Columns: []readmodel.Column{
		{Name: "message_id", Type: `text collate "C" not null`},
		{Name: "outreach_id", Type: "uuid not null"},
		{Name: "contact_id", Type: `text collate "C" not null`},
		{Name: "sent_at", Type: "timestamptz", Merge: readmodel.KeepFirst},
		{Name: "sent_position", Type: "bigint", Merge: readmodel.KeepFirst},
		// What the counts of the outreach contain already.
		{Name: "counted_sent", Type: "boolean not null"},
		{Name: "counted_delivered", Type: "boolean not null"},
		{Name: "counted_failed", Type: "boolean not null"},
		{Name: "counted_reply", Type: "boolean not null"},
	}}
)

// countSQL adds to a count of the outreaches whose messages were marked. The condition finds the messages by $1, and
// leaves out those that the count contains already.
const countSQL = `with marked as (
		update @outreach_messages m set counted_%[1]s = true %[3]s and not m.counted_%[1]s returning m.outreach_id)
	update @outreaches o set %[2]s = o.%[2]s + n.messages
	from (select outreach_id, count(*) as messages from marked group by outreach_id) n where o.id = n.outreach_id`

var (
	countSentSQL      = fmt.Sprintf(countSQL, "sent", "sent", "where m.message_id = any($1)")
	countDeliveredSQL = fmt.Sprintf(countSQL, "delivered", "delivered", "where m.message_id = any($1)")
	countFailedSQL    = fmt.Sprintf(countSQL, "failed", "failed", "where m.message_id = any($1)")
	// Each value is a contact, the position and the time of its message.
	countRepliesSQL = fmt.Sprintf(countSQL, "reply", "replied", `from (select split_part(v, ' ', 1) as contact_id, split_part(v, ' ', 2)::bigint as position,
			split_part(v, ' ', 3)::timestamptz as at from unnest($1::text[]) v) r
		where m.contact_id = r.contact_id and m.sent_position < r.position and r.at < m.sent_at + interval '7 days'`)
)

// Outreaches has the outreaches of all workspaces with their counts.
var Outreaches = &readmodel.Projection{
	ID: "outreach", Program: 1,
	Tables: []*readmodel.Table{outreachTable, outreachSkipTable, outreachMessagesTable},
	Indexes: []string{
		`create index on @outreaches (workspace_id, created_at desc, id desc)`,
		`create index on @outreaches (workspace_id, status, created_at desc, id desc)`,
		`create index on @outreach_messages (contact_id) where not counted_reply`,
	},
	Handlers: feed.NewHandlers(
		feed.On(func(c *readmodel.Changes, e *events.OutreachCreated, r *eventstore.Recorded) {
			status := "running"
			if e.SendAt != nil {
				status = "scheduled"
			}
			c.Insert(outreachTable, readmodel.Row{
				"id": e.OutreachID, "workspace_id": r.WorkspaceID, "name": e.Name, "status": status, "segment_id": e.SegmentID, "body": e.Body,
				"pool_id": e.PoolID, "line_id": e.LineID, "send_at": readmodel.StampOrNull(e.SendAt), "total": e.Total, "accepted": 0, "sent": 0, "delivered": 0,
				"failed": 0, "replied": 0, "skipped": 0, "estimated_completion_at": readmodel.Stamp(e.EstimatedAt), "created_at": readmodel.Stamp(r.OccurredAt),
			})
		}),
		feed.On(func(c *readmodel.Changes, e *events.OutreachStarted, r *eventstore.Recorded) {
			c.Update(outreachTable, readmodel.Row{
				"id": e.OutreachID, "status": "running", "total": e.Total, "started_at": readmodel.Stamp(r.OccurredAt),
				"estimated_completion_at": readmodel.Stamp(e.EstimatedAt),
			})
		}),
		feed.On(func(c *readmodel.Changes, e *events.OutreachEstimated, _ *eventstore.Recorded) {
			c.Update(outreachTable, readmodel.Row{"id": e.OutreachID, "estimated_completion_at": readmodel.Stamp(e.EstimatedAt)})
		}),
		feed.On(func(c *readmodel.Changes, e *events.OutreachCompleted, r *eventstore.Recorded) {
			finishOutreach(c, e.OutreachID, "completed", r)
		}),
		feed.On(func(c *readmodel.Changes, e *events.OutreachCancelled, r *eventstore.Recorded) {
			finishOutreach(c, e.OutreachID, "cancelled", r)
		}),
		feed.On(func(c *readmodel.Changes, e *events.OutreachMessageAccepted, _ *eventstore.Recorded) {
			c.Update(outreachTable, readmodel.Row{"id": e.OutreachID, "accepted": readmodel.Add(1)})
			c.Insert(outreachMessagesTable, readmodel.Row{
				"message_id": e.MessageID, "outreach_id": e.OutreachID, "contact_id": e.ContactID,
				"counted_sent": false, "counted_delivered": false, "counted_failed": false, "counted_reply": false,
			})
		}),
		feed.On(func(c *readmodel.Changes, e *events.OutreachContactSkipped, _ *eventstore.Recorded) {
			c.Update(outreachTable, readmodel.Row{"id": e.OutreachID, "skipped": readmodel.Add(1)})
			c.Insert(outreachSkipTable, readmodel.Row{"outreach_id": e.OutreachID, "reason": e.Reason, "contacts": readmodel.Add(1)})
		}),
		feed.On(func(c *readmodel.Changes, e *events.MessageSent, r *eventstore.Recorded) {
			c.Update(outreachMessagesTable, readmodel.Row{"message_id": e.MessageID, "sent_at": readmodel.Stamp(r.OccurredAt), "sent_position": r.Position})
			c.After(countSentSQL, e.MessageID)
		}),
		feed.On(func(c *readmodel.Changes, e *events.MessageDelivered, _ *eventstore.Recorded) {
			c.After(countDeliveredSQL, e.MessageID)
		}),
		feed.On(func(c *readmodel.Changes, e *events.MessageFailed, _ *eventstore.Recorded) {
			c.After(countFailedSQL, e.MessageID)
		}),
		feed.On(func(c *readmodel.Changes, e *events.MessageReceived, r *eventstore.Recorded) {
			c.After(countRepliesSQL, fmt.Sprintf("%s %d %s", e.ContactID, r.Position, readmodel.Stamp(r.OccurredAt)))
		}),
	),
}

func finishOutreach(c *readmodel.Changes, id uuid.UUID, status string, r *eventstore.Recorded) {
	c.Update(outreachTable, readmodel.Row{"id": id, "status": status, "finished_at": readmodel.Stamp(r.OccurredAt), "estimated_completion_at": nil})
}

var (
	outreachFields = readmodel.Select[Outreach](outreachTable, "o", map[string]string{"skipped_by_reason": `coalesce((select
		json_object_agg(s.reason, s.contacts order by s.reason) from read.outreach_skips s where s.outreach_id = o.id), '{}')`})
	outreachSQL = `select ` + outreachFields.SQL + ` from read.outreaches o`
)

// Outreaches lists the outreaches of a workspace, newest first. An empty status lists all.
func (s *Store) Outreaches(ctx context.Context, v Viewer, status string, after *readmodel.Cursor, limit int) (readmodel.Page[Outreach], error) {
	f := &readmodel.Filter{}
	f.Add("o.workspace_id = %s", v.Workspace)
	f.Equal("o.status", status)
	f.After(after, "o.created_at", "o.id", "uuid")
	key := func(o *Outreach) readmodel.Cursor { return readmodel.Cursor{At: o.CreatedAt, ID: o.ID} }
	return readmodel.ReadPage(ctx, s.Reader, "outreaches", limit, outreachFields.Scan, key,
		outreachSQL+f.Where()+` order by o.created_at desc, o.id desc limit `+f.Arg(limit+1), f.Args...)
}

// Outreach finds an outreach of a workspace; found is false when there is none.
func (s *Store) Outreach(ctx context.Context, v Viewer, id uuid.UUID) (o Outreach, found bool, err error) {
	return readmodel.One(ctx, s.Reader, "outreach", outreachFields.Scan, outreachSQL+` where o.workspace_id = $1 and o.id = $2`, v.Workspace, id)
}
