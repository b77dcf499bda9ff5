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

// meter is a Limiter that lets nobody in once it is full, and remembers what it was asked.
type meter struct {
	mu    sync.Mutex
	full  bool
	asked []string
	limit httpapi.Limit
}

func (m *meter) Allow(_ context.Context, bucket string, limit httpapi.Limit) (time.Duration, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked, m.limit = append(m.asked, bucket), limit
	return 20 * time.Millisecond, !m.full
}

func TestOverTheLimitIs429WithRetryAfter(t *testing.T) {
	t.Parallel()
	m := &meter{full: true}
	s := serve(t, func(c *httpapi.Config) { c.Limiter = m }, things)
	answer := s.get("/v1/things")
	answer.refused(429, "rate_limited")
	require.Equal(t, "1", answer.Header.Get("retry-after"))
	require.Equal(t, []string{"general:key_all"}, m.asked)
	require.Equal(t, httpapi.Limit{PerSecond: 50, Burst: 50}, m.limit)
}

func TestSendingHasItsOwnLimit(t *testing.T) {
	t.Parallel()
	m := &meter{}
	s := serve(t, func(c *httpapi.Config) { c.Limiter = m }, func(api *httpapi.API, _ *receipts) {
		httpapi.Write[struct{}, struct{}](api, httpapi.Route{Method: "POST", Path: "/v1/messages", ID: "send", Access: anybody(), Sending: true}, doNothing[struct{}], nil)
	})
	require.Equal(t, 200, s.post("/v1/messages", "").Status)
	require.Equal(t, []string{"sending:key_all"}, m.asked)
	require.Equal(t, httpapi.Limit{PerSecond: 10, Burst: 20}, m.limit)
}

func TestOnlyWhoIsKnownIsCountedAndWhoIsForbiddenIsCountedToo(t *testing.T) {
	t.Parallel()
	m := &meter{}
	s := serve(t, func(c *httpapi.Config) { c.Limiter = m }, guarded(auth.Access{}))
	s.do(call{method: "GET", path: "/v1/guarded", token: "wrong"}).refused(401, "unauthorized")
	require.Empty(t, m.asked)
	s.do(call{method: "GET", path: "/v1/guarded", token: "session:agent"}).refused(403, "forbidden")
	require.Equal(t, []string{"general:session-agent"}, m.asked)
	require.Equal(t, 200, s.do(call{method: "GET", path: "/healthz"}).Status)
	require.Len(t, m.asked, 1)
}

func TestTheMemoryLimiterServesRealRequests(t *testing.T) {
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
