package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/organisation"
	"ledgerline/domain/webhook"
	"ledgerline/test/app"
	"ledgerline/test/sink"
)

// hook creates an endpoint and returns the answer.
func hook(c *app.Client, url string, types ...string) app.Map {
	return c.Post("/v1/webhooks", app.Map{"url": url, "events": types}).Is(201).JSON()
}

func deliveries(c *app.Client, endpoint app.Map, query string) []app.Map {
	return c.Get("/v1/webhooks/" + text(endpoint, "id") + "/deliveries" + query).Is(200).Data()
}

// verified requires that the reference library takes a request's signature under a secret, and gives its body.
func verified(t *testing.T, r sink.Received, secret string) app.Map {
	t.Helper()
	wh, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	require.NoError(t, wh.VerifyIgnoringTimestamp(r.Body, r.Header)) // the clock of the test is not the machine's
	return r.JSON(t)
}

func TestWebhooksOfAMessageShowItAsTheAPIDid(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards)
		s := sink.Start(t)
		endpoint := hook(a.Live, s.URL+"/hook", "message.status", "message.received", "contact.created")
		require.Regexp(t, `^whk_[0-9a-z]{26}$`, endpoint["id"])
		require.Regexp(t, `^whsec_[A-Za-z0-9+/]{43}=$`, endpoint["secret"])
		phone := a.SandboxNumber(93) // replies with an echo
		id := send(a.Live, phone, "Hello")
		a.Settle()
		a.Advance(2 * time.Second)

		var sent []string
		last := app.Map{}
		for _, r := range s.Requests() {
			body := verified(t, r, text(endpoint, "secret"))
			require.Equal(t, body["id"], r.Header.Get("webhook-id"))
			require.Regexp(t, `^evt_[0-9a-z]{26}$`, body["id"])
			require.Equal(t, "application/json", r.Header.Get("content-type"))
			require.Equal(t, a.ID.String(), body["workspace_id"])
			require.Equal(t, false, body["is_test"])
			data := object(body["data"])
			switch body["type"] {
			case "message.status":
				require.Equal(t, id, data["id"])
				sent = append(sent, fmt.Sprintf("%v>%v", data["previous_status"], data["status"]))
				if data["status"] == "read" {
					last = data
				}
			case "message.received":
				require.Equal(t, message(a.Live, text(data, "id")), data)
				sent = append(sent, "received")
			case "contact.created":
				require.Equal(t, a.Live.Get("/v1/contacts/" + text(data, "id")).Is(200).JSON()["phone"], data["phone"])
				sent = append(sent, "created")
			}
		}
		require.ElementsMatch(t, []string{"created", "queued>sending", "sending>sent", "sent>delivered", "delivered>read", "received"}, sent)
		delete(last, "previous_status")
		require.Equal(t, message(a.Live, id), last, "data is the resource as the API shows it")

		rows := deliveries(a.Live, endpoint, "")
		require.Len(t, rows, 6)
		for _, row := range rows {
			shows(t, row, app.Map{
				"endpoint_id": endpoint["id"], "status": "succeeded", "attempt": 1.0, "status_code": 204.0, "error": nil, "next_attempt_at": nil,
			})
			require.Len(t, row["attempts"], 1)
		}
		require.Len(t, deliveries(a.Live, endpoint, "?event_type=message.received&status=succeeded"), 1)
		require.Empty(t, deliveries(a.Live, endpoint, "?status=failed"))
		require.Empty(t, deliveries(a.Live, endpoint, "?status=pending"))
	})
}

func TestRejectedAttemptIsOnTheTimelineAndSendsNoStatusOfItsOwn(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.LinesSendSMS())
	s := sink.Start(t)
	hook(a.Live, s.URL+"/hook", "message.status")
	pool := a.Live.Post("/v1/pools", app.Map{"name": "SMS", "fallback_sms_mode": "not_chat"}).Is(201).Text("id")
	for _, c := range []struct {
		fallback  bool
		timeline  []any
		rejected  []app.Map
		errorCode string
	}{
		{
			fallback: false, errorCode: "not_on_chat",
			timeline: []any{"accepted", "routed", "sending", "capability_checked", "rejected", "failed"},
			rejected: []app.Map{{"attempt": 1.0, "code": "not_on_chat", "channel": "chat"}},
		},
		{
			fallback: true, errorCode: "sms_undeliverable",
			timeline: []any{"accepted", "routed", "sending", "capability_checked", "rejected", "fallback_sms", "sending", "rejected", "failed"},
			rejected: []app.Map{
				{"attempt": 1.0, "code": "not_on_chat", "channel": "chat"}, {"attempt": 2.0, "code": "sms_undeliverable", "channel": "sms"},
			},
		},
	} {
		created := a.Live.Post("/v1/messages", app.Map{"to": a.SandboxNumber(88), "body": "Hello", "pool_id": pool, "line_id": a.Lines[0].ID, "fallback": c.fallback})
		id := created.Is(201).Text("id")
		a.Settle()
		shows(t, message(a.Live, id), app.Map{"status": "failed", "error_code": c.errorCode})
		require.Equal(t, c.timeline, timeline(a.Live, id))
		rejected := []app.Map{}
		for _, entry := range a.Live.Get("/v1/messages/" + id + "/events").Is(200).Data() {
			if entry["type"] == "rejected" {
				detail := object(entry["detail"])
				require.Equal(t, a.Lines[0].ID, detail["line_id"])
				delete(detail, "line_id")
				rejected = append(rejected, detail)
			}
		}
		require.Equal(t, c.rejected, rejected)
		var statuses []string
		for _, r := range s.Requests() {
			if data := object(r.JSON(t)["data"]); data["id"] == id {
				statuses = append(statuses, fmt.Sprintf("%v>%v", data["previous_status"], data["status"]))
			}
		}
		require.ElementsMatch(t, []string{"queued>sending", "sending>failed"}, statuses)
	}
}

func TestConsentAssignmentAndLineEventsAreSent(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	s := sink.Start(t)
	endpoint := hook(a.Live, s.URL, "contact.opted_out", "contact.opted_in", "conversation.assigned", "line.state_changed")
	contact := a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone(), "consent_status": "opted_in", "consent_source": "form"}).Is(201).Text("id")
	a.Live.Post("/v1/contacts/"+contact+"/opt-out", app.Map{"source": "call"}).Is(200)
	a.Live.Post("/v1/contacts/"+contact+"/opt-out", app.Map{"source": "call"}).Is(200)
	a.Inbound(a.Phone(), a.Lines[1].Phone, "Hello")
	conversation := text(object(a.Live.Get("/v1/conversations").Is(200).At("data.0")), "id")
	a.Live.Do("PATCH", "/v1/conversations/"+conversation, app.Map{"assignee_user_id": a.Users[organisation.Manager]}).Is(200)
	_, err := a.Nodes[0].App.ChangeLineState(t.Context(), a.Operator(), a.Lines[0].ID, "quarantined", nil)
	require.NoError(t, err)
	a.Settle()
	bodies := map[string]app.Map{}
	for _, r := range s.Requests() {
		body := verified(t, r, text(endpoint, "secret"))
		require.NotContains(t, bodies, body["type"])
		bodies[text(body, "type")] = object(body["data"])
	}
	require.Len(t, bodies, 4)
	assigned := bodies["conversation.assigned"]
	require.Equal(t, a.Users[organisation.Manager].String(), assigned["assignee_user_id"])
	require.Nil(t, assigned["previous_assignee_user_id"])
	delete(assigned, "previous_assignee_user_id")
	listed := object(a.Live.Get("/v1/conversations").Is(200).At("data.0"))
	require.Equal(t, listed, assigned, "data is the resource as the API shows it")
	shown := a.Live.Get("/v1/lines/" + a.Lines[0].ID).Is(200).JSON()
	for name, want := range shown {
		require.Equal(t, want, bodies["line.state_changed"][name], name)
	}
	shows(t, bodies["contact.opted_in"], app.Map{"id": contact, "consent_status": "opted_in", "previous_consent_status": "unknown", "consent_source": "form"})
	shows(t, bodies["contact.opted_out"], app.Map{"id": contact, "consent_status": "opted_out", "previous_consent_status": "opted_in", "consent_source": "call"})
	shows(t, bodies["line.state_changed"], app.Map{"id": a.Lines[0].ID, "state": "quarantined", "previous_state": "active"})
}

func TestSandboxEventsAreMarkedAsTest(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	s := sink.Start(t)
	hook(a.Test, s.URL, "message.status", "message.received", "contact.created", "contact.opted_out")
	send(a.Test, a.SandboxNumber(90), "Hello") // replies STOP
	a.Settle()
	kinds := map[string]bool{}
	for _, r := range s.Requests() {
		body := r.JSON(t)
		require.Equal(t, true, body["is_test"], body["type"])
		kinds[text(body, "type")] = true
	}
	require.Len(t, kinds, 4)
}

func TestAnEndpointThatFailsIsTriedTenTimesOnTheSchedule(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards)
		s := sink.Start(t)
		s.Answer(500)
		endpoint := hook(a.Live, s.URL, "contact.created")
		a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
		a.Settle()
		planned := []time.Duration{
			5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
		}
		for i, delay := range planned {
			row := deliveries(a.Live, endpoint, "?status=pending")[0]
			require.EqualValues(t, i+1, row["attempt"])
			shows(t, row, app.Map{"status_code": 500.0, "error": "the receiver answered 500", "delivered_at": nil})
			next, err := time.Parse(time.RFC3339, text(row, "next_attempt_at"))
			require.NoError(t, err)
			wait := next.Sub(a.Clock.Now())
			require.InDelta(t, delay.Seconds(), wait.Seconds(), delay.Seconds()*0.2+0.001)
			a.Advance(wait - time.Millisecond)
			require.Len(t, s.Requests(), i+1, "not before it is due")
			a.Advance(time.Millisecond)
			require.Len(t, s.Requests(), i+2)
		}
		row := deliveries(a.Live, endpoint, "")[0]
		shows(t, row, app.Map{"status": "failed", "attempt": 10.0, "next_attempt_at": nil})
		require.Len(t, row["attempts"], 10)
		a.Advance(30 * time.Hour)
		require.Len(t, s.Requests(), 10)
		first := s.Requests()[0]
		for _, r := range s.Requests() {
			require.Equal(t, first.Header.Get("webhook-id"), r.Header.Get("webhook-id"))
			require.Equal(t, first.Body, r.Body, "the very same bytes")
			verified(t, r, text(endpoint, "secret"))
		}
		require.NotEqual(t, first.Header.Get("webhook-timestamp"), s.Requests()[1].Header.Get("webhook-timestamp"))
		require.InDelta(t, 1, a.Live.Get("/v1/webhooks").Is(200).Data()[0]["failure_rate_7d"], 0)
		require.Equal(t, "active", a.Live.Get("/v1/webhooks").Is(200).Data()[0]["status"], "one event is not enough to be disabled for")
	})
}

func TestAnEndpointWithoutASuccessForFiveDaysIsDisabledAndCanBeEnabledAgain(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	s := sink.Start(t)
	s.Answer(503)
	endpoint := hook(a.Live, s.URL, "contact.created")
	path := "/v1/webhooks/" + text(endpoint, "id")
	for range 2 {
		a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
	}
	a.Settle()
	for range 15 {
		a.Advance(8*time.Hour - time.Millisecond)
	}
	require.Equal(t, "active", a.Live.Get("/v1/webhooks").Is(200).Data()[0]["status"])
	a.Advance(time.Second)
	shows(t, a.Live.Get("/v1/webhooks").Is(200).Data()[0], app.Map{"status": "disabled", "disabled_reason": "failing"})

	before := len(s.Requests())
	a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
	a.Settle()
	require.Len(t, s.Requests(), before)
	missed := deliveries(a.Live, endpoint, "")[0]
	shows(t, missed, app.Map{"status": "failed", "attempt": 0.0, "error": "endpoint_disabled", "next_attempt_at": nil})
	replay := "/v1/webhook-deliveries/" + text(missed, "id") + "/replay"
	a.Live.Post(replay, nil).Refused(409, "conflict")
	a.Live.Do("PATCH", path, app.Map{"status": "paused"}).Refused(409, "conflict")

	s.Answer(200)
	shows(t, a.Live.Do("PATCH", path, app.Map{"status": "active"}).Is(200).JSON(), app.Map{"status": "active", "disabled_at": nil, "disabled_reason": nil})
	a.Settle()
	shows(t, a.Live.Post(replay, nil).Is(202).JSON(), app.Map{"id": missed["id"], "status": "pending", "attempt": 0.0})
	a.Settle()
	shows(t, deliveries(a.Live, endpoint, "")[0], app.Map{"status": "succeeded", "attempt": 1.0, "error": nil})
}

func TestADisabledEndpointIsEnabledOnceInTenMinutes(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	s := sink.Start(t)
	s.Answer(410)
	endpoint := hook(a.Live, s.URL, "contact.created")
	path := "/v1/webhooks/" + text(endpoint, "id")
	status := func() any { return a.Live.Get("/v1/webhooks").Is(200).Data()[0]["status"] }
	create := func() {
		a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
		a.Settle()
	}
	create()
	require.Equal(t, "disabled", status(), "410 disables at once")
	shows(t, deliveries(a.Live, endpoint, "")[0], app.Map{"status": "failed", "attempt": 1.0, "status_code": 410.0})
	a.Live.Do("PATCH", path, app.Map{"status": "active"}).Is(200)
	create()
	require.Equal(t, "disabled", status())
	a.Advance(10*time.Minute - time.Second)
	refused := a.Live.Do("PATCH", path, app.Map{"status": "active"}).Refused(429, "rate_limited")
	require.Equal(t, "1", refused.Header.Get("retry-after"))
	a.Advance(time.Second)
	a.Live.Do("PATCH", path, app.Map{"status": "active"}).Is(200)
	require.Equal(t, "active", status())
}

func TestDeliveriesToAPausedEndpointWaitForThreeDays(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	s := sink.Start(t)
	endpoint := hook(a.Live, s.URL, "contact.created")
	path := "/v1/webhooks/" + text(endpoint, "id")
	a.Live.Do("PATCH", path, app.Map{"status": "paused"}).Is(200)
	a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
	a.Advance(time.Hour)
	a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
	a.Settle()
	require.Len(t, deliveries(a.Live, endpoint, "?status=pending"), 2)
	require.Empty(t, s.Requests())
	a.Advance(71*time.Hour + time.Millisecond)
	shows(t, deliveries(a.Live, endpoint, "?status=failed")[0], app.Map{"error": "endpoint_paused", "attempt": 0.0})
	require.Len(t, deliveries(a.Live, endpoint, "?status=pending"), 1)
	a.Live.Do("PATCH", path, app.Map{"status": "active"}).Is(200)
	a.Settle()
	require.Len(t, s.Requests(), 1)
	require.Len(t, deliveries(a.Live, endpoint, "?status=succeeded"), 1)
}

func TestAfterARotationBothSecretsSignForADay(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	s := sink.Start(t)
	endpoint := hook(a.Live, s.URL, "contact.created")
	path := "/v1/webhooks/" + text(endpoint, "id")
	rotated := a.Live.IdempotencyKey("rotate").Post(path+"/rotate", nil).Is(200)
	again := a.Live.IdempotencyKey("rotate").Post(path+"/rotate", nil).Is(200)
	require.Equal(t, rotated.Raw, again.Raw, "the secret is in the stored answer")
	require.NotEqual(t, endpoint["secret"], rotated.Text("secret"))
	tell := func() sink.Received {
		s.Reset()
		a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
		a.Settle()
		require.Len(t, s.Requests(), 1)
		return s.Requests()[0]
	}
	r := tell()
	require.Len(t, strings.Split(r.Header.Get("webhook-signature"), " "), 2)
	verified(t, r, text(endpoint, "secret"))
	verified(t, r, rotated.Text("secret"))
	a.Advance(24 * time.Hour)
	r = tell()
	require.Len(t, strings.Split(r.Header.Get("webhook-signature"), " "), 1)
	verified(t, r, rotated.Text("secret"))
	require.NotContains(t, string(a.Live.Get("/v1/webhooks").Is(200).Raw), "whsec_")
}

func TestTestDeliveriesHaveExampleDataAndAreAttemptedOnce(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	s := sink.Start(t)
	endpoint := hook(a.Live, s.URL, "contact.created")
	path := "/v1/webhooks/" + text(endpoint, "id") + "/test"
	for i, kind := range webhook.Types() {
		if i == webhook.TestsPerMinute {
			refused := a.Live.Post(path, app.Map{"type": kind}).Refused(429, "rate_limited")
			require.Equal(t, "60", refused.Header.Get("retry-after"))
			a.Advance(time.Minute)
		}
		answer := a.Live.Post(path, app.Map{"type": kind}).Is(202)
		require.Equal(t, kind, answer.Text("event_type"))
		a.Settle()
		got := s.Requests()[i]
		body := verified(t, got, text(endpoint, "secret"))
		shows(t, body, app.Map{"id": answer.Text("event_id"), "type": kind, "is_test": true, "workspace_id": a.ID.String()})
		require.NotEmpty(t, body["data"])
		shows(t, deliveries(a.Live, endpoint, "")[0], app.Map{"id": answer.Text("id"), "status": "succeeded", "attempt": 1.0})
	}
	s.Answer(500)
	require.Equal(t, "message.received", a.Live.Post(path, nil).Is(202).Text("event_type"))
	a.Settle()
	shows(t, deliveries(a.Live, endpoint, "")[0], app.Map{"status": "failed", "attempt": 1.0, "next_attempt_at": nil})
	require.InDelta(t, 0, a.Live.Get("/v1/webhooks").Is(200).Data()[0]["failure_rate_7d"], 0, "tests do not count")
}

func TestReplayDeliversTheSameEventOnceMore(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	s := sink.Start(t)
	endpoint := hook(a.Live, s.URL, "contact.created")
	a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
	a.Settle()
	id := text(deliveries(a.Live, endpoint, "")[0], "id")
	replay := "/v1/webhook-deliveries/" + id + "/replay"
	s.Answer(500)
	a.Advance(time.Second)
	a.Live.Post(replay, nil).Is(202)
	a.Settle()
	row := deliveries(a.Live, endpoint, "")[0]
	shows(t, row, app.Map{"id": id, "status": "failed", "attempt": 2.0, "next_attempt_at": nil})
	s.Answer(200)
	a.Live.IdempotencyKey("r").Post(replay, nil).Is(202)
	a.Settle()
	a.Live.IdempotencyKey("r").Post(replay, nil).Is(202)
	a.Settle()
	require.Len(t, s.Requests(), 3)
	shows(t, deliveries(a.Live, endpoint, "")[0], app.Map{"status": "succeeded", "attempt": 3.0})
	for _, r := range s.Requests() {
		require.Equal(t, s.Requests()[0].Body, r.Body)
		require.Equal(t, s.Requests()[0].Header.Get("webhook-id"), r.Header.Get("webhook-id"))
	}
	require.NotEqual(t, s.Requests()[0].Header.Get("webhook-signature"), s.Requests()[1].Header.Get("webhook-signature"))
	a.Live.Do("PATCH", "/v1/webhooks/"+text(endpoint, "id"), app.Map{"status": "paused"}).Is(200)
	a.Live.Post(replay, nil).Refused(409, "conflict")
	a.NewWorkspace("Other").Live.Post(replay, nil).Refused(404, "not_found")
	a.Live.Post("/v1/webhook-deliveries/"+strings.Repeat("0", 8)+"-0000-7000-8000-000000000000/replay", nil).Refused(404, "not_found")
	a.Live.Post("/v1/webhook-deliveries/nonsense/replay", nil).Is(400)
}

func TestProblemsOfAnEndpointAreReportedTogether(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	a.Live.Post("/v1/webhooks", app.Map{"url": "ftp://example.com", "events": []string{}}).
		Refused(400, "validation_failed", "body /url invalid_format", "body /events required")
	a.Live.Post("/v1/webhooks", app.Map{"url": "https://user:secret@example.com", "events": []string{"contact.created"}}).
		Refused(400, "validation_failed", "body /url credentials")
	a.Live.Post("/v1/webhooks", app.Map{}).Refused(400, "validation_failed", "body /url required", "body /events required")
	endpoint := hook(a.Live, "https://example.com/hook", "contact.created", "contact.created", "agent.handoff")
	require.Equal(t, []any{"agent.handoff", "contact.created"}, endpoint["events"])
	path := "/v1/webhooks/" + text(endpoint, "id")
	a.Live.Do("PATCH", path, app.Map{"events": []string{}}).Refused(400, "validation_failed", "body /events required")
	a.Live.Do("PATCH", path, app.Map{"url": nil}).Is(400)
	moved := a.Live.Do("PATCH", path, app.Map{"url": "https://example.com/other", "events": []string{"line.degraded"}}).Is(200)
	require.Equal(t, "https://example.com/other", moved.Text("url"))
	require.Equal(t, []any{"line.degraded"}, moved.At("events"))
	stranger := a.NewOrganisation("Stranger")
	stranger.Live.Do("PATCH", path, app.Map{"status": "paused"}).Refused(404, "not_found")
	stranger.Live.Get(path+"/deliveries").Refused(404, "not_found")
	a.Sessions[organisation.Developer].Get(path + "/deliveries").Is(200)
	a.Sessions[organisation.Manager].Get(path+"/deliveries").Refused(403, "forbidden")
}

func TestAWorkspaceHasTwentyEndpointsAndAnOrganisationFifty(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	create := func(w *app.Workspace) app.Answer {
		return w.Live.Post("/v1/webhooks", app.Map{"url": "https://example.com", "events": []string{"contact.created"}})
	}
	answers := make(chan int, 24)
	for range cap(answers) {
		go func() { answers <- create(a.Workspace).Status }()
	}
	made := 0
	for range cap(answers) {
		switch <-answers {
		case http.StatusCreated:
			made++
		case http.StatusConflict:
		default:
			t.Error("neither made nor refused")
		}
	}
	require.Equal(t, 20, made)
	create(a.Workspace).Refused(409, "conflict")
	a.Live.Delete("/v1/webhooks/" + text(a.Live.Get("/v1/webhooks").Is(200).Data()[0], "id")).Is(200)
	create(a.Workspace).Is(201)
	second, third := a.NewWorkspace("Second"), a.NewWorkspace("Third")
	for range 20 {
		create(second).Is(201)
	}
	for range 10 {
		create(third).Is(201)
	}
	create(third).Refused(409, "conflict")
	create(a.NewOrganisation("Stranger")).Is(201)
}

func TestDeletedEndpointGetsNothingAndItsHistoryIsRemoved(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	s := sink.Start(t)
	s.Answer(500)
	endpoint := hook(a.Live.IdempotencyKey("make"), s.URL, "contact.created")
	path := "/v1/webhooks/" + text(endpoint, "id")
	a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
	a.Settle()
	id := text(deliveries(a.Live, endpoint, "")[0], "id")
	require.Equal(t, app.Map{"deleted": true, "id": endpoint["id"]}, a.Live.Delete(path).Is(200).JSON())
	a.Advance(100 * time.Hour)
	require.Len(t, s.Requests(), 1)
	a.Live.Get(path+"/deliveries").Refused(404, "not_found")
	a.Live.Post("/v1/webhook-deliveries/"+id+"/replay", nil).Refused(404, "not_found")
	a.Live.Delete(path).Refused(404, "not_found")
	require.Empty(t, a.Live.Get("/v1/webhooks").Is(200).Data())
	var left int
	a.QueryRow(`select (select count(*) from webhook_deliveries) + (select count(*) from webhook_endpoints) + (select count(*) from webhook_started_attempts)
		+ (select count(*) from webhook_rates) + (select count(*) from ledger_keys where subject = $1 and wrapped is not null)`, []any{endpoint["id"]}, &left)
	require.Zero(t, left)
}

func TestNoEventsAreSentAboutAnErasedContact(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	s := sink.Start(t)
	s.Answer(500)
	endpoint := hook(a.Live, s.URL, "contact.created")
	contact := a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone(), "first_name": "Grace"}).Is(201).Text("id")
	a.Settle()
	a.Live.Delete("/v1/contacts/" + contact).Is(200)
	a.Advance(time.Minute)
	require.Len(t, s.Requests(), 1)
	row := deliveries(a.Live, endpoint, "")[0]
	shows(t, row, app.Map{"status": "failed", "error": "erased", "attempt": 1.0})
	a.Live.Post("/v1/webhook-deliveries/"+text(row, "id")+"/replay", nil).Refused(409, "conflict")
	var left int
	a.QueryRow(`select count(*) from webhook_events`, nil, &left)
	require.Zero(t, left)
}

func TestFailureRateHasFourPlaces(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	endpoint := hook(a.Live, sink.Start(t).URL, "contact.created")
	a.Exec(`insert into webhook_rates (endpoint_id, hour, attempts, failed) values ($1, $2, 3, 1)`, endpoint["id"], a.Clock.Now())
	require.Contains(t, string(a.Live.Get("/v1/webhooks").Is(200).Raw), `"failure_rate_7d":0.3333,`)
}

func TestWebhookAndDeliveryAreShownOneByOneWithWhatIsSent(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards, app.TwoNodes())
		s := sink.Start(t)
		endpoint := hook(a.Live, s.URL, "contact.created")
		shown := a.Live.Get("/v1/webhooks/" + text(endpoint, "id")).Is(200).JSON()
		delete(endpoint, "secret")
		require.Equal(t, endpoint, shown)
		contact := a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201).Text("id")
		a.Settle()
		row := deliveries(a.Live, endpoint, "")[0]
		path := "/v1/webhook-deliveries/" + text(row, "id")
		one := a.Live.Get(path).Is(200).JSON()
		require.Equal(t, string(s.Requests()[0].Body), one["body"], "what was signed, byte for byte")
		delete(one, "body")
		require.Equal(t, row, one)

		a.Live.Delete("/v1/contacts/" + contact).Is(200)
		a.Settle()
		require.Nil(t, a.Live.Get(path).Is(200).JSON()["body"], "erased with the contact")
		other := a.NewOrganisation("Other")
		other.Live.Get(path).Refused(404, "not_found")
		other.Live.Get("/v1/webhooks/"+text(endpoint, "id")).Refused(404, "not_found")
	})
}

func TestReplayOfARangeDeliversWhatFailedInItOnceMore(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	s := sink.Start(t)
	endpoint := hook(a.Live, s.URL, "contact.created")
	path := "/v1/webhooks/" + text(endpoint, "id") + "/replay"
	made := func() {
		a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
		a.Settle()
		a.Advance(time.Minute)
	}
	made() // succeeds
	from := a.Clock.Now()
	s.Answer(410) // disables the endpoint: these fail without a further attempt
	made()
	made()
	to := a.Clock.Now()
	made()
	a.Advance(10 * time.Minute)
	in := app.Map{"from": from, "to": to}
	a.Live.Post(path, in).Refused(409, "conflict")
	a.Live.Do("PATCH", "/v1/webhooks/"+text(endpoint, "id"), app.Map{"status": "active"}).Is(200)

	s.Answer(200)
	before := len(s.Requests())
	shows(t, a.Live.IdempotencyKey("range").Post(path, in).Is(202).JSON(), app.Map{"replayed": 2.0, "next_after": nil})
	a.Settle()
	shows(t, a.Live.IdempotencyKey("range").Post(path, in).Is(202).JSON(), app.Map{"replayed": 2.0})
	a.Settle()
	require.Len(t, s.Requests(), before+2, "the repeated request repeats nothing")
	list := deliveries(a.Live, endpoint, "")
	require.Equal(t, []string{"failed", "succeeded", "succeeded", "succeeded"}, []string{text(list[0], "status"), text(list[1], "status"), text(list[2], "status"), text(list[3], "status")})
	shows(t, a.Live.Post(path, in).Is(202).JSON(), app.Map{"replayed": 0.0})

	one := "/v1/webhook-deliveries/" + text(list[1], "id") + "/replay"
	a.Live.Post(one, nil).Is(202)
	a.Settle()
	require.Len(t, s.Requests(), before+3, "a delivery of a range can be replayed alone")
	shows(t, a.Live.Post(path, app.Map{"from": from, "to": to, "status": "all", "type": "contact.created"}).Is(202).JSON(), app.Map{"replayed": 2.0})

	a.Live.Post(path, app.Map{"from": to, "to": from}).Refused(400, "validation_failed", "body /to out_of_range")
	a.NewWorkspace("Other").Live.Post(path, in).Refused(404, "not_found")
	a.Sessions["manager"].Post(path, in).Refused(403, "forbidden")
	for range 7 {
		a.Live.Post(path, in).Is(202)
	}
	a.Live.Post(path, in).Refused(429, "rate_limited")
}
