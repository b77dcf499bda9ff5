package writeapi

import (
	"context"
	"encoding/json"
	"time"

	"ledgerline/commands"
	"ledgerline/domain/fault"
	"ledgerline/domain/rules"
	"ledgerline/httpapi"
	"ledgerline/httpapi/auth"
	"ledgerline/projections"
)

// MediaInput is one attachment of a message to be sent (interface 4.3).
type MediaInput struct {
	URL      string  `json:"url" format:"uri" maxLength:"2048" doc:"Publicly fetchable"`
	Filename *string `json:"filename,omitempty" maxLength:"255"`
	MIME     *string `json:"mime,omitempty" maxLength:"100"`
}

// SendMessage is the request of POST /v1/messages (interface 4.4, decisions section 7).
type SendMessage struct {
	Rehearse bool `query:"dry_run" doc:"true answers 200 with what would happen, and does nothing"`
	Body     struct {
		To         *string        `json:"to,omitempty" doc:"E.164; this or contact_id"`
		ContactID  *string        `json:"contact_id,omitempty"`
		Body       string         `json:"body,omitempty" maxLength:"2000"`
		Media      []MediaInput   `json:"media,omitempty" maxItems:"10" nullable:"false"`
		PoolID     *string        `json:"pool_id,omitempty" doc:"Chooses the sender by pool"`
		LineID     *string        `json:"line_id,omitempty" doc:"Chooses the sender"`
		SendAt     *time.Time     `json:"send_at,omitempty" doc:"At most 365 days ahead"`
		Fallback   *bool          `json:"fallback,omitempty" doc:"false forbids SMS"`
		ExternalID *string        `json:"external_id,omitempty" maxLength:"255" doc:"The caller's own reference"`
		Metadata   map[string]any `json:"metadata,omitempty" doc:"The caller's own data, up to 50 keys"`
	}
}

// DryRun tells that nothing is to be done.
func (in *SendMessage) DryRun() bool { return in.Rehearse }

// Preview is what would become of a message (an extension).
type Preview struct {
	Outcome   string         `json:"outcome" enum:"send,schedule,hold,refuse" doc:"send: it leaves at once; schedule: it leaves at its send_at; hold: a rule would hold it; refuse: it would be refused"`
	At        *string        `json:"at" format:"date-time" doc:"When it would leave, or may be tried again; null when that is not known"`
	Reason    *string        `json:"reason" doc:"The rule that would hold it, as in deferred events"`
	Code      *string        `json:"code" doc:"With refuse: the error code"`
	LineID    *string        `json:"line_id" doc:"ln_ id of the line that would send it, or whose room it would wait for"`
	From      *string        `json:"from" doc:"E.164"`
	To        string         `json:"to" doc:"E.164"`
	ContactID *string        `json:"contact_id" doc:"ctc_ id; null for a number that is no contact's yet"`
	Detail    map[string]any `json:"detail" doc:"What the rule adds to its reason"`
}

func (a *API) preview(ctx context.Context, c *httpapi.Call, in commands.QueueMessage) (httpapi.WriteResult, error) {
	p, err := a.app.PreviewMessage(ctx, request(c), in)
	if err != nil {
		return httpapi.WriteResult{}, translate(err)
	}
	shown := Preview{Outcome: "send", To: p.To, ContactID: orNull(p.ContactID), Detail: p.Detail}
	at := &p.At
	switch {
	case p.Outcome == rules.Hold:
		shown.Outcome, shown.Reason, at = "hold", &p.Reason, p.Until
	case p.Outcome == rules.Refuse:
		shown.Outcome, shown.Code, at = "refuse", &p.Code, nil
	case in.SendAt != nil && p.At.Equal(*in.SendAt):
		shown.Outcome = "schedule"
	}
	if at != nil {
		text := at.UTC().Format("2006-01-02T15:04:05.000Z")
		shown.At = &text
	}
	if p.Line != nil {
		shown.LineID, shown.From = &p.Line.ID, &p.Line.Phone
	}
	if shown.Detail == nil {
		shown.Detail = map[string]any{}
	}
	return httpapi.WriteResult{Body: shown}, nil
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Check implements httpapi.Checked.
func (in *SendMessage) Check() []fault.Issue {
	b := &in.Body
	var issues []fault.Issue
	if b.To != nil {
		issues = phoneIssues("/to", *b.To)
	}
	if len(issues) == 0 && (b.To == nil) == (b.ContactID == nil) {
		issues = append(issues, fault.Issue{Location: "body", Path: "/to", Code: "exactly_one", Message: "Exactly one of to and contact_id is needed."})
	}
	issues = append(issues, contentIssues(b.Body, b.Media)...)
	if len(b.Metadata) > maxMetadata {
		issues = append(issues, fault.Issue{Location: "body", Path: "/metadata", Code: "too_many", Message: "Metadata has at most 50 keys."})
	}
	return issues
}

// contentIssues tells of a message that says nothing.
func contentIssues(body string, media []MediaInput) []fault.Issue {
	if body != "" || len(media) > 0 {
		return nil
	}
	return []fault.Issue{{Location: "body", Path: "/body", Code: "required", Message: "A message needs a body or media."}}
}

const maxMetadata = 50

func (a *API) sendMessage(ctx context.Context, c *httpapi.Call, in *SendMessage) (httpapi.WriteResult, error) {
	b := &in.Body
	queue := commands.QueueMessage{
		To: b.To, ContactID: b.ContactID, Body: b.Body, Media: attached(b.Media), PoolID: b.PoolID, LineID: b.LineID, SendAt: b.SendAt, Fallback: b.Fallback,
		ExternalID: b.ExternalID, Metadata: b.Metadata,
	}
	if in.Rehearse {
		queue.ByStaff = c.Kind == auth.KindSession
		return a.preview(ctx, c, queue)
	}
	return a.queue(ctx, c, queue)
}

func attached(media []MediaInput) (list []commands.Media) {
	for _, m := range media {
		list = append(list, commands.Media{URL: m.URL, Filename: m.Filename, MIME: m.MIME})
	}
	return list
}

// queue accepts a message in the name of the caller and answers it from its event.
func (a *API) queue(ctx context.Context, c *httpapi.Call, queue commands.QueueMessage) (httpapi.WriteResult, error) {
	queue.Source = "api"
	if c.Kind == auth.KindSession {
		queue.Source, queue.ByStaff = "dashboard", true
	}
	if a.source != "" {
		queue.Source = a.source
	}
	if c.Idempotency != nil {
		queue.Answer = func(q commands.Queued) ([]byte, error) { return json.Marshal(projections.Queued(&q.Event, q.At)) }
	}
	queued, err := a.app.QueueMessage(ctx, request(c), queue)
	d, err := done(queued.Result, err)
	if err != nil {
		return d, err
	}
	d.Body, d.BodyStored = projections.Queued(&queued.Event, queued.At), c.Idempotency != nil
	return d, nil
}

// accepted answers a retry as the first request was answered, whatever has become of the message since.
func (a *API) accepted(ctx context.Context, c *httpapi.Call, d httpapi.WriteResult) (projections.Message, error) {
	first, ok, err := a.store.Accepted(ctx, viewer(c, d.Shard), d.Ref)
	if err == nil && !ok {
		err = gone("message")
	}
	return first, err
}

// message is the view that answers writes on a message.
func (a *API) message(ctx context.Context, c *httpapi.Call, d httpapi.WriteResult) (projections.Message, error) {
	if err := a.reach(ctx, d, projections.Messages); err != nil {
		return projections.Message{}, err
	}
	found, ok, err := a.store.Message(ctx, viewer(c, d.Shard), d.Ref)
	if err == nil && !ok {
		err = gone("message")
	}
	return found, err
}

func (a *API) cancelMessage(ctx context.Context, c *httpapi.Call, in *httpapi.IDParam) (httpapi.WriteResult, error) {
	return done(a.app.Sending.WithdrawMessage(ctx, request(c), in.ID))
}
