package writeapi

import (
	"context"
	"time"

	"ledgerline/commands"
	"ledgerline/domain/fault"
	"ledgerline/domain/message"
	"ledgerline/domain/rules"
	"ledgerline/httpapi"
	"ledgerline/httpapi/auth"
	"ledgerline/projections"
)

// MediaInput is one attachment of a message to be sent.
type MediaInput struct {
	URL      string  `json:"url" format:"uri" maxLength:"2048" doc:"Publicly fetchable"`
	Filename *string `json:"filename,omitempty" maxLength:"255"`
	MIME     *string `json:"mime,omitempty" maxLength:"100"`
}

// SendMessage is the request of POST /v1/messages.
type SendMessage struct {
	PreviewOnly bool `query:"dry_run" doc:"true answers 200 with what would happen, and does nothing"`
	SandboxTime
	Body struct {
		To         *string        `json:"to,omitempty" doc:"E.164; this or contact_id"`
		ContactID  *string        `json:"contact_id,omitempty"`
		Body       string         `json:"body,omitempty" maxLength:"2000"`
		Media      []MediaInput   `json:"media,omitempty" maxItems:"10" nullable:"false"`
		PoolID     *string        `json:"pool_id,omitempty" doc:"Chooses the sender by pool"`
		LineID     *string        `json:"line_id,omitempty" doc:"Chooses the sender"`
		SendAt     *time.Time     `json:"send_at,omitempty" doc:"At most 365 days ahead"`
		Fallback   *bool          `json:"fallback,omitempty" doc:"false forbids SMS"`
		ExternalID *string        `json:"external_id,omitempty" maxLength:"255" doc:"The caller's own reference"`
		Metadata   map[string]any `json:"metadata,omitempty" doc:"The caller's own data, up to 50 keys and 16 KiB of JSON"`
	}
}

// DryRun reports whether the request only asks what would happen. httpapi then answers 200 with a Preview.
func (in *SendMessage) DryRun() bool { return in.PreviewOnly }

// Preview is what would become of a message: the answer to a dry run.
type Preview struct {
	Outcome   string         `json:"outcome" enum:"send,schedule,hold,refuse" doc:"send: it leaves at once; schedule: it leaves at its send_at; hold: a rule would defer it; refuse: it would be refused"`
	At        *string        `json:"at" format:"date-time" doc:"When it would leave, or may be tried again; null when that is not known"`
	Reason    *string        `json:"reason" doc:"The rule that would defer it, as in deferred events"`
	Code      *string        `json:"code" doc:"With refuse: the error code"`
	LineID    *string        `json:"line_id" doc:"ln_ id of the line that would send it, or whose capacity it would wait for"`
	From      *string        `json:"from" doc:"E.164"`
	To        string         `json:"to" doc:"E.164"`
	ContactID *string        `json:"contact_id" doc:"ctc_ id; null for a number that is no contact's yet"`
	Detail    map[string]any `json:"detail" doc:"Further facts about the reason"`
}

// preview decides what would become of a message and writes nothing.
func (a *API) preview(ctx context.Context, c *httpapi.Call, in commands.AcceptMessage) (httpapi.WriteResult, error) {
	p, err := a.app.PreviewMessage(ctx, request(c), in)
	if err != nil {
		return httpapi.WriteResult{}, translate(err)
	}
	shown := Preview{Outcome: "send", To: p.To, ContactID: orNull(p.ContactID), Detail: p.Detail}
	at := &p.At
	switch {
	case p.Decision == rules.Defer:
		shown.Outcome, shown.Reason, at = "hold", &p.Reason, p.Until
	case p.Decision == rules.Refuse:
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
	if f := fault.Of(message.CheckMetadata(b.Metadata)); f != nil {
		issues = append(issues, f.Issues...)
	}
	return issues
}

// contentIssues returns an issue for a message without text and media.
func contentIssues(body string, media []MediaInput) []fault.Issue {
	if body != "" || len(media) > 0 {
		return nil
	}
	return []fault.Issue{{Location: "body", Path: "/body", Code: "required", Message: "A message needs a body or media."}}
}

func (a *API) sendMessage(ctx context.Context, c *httpapi.Call, in *SendMessage) (httpapi.WriteResult, error) {
	b := &in.Body
	message := commands.AcceptMessage{
		To: b.To, ContactID: b.ContactID, Body: b.Body, Media: attachments(b.Media), PoolID: b.PoolID, LineID: b.LineID,
		SendAt: b.SendAt, Fallback: b.Fallback, ExternalID: b.ExternalID, Metadata: b.Metadata,
	}
	var err error
	if message.SandboxTime, err = in.SandboxTime.minutes(c); err != nil {
		return httpapi.WriteResult{}, err
	}
	if in.PreviewOnly {
		message.ByStaff = c.Kind == auth.KindSession
		return a.preview(ctx, c, message)
	}
	return a.accept(ctx, c, message)
}

// SandboxTime is the header by which a test key chooses the time of day of a message (rule SND-63).
type SandboxTime struct {
	LocalTime string `header:"x-sandbox-local-time" pattern:"^[0-2][0-9]:[0-5][0-9]$" doc:"For test keys: the local time of the contact at which the message is played, HH:MM. Time goes on from there"`
}

// minutes returns the time in minutes since midnight, nil without the header, and fault validation_failed for a caller
// without a test key.
func (s SandboxTime) minutes(c *httpapi.Call) (*int, error) {
	if s.LocalTime == "" {
		return nil, nil //nolint:nilnil // the header is optional
	}
	if !c.Test {
		return nil, fault.Invalids(fault.Issue{Location: "header", Path: "/x-sandbox-local-time", Code: "not_allowed", Message: "Only test keys may choose the time of day."})
	}
	at, err := time.Parse("15:04", s.LocalTime)
	if err != nil {
		return nil, fault.Invalids(fault.Issue{Location: "header", Path: "/x-sandbox-local-time", Code: "invalid_format", Message: "Expected a time of day, 00:00 to 23:59."})
	}
	minutes := at.Hour()*60 + at.Minute()
	return &minutes, nil
}

func attachments(media []MediaInput) (list []commands.Media) {
	for _, m := range media {
		list = append(list, commands.Media{URL: m.URL, Filename: m.Filename, MIME: m.MIME})
	}
	return list
}

// accept accepts a message from the caller and answers from its event, without waiting for a read model (rule API-29).
func (a *API) accept(ctx context.Context, c *httpapi.Call, message commands.AcceptMessage) (httpapi.WriteResult, error) {
	message.Source = "api"
	if c.Kind == auth.KindSession {
		message.Source, message.ByStaff = "dashboard", true
	}
	if a.source != "" {
		message.Source = a.source
	}
	body := func(q commands.AcceptedMessage) projections.Message { return projections.NewMessage(&q.Event, q.At) }
	message.Answer = recordedBody(c, body)
	queued, err := a.app.AcceptMessage(ctx, request(c), message)
	return resultWithBody(c, queued.Result, queued, body, err)
}

func (a *API) cancelMessage(ctx context.Context, c *httpapi.Call, in *httpapi.IDParam) (httpapi.WriteResult, error) {
	return result(a.app.Sending.CancelByRequest(ctx, request(c), in.ID))
}

func (a *API) messages() resource[projections.Message] {
	return resource[projections.Message]{a.store, "message", a.store.Message, consumers(projections.Messages)}
}

// acceptedMessages reads messages as they were when they were accepted, so that a retry gets the first answer even if
// the message has changed since. It reads them from the ledger, so there is no consumer to wait for.
func (a *API) acceptedMessages() resource[projections.Message] {
	return resource[projections.Message]{a.store, "message", a.store.AcceptedMessage, nil}
}
