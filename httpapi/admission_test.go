package httpapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/httpapi"
	"ledgerline/httpapi/auth"
)

// twoOrganisations knows the tokens of everybody, and the token "other" of another organisation.
func twoOrganisations() callers {
	all := everybody()
	other := key("key_other", auth.ScopeRead, auth.ScopeSend, auth.ScopeAdmin)
	other.OrganisationID = uuid.MustParse("01920f6c-b6f1-7c40-a8b1-f7c9d3f0a2b6")
	all["other"] = other
	return all
}

func TestOneOrganisationsRequestsDoNotKeepAnothersOut(t *testing.T) {
	t.Parallel()
	inside, release := make(chan struct{}), make(chan struct{})
	s := serve(t, func(c *httpapi.Config) {
		c.Authenticator, c.Requests = twoOrganisations(), httpapi.Requests{Total: 3, PerOrganisation: 2}
	}, func(api *httpapi.API, _ *records) {
		httpapi.Read(api, httpapi.Route{Method: "GET", Path: "/v1/slow", ID: "slow", Access: anybody()},
			func(ctx context.Context, _ *httpapi.Call, _ *struct{}) (thing, error) {
				select {
				case inside <- struct{}{}:
				case <-ctx.Done():
				}
				<-release
				return thing{ID: "done"}, nil
			})
		httpapi.Read(api, httpapi.Route{Method: "GET", Path: "/v1/quick", ID: "quick", Access: anybody()},
			func(context.Context, *httpapi.Call, *struct{}) (thing, error) { return thing{ID: "done"}, nil })
	})
	const hostile = 100
	statuses := make(chan int, hostile)
	for range hostile {
		go func() {
			response, err := http.DefaultClient.Do(newRequest(t, "GET", s.url+"/v1/slow", "all"))
			if err != nil {
				statuses <- 0
				return
			}
			_ = response.Body.Close()
			statuses <- response.StatusCode
		}()
	}
	<-inside
	<-inside
	// Two requests are under way and 64 wait. The others are refused at once.
	for range hostile - 2 - 64 {
		require.Equal(t, http.StatusTooManyRequests, <-statuses)
	}
	answer := s.do(call{method: "GET", path: "/v1/quick", token: "read"})
	require.Equal(t, "concurrent_requests", answer.refused(429, "rate_limited").Error.Details["limit"])
	require.Equal(t, "1", answer.Header.Get("retry-after"))
	require.Equal(t, 200, s.do(call{method: "GET", path: "/v1/quick", token: "other"}).Status)
	go func() {
		for range inside { //nolint:revive // the waiting requests
		}
	}()
	close(release)
	for range 2 + 64 {
		require.Equal(t, http.StatusOK, <-statuses)
	}
	close(inside)
}

func TestLargeBodiesOfAnOrganisationAreBoundedByTheirBytes(t *testing.T) {
	t.Parallel()
	inside, release := make(chan struct{}), make(chan struct{})
	type in struct {
		Body struct {
			CSV string `json:"csv"`
		}
	}
	s := serve(t, func(c *httpapi.Config) { c.Authenticator = twoOrganisations() }, func(api *httpapi.API, _ *records) {
		httpapi.Write[in, struct{}](api, httpapi.Route{Method: "POST", Path: "/v1/imports", ID: "import", Access: anybody(), MaxBody: 32 << 20},
			func(_ context.Context, c *httpapi.Call, _ *in) (httpapi.WriteResult, error) {
				if c.ID == "key_all" {
					close(inside)
					<-release
				}
				return httpapi.WriteResult{Body: struct{}{}}, nil
			}, nil)
	})
	post := func(token string, size int) reply {
		return s.do(call{method: "POST", path: "/v1/imports", token: token, body: `{"csv":"` + strings.Repeat("a", size) + `"}`})
	}
	done := make(chan int)
	go func() { done <- post("all", 20<<20).Status }()
	<-inside
	require.Equal(t, 200, post("other", 20<<20).Status)
	require.Equal(t, 200, post("send", 60<<10).Status, "a small body")
	require.Equal(t, 200, post("send", 1<<20).Status)
	answer := post("send", 20<<20)
	require.Equal(t, "large_bodies", answer.refused(429, "rate_limited").Error.Details["limit"])
	close(release)
	require.Equal(t, 200, <-done)
	require.Equal(t, 200, post("send", 20<<20).Status)
}

func TestOperationsHaveAListenerOfTheirOwn(t *testing.T) {
	t.Parallel()
	m := &recordingLimiter{full: true}
	s := serve(t, func(c *httpapi.Config) { c.SeparateOps, c.Limiter = true, m }, things)
	ops := httptest.NewServer(s.api.OpsHandler())
	t.Cleanup(ops.Close)
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		s.do(call{method: "GET", path: path}).refused(404, "not_found")
		response, err := http.DefaultClient.Do(newRequest(t, "GET", ops.URL+path, ""))
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, 200, response.StatusCode)
	}
}
