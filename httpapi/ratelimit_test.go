package httpapi_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/httpapi"
	"ledgerline/httpapi/auth"
)

// recordingLimiter is a Limiter that refuses everything when full is set, and records the buckets.
type recordingLimiter struct {
	mu      sync.Mutex
	full    bool
	buckets []string
	limits  []httpapi.Limit
}

func (m *recordingLimiter) Allow(_ context.Context, bucket string, limit httpapi.Limit) (time.Duration, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.buckets, m.limits = append(m.buckets, bucket), append(m.limits, limit)
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
	require.Equal(t, httpapi.Limit{PerSecond: 50, Burst: 50}, m.limits[0])
}

func TestSendingRoutesHaveTheirOwnLimit(t *testing.T) {
	t.Parallel()
	m := &recordingLimiter{}
	s := serve(t, func(c *httpapi.Config) { c.Limiter = m }, func(api *httpapi.API, _ *records) {
		httpapi.Write[struct{}, struct{}](api, httpapi.Route{Method: "POST", Path: "/v1/messages", ID: "send", Access: anybody(), Sending: true}, doNothing[struct{}], nil)
	})
	require.Equal(t, 200, s.post("/v1/messages", "").Status)
	require.Equal(t, []string{"sending:key_all", "organisation:" + organisation.String()}, m.buckets)
	require.Equal(t, []httpapi.Limit{{PerSecond: 10, Burst: 20}, {PerSecond: 500, Burst: 500}}, m.limits)
}

func TestKnownCallersAreCountedAlsoWhenForbidden(t *testing.T) {
	t.Parallel()
	m := &recordingLimiter{}
	s := serve(t, func(c *httpapi.Config) { c.Limiter = m }, guarded(auth.Access{}))
	s.do(call{method: "GET", path: "/v1/guarded", token: "session:agent"}).refused(403, "forbidden")
	require.Equal(t, []string{"general:user-agent", "organisation:" + organisation.String()}, m.buckets)
	require.Equal(t, 200, s.do(call{method: "GET", path: "/healthz"}).Status)
	require.Len(t, m.buckets, 2)
}

func TestUnknownCallersAndOpenRoutesAreCountedByAddress(t *testing.T) {
	t.Parallel()
	m := &recordingLimiter{}
	s := serve(t, func(c *httpapi.Config) { c.Limiter = m }, guarded(auth.Access{}))
	s.do(call{method: "GET", path: "/v1/guarded", token: "wrong"}).refused(401, "unauthorized")
	s.do(call{method: "GET", path: "/v1/guarded"}).refused(401, "unauthorized")
	require.Equal(t, 200, s.do(call{method: "GET", path: "/readyz"}).Status)
	require.Equal(t, 200, s.do(call{method: "GET", path: "/metrics"}).Status)
	s.do(call{method: "GET", path: "/v1/guarded", token: "revoked"}).refused(401, "unauthorized")
	address := "address:127.0.0.1"
	require.Equal(t, []string{address, address, address, address, "general:revoked", address}, m.buckets)
	m.full = true
	s.do(call{method: "GET", path: "/v1/guarded", token: "wrong"}).refused(429, "rate_limited")
	s.do(call{method: "GET", path: "/readyz"}).refused(429, "rate_limited")
	require.Equal(t, 200, s.do(call{method: "GET", path: "/healthz"}).Status)
}

// countingAuthenticator counts the calls that would ask the database.
type countingAuthenticator struct {
	callers
	asked atomic.Int64
}

func (a *countingAuthenticator) Authenticate(ctx context.Context, credentials auth.Credentials) (auth.Caller, error) {
	a.asked.Add(1)
	return a.callers.Authenticate(ctx, credentials)
}

func TestARequestOverTheLimitIsRefusedBeforeTheDatabaseIsAsked(t *testing.T) {
	t.Parallel()
	m, known := &recordingLimiter{}, &countingAuthenticator{callers: everybody()}
	s := serve(t, func(c *httpapi.Config) { c.Limiter, c.Authenticator = m, known }, things)
	require.Equal(t, 200, s.get("/v1/things").Status)
	asked := known.asked.Load()
	m.full = true
	s.get("/v1/things").refused(429, "rate_limited")
	s.do(call{method: "GET", path: "/v1/things", token: "revoked"}).refused(429, "rate_limited")
	require.Equal(t, asked, known.asked.Load())
}

func TestTheKeysOfAnOrganisationShareALimit(t *testing.T) {
	t.Parallel()
	m := &organisationLimiter{left: 3}
	s := serve(t, func(c *httpapi.Config) { c.Limiter = m }, things)
	for _, token := range []string{"all", "read", "session:owner"} {
		require.Equal(t, 200, s.do(call{method: "GET", path: "/v1/things", token: token}).Status)
	}
	for _, token := range []string{"all", "session:admin"} {
		s.do(call{method: "GET", path: "/v1/things", token: token}).refused(429, "rate_limited")
	}
}

// organisationLimiter is a Limiter that allows a number of requests of an organisation, and anything else.
type organisationLimiter struct {
	mu   sync.Mutex
	left int
}

func (m *organisationLimiter) Allow(_ context.Context, bucket string, _ httpapi.Limit) (time.Duration, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !strings.HasPrefix(bucket, "organisation:") {
		return 0, true
	}
	m.left--
	return time.Second, m.left >= 0
}

func TestASessionThatMakesUpWorkspacesHasOneBucket(t *testing.T) {
	t.Parallel()
	m := &recordingLimiter{}
	s := serve(t, func(c *httpapi.Config) { c.Limiter = m }, things)
	for range 3 {
		s.do(call{method: "GET", path: "/v1/things", token: "session:owner", header: map[string]string{"x-workspace-id": uuid.NewString()}}).refused(403, "forbidden")
	}
	require.Equal(t, []string{"general:user-owner", "general:user-owner", "general:user-owner"}, m.buckets)
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
