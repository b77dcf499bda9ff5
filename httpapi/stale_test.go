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

// aging is an Authenticator whose answer may be a moment old, unless it is asked for a fresh one.
type aging struct {
	mu    sync.Mutex
	asked []bool // whether fresh
	fresh func() (auth.Caller, error)
}

func (a *aging) Authenticate(_ context.Context, credentials auth.Credentials) (auth.Caller, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, credentials.Fresh)
	if credentials.Fresh {
		return a.fresh()
	}
	old := key("key_all", auth.ScopeSend)
	old.Guards = []auth.Guard{{Stream: "key-1", Version: 1}}
	return old, nil
}

// leaning writes only for a caller whose guard is of version 2, and remembers what it did under a key.
func leaning(t *testing.T, fresh func() (auth.Caller, error)) (*service, *aging) {
	t.Helper()
	callers := &aging{fresh: fresh}
	s := serve(t, func(c *httpapi.Config) { c.Authenticator = callers }, func(api *httpapi.API, kept *receipts) {
		httpapi.Write(api, httpapi.Route{Method: "POST", Path: "/v1/entries", ID: "entry", Access: anybody()},
			func(_ context.Context, c *httpapi.Call, _ *struct{}) (httpapi.WriteResult, error) {
				if len(c.Guards) == 0 || c.Guards[0].Version != 2 {
					return httpapi.WriteResult{}, fmt.Errorf("append: %w", auth.ErrCredentialChanged)
				}
				if c.Idempotency != nil {
					if err := kept.append(c.WorkspaceID, c.Idempotency.Key, httpapi.IdempotencyRecord{Fingerprint: c.Idempotency.Fingerprint, Status: 200}); err != nil {
						return httpapi.WriteResult{}, err
					}
				}
				return httpapi.WriteResult{Body: entry{Ref: "done"}}, nil
			}, func(context.Context, *httpapi.Call, httpapi.WriteResult) (entry, error) {
				return entry{Ref: "done"}, nil
			})
	})
	return s, callers
}

func TestAWriteThatMeetsAChangedCredentialIsRunAgainAfresh(t *testing.T) {
	t.Parallel()
	s, callers := leaning(t, func() (auth.Caller, error) {
		caller := key("key_all", auth.ScopeSend)
		caller.Guards = []auth.Guard{{Stream: "key-1", Version: 2}}
		return caller, nil
	})
	require.Equal(t, 200, s.postKey("/v1/entries", "k1", "").Status)
	require.Equal(t, []bool{false, true}, callers.asked)
}

func TestAKeyThatWasRevokedMeanwhileWritesAndLearnsNothing(t *testing.T) {
	t.Parallel()
	s, _ := leaning(t, func() (auth.Caller, error) {
		return auth.Caller{}, fault.New(fault.Unauthorized, "The token is not valid.")
	})
	earlier := httpapi.IdempotencyRecord{Status: 200, Body: []byte(`{"secret":"yes"}`)}
	require.NoError(t, s.receipts.append(workspace, "k1", earlier))
	answer := s.postKey("/v1/entries", "k1", "")
	answer.refused(401, "unauthorized")
	require.NotContains(t, string(answer.Body), "secret")
	s.postKey("/v1/entries", "k2", "").refused(401, "unauthorized")
	s.post("/v1/entries", "").refused(401, "unauthorized")
}

func TestACallerWhoLostAccessMeanwhileIsForbidden(t *testing.T) {
	t.Parallel()
	s, _ := leaning(t, func() (auth.Caller, error) { return key("key_all"), nil })
	s.post("/v1/entries", "").refused(403, "forbidden")
	paused, _ := leaning(t, func() (auth.Caller, error) {
		caller := key("key_all", auth.ScopeSend)
		caller.OrgPaused = true
		return caller, nil
	})
	paused.post("/v1/entries", "").refused(403, "org_paused")
}

func TestACredentialThatKeepsChangingIs503(t *testing.T) {
	t.Parallel()
	s, callers := leaning(t, func() (auth.Caller, error) { return key("key_all", auth.ScopeSend), nil })
	s.post("/v1/entries", "").refused(503, "service_unavailable")
	require.Equal(t, []bool{false, true}, callers.asked, "once more, and not forever")
}
