package httpapi_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/httpapi"
	"ledgerline/httpapi/auth"
)

// recordingLimiter is a Limiter that refuses everything when full is set, and records the buckets.
type recordingLimiter struct {
	mu      sync.Mutex
	full    bool
	buckets []string
	limit   httpapi.Limit
}

func (m *recordingLimiter) Allow(_ context.Context, bucket string, limit httpapi.Limit) (time.Duration, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.buckets, m.limit = append(m.buckets, bucket), limit
	return 20 * time.Millisecond, !m.full
}

func TestOverTheLimitIs429WithRetryAfter(t *testing.T) {
	t.Parallel()
	m := &recordingLimiter{full: true}
	s := serve(t, func(c *httpapi.Config) { c.Limiter = m }, things)
	answer := s.get("/v1/things")
	answer.refused(429, "rate_limited")
	require.Equal(t, "1", answer.Header.Get("retry-after"))
	require.Equal(t, []string{"general:key_all"}, m.buckets)
	require.Equal(t, httpapi.Limit{PerSecond: 50, Burst: 50}, m.limit)
}

func TestSendingRoutesHaveTheirOwnLimit(t *testing.T) {
	t.Parallel()
	m := &recordingLimiter{}
	s := serve(t, func(c *httpapi.Config) { c.Limiter = m }, func(api *httpapi.API, _ *records) {
		httpapi.Write[struct{}, struct{}](api, httpapi.Route{Method: "POST", Path: "/v1/messages", ID: "send", Access: anybody(), Sending: true}, doNothing[struct{}], nil)
	})
	require.Equal(t, 200, s.post("/v1/messages", "").Status)
	require.Equal(t, []string{"sending:key_all"}, m.buckets)
	require.Equal(t, httpapi.Limit{PerSecond: 10, Burst: 20}, m.limit)
}

func TestKnownCallersAreCountedAlsoWhenForbidden(t *testing.T) {
	t.Parallel()
	m := &recordingLimiter{}
	s := serve(t, func(c *httpapi.Config) { c.Limiter = m }, guarded(auth.Access{}))
	s.do(call{method: "GET", path: "/v1/guarded", token: "wrong"}).refused(401, "unauthorized")
	require.Empty(t, m.buckets)
	s.do(call{method: "GET", path: "/v1/guarded", token: "session:agent"}).refused(403, "forbidden")
	require.Equal(t, []string{"general:session-agent"}, m.buckets)
	require.Equal(t, 200, s.do(call{method: "GET", path: "/healthz"}).Status)
	require.Len(t, m.buckets, 1)
}

func TestMemoryLimiterLimitsRequests(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *httpapi.Config) { c.Limiter = httpapi.NewMemoryLimiter() }, things)
	limited := 0
	for range 200 {
		if answer := s.get("/v1/things/thg_1234"); answer.Status == 429 {
			require.Equal(t, "1", answer.Header.Get("retry-after"))
			limited++
		}
	}
	require.NotEqual(t, 200, limited)
}
