package httpapi_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/fault"
	"ledgerline/httpapi"
	"ledgerline/httpapi/auth"
)

// remembering is an Authenticator that answers differently from memory and afresh.
type remembering struct {
	old, fresh func() (auth.Caller, error)
}

func (r remembering) Authenticate(_ context.Context, credentials auth.Credentials) (auth.Caller, error) {
	if credentials.Fresh {
		return r.fresh()
	}
	return r.old()
}

func writing(t *testing.T, callers remembering) *service {
	t.Helper()
	return serve(t, func(c *httpapi.Config) { c.Authenticator = callers }, func(api *httpapi.API, kept *receipts) {
		httpapi.Write(api, httpapi.Route{Method: "POST", Path: "/v1/entries", ID: "entry", Access: anybody()},
			func(_ context.Context, c *httpapi.Call, _ *struct{}) (httpapi.WriteResult, error) {
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
}

func good() (auth.Caller, error) { return key("key_all", auth.ScopeSend), nil }

func TestNobodyIsRefusedOnWhatIsAMomentOld(t *testing.T) {
	t.Parallel()
	for name, old := range map[string]func() (auth.Caller, error){
		"unknown": func() (auth.Caller, error) { return auth.Caller{}, fault.New(fault.Unauthorized, "Unknown.") },
		"no scope": func() (auth.Caller, error) {
			return key("key_all"), nil
		},
		"paused": func() (auth.Caller, error) {
			c := key("key_all", auth.ScopeSend)
			c.OrgPaused = true
			return c, nil
		},
	} {
		s := writing(t, remembering{old: old, fresh: good})
		require.Equal(t, 200, s.post("/v1/entries", "").Status, name)
	}
}

func TestAnEarlierAnswerIsToldOnlyToWhomMayComeNow(t *testing.T) {
	t.Parallel()
	revoked := false
	s := writing(t, remembering{old: good, fresh: func() (auth.Caller, error) {
		if revoked {
			return auth.Caller{}, fault.New(fault.Unauthorized, "Unknown.")
		}
		return good()
	}})
	require.Equal(t, 200, s.postKey("/v1/entries", "k1", "").Status)
	require.Equal(t, 200, s.postKey("/v1/entries", "k1", "").Status)
	revoked = true
	s.postKey("/v1/entries", "k1", "").refused(401, "unauthorized")
}
