package httpapi_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/fault"
	"ledgerline/httpapi"
	"ledgerline/httpapi/auth"
)

// cachingAuthenticator answers differently from its cache and at the head of the ledger.
type cachingAuthenticator struct {
	cached, fresh func() (auth.Caller, error)

	mu    sync.Mutex
	calls []bool // the Fresh of every call
}

func (a *cachingAuthenticator) Identify(context.Context, auth.Credentials) (auth.Identity, error) {
	return auth.Identity{Key: "key", Base: "key"}, nil
}

func (a *cachingAuthenticator) Authenticate(_ context.Context, credentials auth.Credentials) (auth.Caller, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = append(a.calls, credentials.Fresh)
	if credentials.Fresh {
		return a.fresh()
	}
	return a.cached()
}

func validCaller() (auth.Caller, error) { return key("key_all", auth.ScopeSend), nil }

func refusedCaller() (auth.Caller, error) {
	return auth.Caller{}, fault.New(fault.Unauthorized, "The token is not valid.")
}

// callerWithGuard is a valid caller whose key has a version.
func callerWithGuard(version int) func() (auth.Caller, error) {
	return func() (auth.Caller, error) {
		caller := key("key_all", auth.ScopeSend)
		caller.Guards = []auth.Guard{{Stream: "key-1", Version: version}}
		return caller, nil
	}
}

// serveEntries serves POST /v1/entries. An entry is appended only if check returns nil.
func serveEntries(t *testing.T, callers *cachingAuthenticator, check func(c *httpapi.Call) error) *service {
	t.Helper()
	configure := func(c *httpapi.Config) { c.Authenticator = callers }
	return serve(t, configure, func(api *httpapi.API, kept *records) {
		httpapi.Write(api, httpapi.Route{Method: "POST", Path: "/v1/entries", ID: "entry", Access: anybody()},
			func(_ context.Context, c *httpapi.Call, _ *struct{}) (httpapi.WriteResult, error) {
				if err := check(c); err != nil {
					return httpapi.WriteResult{}, err
				}
				if i := c.Idempotency; i != nil {
					record := httpapi.IdempotencyRecord{Actor: c.Actor(), Fingerprint: i.Fingerprint, Status: 200}
					if err := kept.append(c.WorkspaceID, i.Key, record); err != nil {
						return httpapi.WriteResult{}, err
					}
				}
				return httpapi.WriteResult{Body: entry{Ref: "done"}}, nil
			}, func(context.Context, *httpapi.Call, httpapi.WriteResult) (entry, error) {
				return entry{Ref: "done"}, nil
			})
	})
}

// serveGuarded serves entries whose append requires version 2 of the caller's key. The cached caller has version 1.
func serveGuarded(t *testing.T, fresh func() (auth.Caller, error)) (*service, *cachingAuthenticator) {
	t.Helper()
	callers := &cachingAuthenticator{cached: callerWithGuard(1), fresh: fresh}
	return serveEntries(t, callers, func(c *httpapi.Call) error {
		if len(c.Guards) == 0 || c.Guards[0].Version != 2 {
			return fmt.Errorf("append: %w", auth.ErrCredentialChanged)
		}
		return nil
	}), callers
}

func TestWriteWithAChangedCredentialRunsAgainWithTheFreshCaller(t *testing.T) {
	t.Parallel()
	s, callers := serveGuarded(t, callerWithGuard(2))
	require.Equal(t, 200, s.postKey("/v1/entries", "k1", "").Status)
	require.Equal(t, []bool{false, true}, callers.calls)
}

func TestRevokedKeyWritesNothingAndLearnsNoStoredAnswer(t *testing.T) {
	t.Parallel()
	s, _ := serveGuarded(t, refusedCaller)
	stored := httpapi.IdempotencyRecord{Actor: "key:key_all", Status: 200, Body: []byte(`{"secret":"yes"}`)}
	require.NoError(t, s.records.append(workspace, "k1", stored))
	answer := s.postKey("/v1/entries", "k1", "")
	answer.refused(401, "unauthorized")
	require.NotContains(t, string(answer.Body), "secret")
	s.postKey("/v1/entries", "k2", "").refused(401, "unauthorized")
	s.post("/v1/entries", "").refused(401, "unauthorized")
}

func TestCallerThatLostItsAccessMeanwhileIsForbidden(t *testing.T) {
	t.Parallel()
	s, _ := serveGuarded(t, func() (auth.Caller, error) { return key("key_all"), nil })
	s.post("/v1/entries", "").refused(403, "forbidden")
	paused, _ := serveGuarded(t, func() (auth.Caller, error) {
		caller := key("key_all", auth.ScopeSend)
		caller.OrgPaused = true
		return caller, nil
	})
	paused.post("/v1/entries", "").refused(403, "org_paused")
}

func TestCredentialThatKeepsChangingIs503(t *testing.T) {
	t.Parallel()
	s, callers := serveGuarded(t, validCaller)
	s.post("/v1/entries", "").refused(503, "service_unavailable")
	require.Equal(t, []bool{false, true}, callers.calls, "one retry, not more")
}

func TestCallerIsNotRefusedBecauseOfACachedCredential(t *testing.T) {
	t.Parallel()
	for name, cached := range map[string]func() (auth.Caller, error){
		"unknown":  refusedCaller,
		"no scope": func() (auth.Caller, error) { return key("key_all"), nil },
		"paused": func() (auth.Caller, error) {
			c := key("key_all", auth.ScopeSend)
			c.OrgPaused = true
			return c, nil
		},
	} {
		callers := &cachingAuthenticator{cached: cached, fresh: validCaller}
		s := serveEntries(t, callers, func(*httpapi.Call) error { return nil })
		require.Equal(t, 200, s.post("/v1/entries", "").Status, name)
	}
}

func TestStoredAnswerIsGivenOnlyToACallerThatIsStillValid(t *testing.T) {
	t.Parallel()
	revoked := false
	callers := &cachingAuthenticator{cached: validCaller, fresh: func() (auth.Caller, error) {
		if revoked {
			return refusedCaller()
		}
		return validCaller()
	}}
	s := serveEntries(t, callers, func(*httpapi.Call) error { return nil })
	require.Equal(t, 200, s.postKey("/v1/entries", "k1", "").Status)
	require.Equal(t, 200, s.postKey("/v1/entries", "k1", "").Status)
	revoked = true
	s.postKey("/v1/entries", "k1", "").refused(401, "unauthorized")
}
