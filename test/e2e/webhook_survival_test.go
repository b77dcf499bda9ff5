package e2e_test

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/test/app"
	"ledgerline/test/sink"
)

// patience bounds real time while a receiver hangs, when Settle cannot be used.
const patience = 20 * time.Second

func eventually(t *testing.T, description string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, patience, 5*time.Millisecond, description)
}

// hanging makes a sink delay its answers until release is called.
func hanging(t *testing.T, s *sink.Sink, status int) (release func()) {
	t.Helper()
	gate := make(chan struct{})
	s.AnswerWith(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-gate:
		case <-r.Context().Done():
		}
		w.WriteHeader(status)
	})
	var once atomic.Bool
	release = func() {
		if once.CompareAndSwap(false, true) {
			close(gate)
		}
	}
	t.Cleanup(release)
	return release
}

func TestInterruptedAttemptIsCountedAndRepeated(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards)
		s := sink.Start(t)
		endpoint := hook(a.Live, s.URL, "contact.created")
		release := hanging(t, s, 200)
		a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
		s.Wait(1)
		// The lease of the worker ends as if it had died, and another one takes over while the attempt still runs.
		s.Answer(204)
		a.Exec(`update scheduled_tasks set lease_until = now() - interval '1 s' where process = 'webhooks'`)
		a.Nodes[0].WakeWebhooks()
		s.Wait(2)
		release()
		a.Settle()
		row := deliveries(a.Live, endpoint, "")[0]
		shows(t, row, app.Map{"status": "succeeded", "attempt": 2.0, "status_code": 204.0, "error": nil})
		attempts, ok := row["attempts"].([]any)
		require.True(t, ok)
		require.Len(t, attempts, 2)
		shows(t, object(attempts[0]), app.Map{"number": 1.0, "status_code": nil, "latency_ms": nil})
		require.Contains(t, object(attempts[0])["error"], "interrupted")
		require.Len(t, s.Requests(), 2, "attempts are as many as there were requests")
		require.InDelta(t, 0, a.Live.Get("/v1/webhooks").Is(200).Data()[0]["failure_rate_7d"], 0, "it was not the endpoint's fault")
	})
}

func TestUnknownResultOfAnAttemptIsCountedWhenTheNodeRestarts(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	s := sink.Start(t)
	endpoint := hook(a.Live, s.URL, "contact.created")
	path := "/v1/webhooks/" + text(endpoint, "id")
	a.Live.Do("PATCH", path, app.Map{"status": "paused"}).Is(200)
	a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
	a.Settle()
	// The state after a process was killed between the request and its answer.
	a.Exec(`insert into webhook_started_attempts (endpoint_id, delivery_id, number, fence, started_at) select endpoint_id, id, 1, 0, created_at from webhook_deliveries`)
	a.Live.Do("PATCH", path, app.Map{"status": "active"}).Is(200)
	a.Settle()
	shows(t, deliveries(a.Live, endpoint, "")[0], app.Map{"status": "succeeded", "attempt": 2.0})
	require.Len(t, s.Requests(), 1)
}

func TestHangingEndpointDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	slow, quick := sink.Start(t), sink.Start(t)
	release := hanging(t, slow, 200)
	hook(a.Live, slow.URL, "contact.created")
	endpoint := hook(a.Live, quick.URL, "contact.created")
	const events = 20
	for range events {
		a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
	}
	quick.Wait(events)
	require.Len(t, slow.Wait(5), 5, "five at once and no more")
	eventually(t, "the deliveries of the other endpoints are shown", func() bool {
		return len(deliveries(a.Live, endpoint, "?status=succeeded")) == events
	})
	require.Len(t, slow.Requests(), 5)
	release()
	slow.Wait(events)
	a.Settle()
}

func TestDeletingAnEndpointDuringAnAttemptStopsItsDeliveries(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	s := sink.Start(t)
	endpoint := hook(a.Live, s.URL, "contact.created")
	release := hanging(t, s, 500)
	for range 8 {
		a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
	}
	s.Wait(5)
	a.Live.Delete("/v1/webhooks/" + text(endpoint, "id")).Is(200)
	release()
	a.Settle()
	a.Advance(time.Hour)
	require.Len(t, s.Requests(), 5, "nothing is begun after the answer")
	var left int
	a.QueryRow(`select (select count(*) from webhook_deliveries) + (select count(*) from webhook_endpoints) + (select count(*) from webhook_started_attempts)`, nil, &left)
	require.Zero(t, left)
}

func TestRetryAfterIsHonouredUpToTwiceThePlannedDelay(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	for name, c := range map[string]struct {
		status int
		header string
		want   time.Duration
	}{
		"seconds":           {429, "8", 8 * time.Second},
		"at most twice":     {503, "3600", 10 * time.Second},
		"a date":            {429, a.Clock.Now().Add(9 * time.Second).Format(http.TimeFormat), 9 * time.Second},
		"not of other ones": {500, "8", 0},
		"nonsense":          {429, "soon", 0},
	} {
		s := sink.Start(t)
		s.Answer(c.status, "Retry-After", c.header)
		endpoint := hook(a.Live, s.URL, "message.received")
		a.Inbound(a.Phone(), a.Lines[0].Phone, "Hello")
		a.Settle()
		row := deliveries(a.Live, endpoint, "")[0]
		next, err := time.Parse(time.RFC3339, text(row, "next_attempt_at"))
		require.NoError(t, err)
		if c.want > 0 {
			require.Equal(t, c.want, next.Sub(a.Clock.Now()), name)
		} else {
			require.InDelta(t, 5, next.Sub(a.Clock.Now()).Seconds(), 1.001, name)
		}
		a.Live.Delete("/v1/webhooks/" + text(endpoint, "id")).Is(200)
	}
}

func TestRedirectsAreFailures(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	s := sink.Start(t)
	s.Answer(302, "Location", "/elsewhere")
	endpoint := hook(a.Live, s.URL+"/hook", "contact.created")
	a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
	a.Settle()
	shows(t, deliveries(a.Live, endpoint, "")[0], app.Map{"status": "pending", "status_code": 302.0})
	require.Len(t, s.Requests(), 1)
	require.Equal(t, "/hook", s.Requests()[0].Path)
}

func TestInProductionOnlyPublicAddressesOverTLSAreCalled(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.GuardedWebhooks())
	s := sink.Start(t)
	a.Live.Post("/v1/webhooks", app.Map{"url": s.URL, "events": []string{"contact.created"}}).Refused(400, "validation_failed", "body /url not_https")
	named := app.Map{"url": "https" + s.URL[len("http"):], "events": []string{"contact.created"}}
	a.Live.Post("/v1/webhooks", named).Refused(400, "validation_failed", "body /url private_address")
	endpoint := hook(a.Live, "https://100.64.0.1/", "contact.created") // refused when it is dialled
	a.Live.Do("PATCH", "/v1/webhooks/"+text(endpoint, "id"), app.Map{"url": s.URL}).Refused(400, "validation_failed", "body /url not_https")
	a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
	a.Settle()
	shows(t, deliveries(a.Live, endpoint, "")[0], app.Map{
		"status": "pending", "attempt": 1.0, "status_code": nil, "error": "refused: the host has no address on the public internet",
	})
	require.Empty(t, s.Requests())
}

func TestMovingTheClockAttemptsEachDueDeliveryOnce(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	s := sink.Start(t)
	s.Answer(500)
	hook(a.Live, s.URL, "contact.created")
	for i := range 3 {
		a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone(), "fields": app.Map{"n": strconv.Itoa(i)}}).Is(201)
	}
	a.Settle()
	require.Len(t, s.Requests(), 3)
	a.Advance(100 * time.Hour)
	require.Len(t, s.Requests(), 6)
}

func TestDeliveriesToAPausedEndpointFailInPages(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	s := sink.Start(t)
	endpoint := hook(a.Live, s.URL, "contact.created")
	a.Live.Do("PATCH", "/v1/webhooks/"+text(endpoint, "id"), app.Map{"status": "paused"}).Is(200)
	a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
	a.Settle()
	a.Exec(`insert into webhook_deliveries (id, endpoint_id, event_id, event_type, test, status, created_at, next_attempt_at)
		select gen_random_uuid(), endpoint_id, event_id, event_type, false, 'pending', created_at, created_at from webhook_deliveries, generate_series(1, 1200)`)
	a.Advance(72 * time.Hour)
	var failed, pages int
	a.QueryRow(`select count(*) from webhook_deliveries where error = 'endpoint_paused' and status = 'failed'`, nil, &failed)
	a.QueryRow(`select count(*) from ledger_events where type = 'webhook.given_up'`, nil, &pages)
	require.Equal(t, 1201, failed)
	require.Equal(t, 3, pages)
}

func TestDeliveriesAreShownFor30Days(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	s := sink.Start(t)
	endpoint := hook(a.Live, s.URL, "contact.created")
	a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
	a.Settle()
	// The ids of events contain the time of the machine, which the test's clock does not move.
	a.Exec(`update webhook_deliveries set id = '019caf88-f400-7000-8000-000000000001'`)
	a.Exec(`update webhook_events set id = '019caf88-f400-7000-8000-000000000002'`)
	a.Advance(29 * 24 * time.Hour)
	require.Len(t, deliveries(a.Live, endpoint, ""), 1)
	a.Advance(2 * 24 * time.Hour)
	require.Empty(t, deliveries(a.Live, endpoint, ""))
	a.Advance(4 * 24 * time.Hour)
	var left int
	a.QueryRow(`select (select count(*) from webhook_events) + (select count(*) from webhook_rates)`, nil, &left)
	require.Zero(t, left)
}
