package httpapi_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"ledgerline/httpapi"
)

func TestReadinessFollowsTheChecks(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, things)
	var down atomic.Bool
	s.api.AddReadinessCheck("database", func(context.Context) error {
		if down.Load() {
			return errors.New("password of user postgres is wrong")
		}
		return nil
	})
	ask := func(path string) reply { return s.do(call{method: "GET", path: path}) }
	require.JSONEq(t, `{"status":"ok"}`, string(ask("/healthz").Body))
	require.JSONEq(t, `{"status":"ok","checks":{"database":"ok"}}`, string(ask("/readyz").Body))
	down.Store(true)
	answer := ask("/readyz")
	require.Equal(t, 503, answer.Status)
	require.JSONEq(t, `{"status":"failing","checks":{"database":"failing"}}`, string(answer.Body))
	require.Equal(t, 200, ask("/healthz").Status)
}

func TestRequestsAreCountedByRoute(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, things)
	s.get("/v1/things/thg_1234")
	s.get("/v1/things/xyz")
	s.get("/nowhere/thg_1234")
	s.do(call{method: "BREW", path: "/v1/things", token: "all"})
	require.Eventually(t, func() bool {
		metrics := string(s.do(call{method: "GET", path: "/metrics"}).Body)
		for _, line := range []string{
			`ledgerline_http_requests_total{method="GET",route="/v1/things/:id",status="200"} 1`,
			`ledgerline_http_requests_total{method="GET",route="/v1/things/:id",status="404"} 1`,
			`ledgerline_http_requests_total{method="GET",route="unmatched",status="404"} 1`,
			`ledgerline_http_requests_total{method="other",route="unmatched",status="405"} 1`,
			`ledgerline_http_request_duration_seconds_count{method="GET",route="/v1/things/:id"} 2`,
		} {
			if !strings.Contains(metrics, line) {
				return false
			}
		}
		return !strings.Contains(metrics, "thg_1234")
	}, 5*time.Second, 5*time.Millisecond)
}

//nolint:paralleltest // it sets the process's tracer
func TestSpanHasTheRouteAndNoPersonalData(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	otel.SetTracerProvider(sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)))
	s := serve(t, func(c *httpapi.Config) { c.Tracing = true }, things)
	s.get("/v1/things/thg_1234?q=ann")
	require.Eventually(t, func() bool { return len(recorder.Ended()) == 1 }, 5*time.Second, time.Millisecond)
	span := recorder.Ended()[0]
	require.Equal(t, "GET /v1/things/:id", span.Name())
	for _, attribute := range span.Attributes() {
		require.NotContains(t, attribute.Value.String(), "thg_1234")
		require.NotContains(t, attribute.Value.String(), "127.0.0.1")
	}
}

func TestTracingIsOffWithoutAnEndpoint(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "")
	stop, on, err := httpapi.StartTracing(t.Context(), "ledgerline", "1")
	require.NoError(t, err)
	require.False(t, on)
	require.NoError(t, stop(t.Context()))
}

func TestStoppingServerLetsRequestsFinish(t *testing.T) {
	t.Parallel()
	inside, release := make(chan struct{}), make(chan struct{})
	api, _, _ := newAPI(t, nil)
	httpapi.Read(api, httpapi.Route{Method: "GET", Path: "/v1/slow", ID: "slow", Access: anybody()},
		func(context.Context, *httpapi.Call, *struct{}) (thing, error) {
			close(inside)
			<-release
			return thing{ID: "finished"}, nil
		})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- httpapi.Serve(ctx, httpapi.NewServer(api.Handler(), nil), listener, 10*time.Second) }()
	status := make(chan int, 1)
	go func() {
		response, err := http.DefaultClient.Do(newRequest(t, "GET", "http://"+listener.Addr().String()+"/v1/slow", "all"))
		if err != nil {
			status <- 0
			return
		}
		defer response.Body.Close()
		status <- response.StatusCode
	}()
	<-inside
	stop()
	close(release)
	require.Equal(t, 200, <-status)
	require.NoError(t, <-stopped)
}

func TestIncompleteConfigurationIsRefused(t *testing.T) {
	t.Parallel()
	_, err := httpapi.New(httpapi.Config{})
	require.Error(t, err)
	_, err = httpapi.New(httpapi.Config{Authenticator: everybody(), TrustedProxies: []string{"nonsense"}})
	require.Error(t, err)
}
