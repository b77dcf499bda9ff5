package httpapi_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/fault"
	"ledgerline/httpapi"
)

func TestEveryAnswerHasARequestIDOfTheService(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, things)
	seen := map[string]bool{}
	for _, c := range []call{
		{method: "GET", path: "/v1/things/thg_1234", token: "all"}, {method: "GET", path: "/nowhere"}, {method: "GET", path: "/healthz"},
		{method: "GET", path: "/v1/things"}, {method: "PUT", path: "/v1/things"},
	} {
		c.header = map[string]string{"x-request-id": "mine"}
		id := s.do(c).Header.Get("x-request-id")
		require.Regexp(t, `^req_[0-9a-f]{12}7[0-9a-f]{19}$`, id)
		require.False(t, seen[id])
		seen[id] = true
	}
}

func TestUnknownPathIs404(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, things)
	for _, path := range []string{"/none", "/v1", "/v1/nothing", "/v1/things/a/b", "/v1/things/", "/v1/things/a%2Fb"} {
		s.get(path).refused(404, "not_found")
	}
}

func TestWrongMethodIs405WithAllow(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, things)
	answer := s.do(call{method: "PUT", path: "/v1/things", token: "all"})
	answer.refused(405, "bad_request")
	require.Equal(t, "GET, POST", answer.Header.Get("allow"))
	s.do(call{method: "BREW", path: "/v1/things"}).refused(405, "bad_request")
}

func TestStatusOfEveryFaultCode(t *testing.T) {
	t.Parallel()
	table := map[fault.Code]int{
		fault.ValidationFailed: 400, fault.BadRequest: 400, fault.Unauthorized: 401, fault.Forbidden: 403, fault.OrgPaused: 403,
		fault.NotFound: 404, fault.Conflict: 409, fault.IdempotencyConflict: 409, fault.PayloadTooLarge: 413,
		fault.UnsupportedMediaType: 415, fault.ContactOptedOut: 422, fault.ConsentRequired: 422, fault.RateLimited: 429,
		fault.Internal: 500, fault.Unavailable: 503, fault.UnknownOutcome: 503,
	}
	s := serve(t, nil, func(api *httpapi.API, _ *records) {
		httpapi.Read(api, httpapi.Route{Method: "GET", Path: "/v1/faults/{id}", ID: "fault", Access: anybody()},
			func(_ context.Context, _ *httpapi.Call, in *httpapi.IDParam) (thing, error) {
				f := fault.New(fault.Code(in.ID), "No.").With("contact_id", "ctc_1")
				f.RetryAfter = 1200 * time.Millisecond
				return thing{}, errors.Join(errors.New("outer"), f)
			})
	})
	for code, status := range table {
		answer := s.get("/v1/faults/" + string(code))
		body := answer.refused(status, string(code))
		require.Equal(t, "ctc_1", body.Error.Details["contact_id"])
		wait := ""
		if status == 429 || status == 503 {
			wait = "2" // whole seconds, rounded up
		}
		require.Equal(t, wait, answer.Header.Get("retry-after"))
	}
	s.get("/v1/faults/made_up").refused(500, "internal_error")
}

func TestPanicIs500AndLoggedOnceWithItsRequestID(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, func(api *httpapi.API, _ *records) {
		httpapi.Read(api, httpapi.Route{Method: "GET", Path: "/v1/panic", ID: "panic", Access: anybody()},
			func(context.Context, *httpapi.Call, *struct{}) (thing, error) { panic("+12125550123") })
	})
	answer := s.get("/v1/panic")
	body := answer.refused(500, "internal_error")
	logs := s.logs.String()
	require.Equal(t, 1, strings.Count(logs, `"msg":"httpapi: panic"`))
	require.Contains(t, logs, body.Error.RequestID)
	require.NotContains(t, logs, "+12125550123")
	require.NotContains(t, string(answer.Body), "goroutine")
}

func TestUnexpectedErrorIs500WithoutItsText(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, func(api *httpapi.API, _ *records) {
		httpapi.Read(api, httpapi.Route{Method: "GET", Path: "/v1/broken", ID: "broken", Access: anybody()},
			func(context.Context, *httpapi.Call, *struct{}) (thing, error) {
				return thing{}, errors.New("relation contacts does not exist")
			})
	})
	answer := s.get("/v1/broken")
	answer.refused(500, "internal_error")
	require.NotContains(t, string(answer.Body), "relation")
	require.Equal(t, 1, strings.Count(s.logs.String(), "relation contacts does not exist"))
}

func TestExceededDeadlineIs503(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *httpapi.Config) { c.RequestTimeout = time.Millisecond }, func(api *httpapi.API, _ *records) {
		httpapi.Read(api, httpapi.Route{Method: "GET", Path: "/v1/slow", ID: "slow", Access: anybody()},
			func(ctx context.Context, _ *httpapi.Call, _ *struct{}) (thing, error) {
				<-ctx.Done()
				return thing{}, ctx.Err()
			})
	})
	answer := s.get("/v1/slow")
	answer.refused(503, "service_unavailable")
	require.Equal(t, "1", answer.Header.Get("retry-after"))
}

func TestClientThatLeavesIsNotLoggedAsAFailure(t *testing.T) {
	t.Parallel()
	inside, done := make(chan struct{}), make(chan struct{})
	s := serve(t, nil, func(api *httpapi.API, _ *records) {
		httpapi.Read(api, httpapi.Route{Method: "GET", Path: "/v1/slow", ID: "slow", Access: anybody()},
			func(ctx context.Context, _ *httpapi.Call, _ *struct{}) (thing, error) {
				close(inside)
				<-ctx.Done()
				close(done)
				return thing{}, ctx.Err()
			})
	})
	ctx, leave := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/v1/slow", nil)
	require.NoError(t, err)
	request.Header.Set("authorization", "Bearer all")
	go func() {
		<-inside
		leave()
	}()
	_, err = http.DefaultClient.Do(request) //nolint:bodyclose // there is none
	require.Error(t, err)
	<-done
	require.Eventually(t, func() bool { return strings.Contains(s.logs.String(), `"status":499`) }, 5*time.Second, time.Millisecond)
	require.NotContains(t, s.logs.String(), "request failed")
}

func TestLogHasRoutesWithoutValues(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, things)
	s.get("/v1/things/thg_1234?secret=yes")
	s.get("/nowhere/+12125550123")
	require.Eventually(t, func() bool { return strings.Count(s.logs.String(), `"msg":"httpapi: request"`) == 2 }, 5*time.Second, time.Millisecond)
	logs := s.logs.String()
	require.Contains(t, logs, `"route":"/v1/things/:id"`)
	require.Contains(t, logs, `"route":"unmatched"`)
	for _, private := range []string{"thg_1234", "secret", "+12125550123", "127.0.0.1"} {
		require.NotContains(t, logs, private)
	}
}

func TestLogNamesTheCallerAndTheReasonOfARefusal(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *httpapi.Config) { c.LogAddresses = true }, things)
	s.get("/v1/things/thg_1234")
	s.do(call{method: "GET", path: "/v1/things/thg_1234", token: "nobody"})
	s.do(call{method: "GET", path: "/v1/things/thg_1234", token: "session:owner"})
	require.Eventually(t, func() bool { return strings.Count(s.logs.String(), `"msg":"httpapi: request"`) == 3 }, 5*time.Second, time.Millisecond)
	lines := strings.Split(s.logs.String(), "\n")
	for i, parts := range [][]string{
		{`"caller":"key:key_all"`, `"workspace_id":"` + workspace.String() + `"`, `"address":"127.0.0.1"`},
		{`"status":401`, `"code":"unauthorized"`},
		{`"caller":"session:user-owner"`},
	} {
		for _, part := range parts {
			require.Contains(t, lines[i], part)
		}
	}
	require.NotContains(t, lines[1], "nobody")
	metrics := s.do(call{method: "GET", path: "/metrics"})
	require.Contains(t, string(metrics.Body), `ledgerline_http_refusals_total{code="unauthorized"} 1`)
}

func TestBodyThatBreaksOffIs400(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, things)
	connection, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(t, err)
	defer connection.Close()
	_, err = io.WriteString(connection, "POST /v1/things HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer all\r\n"+
		"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
	require.NoError(t, err)
	answer, err := io.ReadAll(connection)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(answer), "HTTP/1.1 400 "), string(answer))
}
