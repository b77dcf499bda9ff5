package httpapi_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/httpapi"
	"ledgerline/httpapi/auth"
)

var client = http.DefaultClient

func newRequest(t *testing.T, method, url, token string) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	require.NoError(t, err)
	request.Header.Set("authorization", "Bearer "+token)
	return request
}

func TestRequestWithoutAValidTokenIs401(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, things)
	for _, value := range []string{"-", "", "Bearer", "Bearer ", "Basic YTpi", "all", "Bearer all twice", "Bearer wrong", "Bearer a\tb", "Bearer é"} {
		answer := s.do(call{method: "GET", path: "/v1/things", header: map[string]string{"authorization": value}})
		answer.refused(401, "unauthorized")
		require.Equal(t, "Bearer", answer.Header.Get("www-authenticate"), value)
	}
	for _, value := range []string{"Bearer all", "bearer all", "BEARER  all"} {
		require.Equal(t, 200, s.do(call{method: "GET", path: "/v1/things", header: map[string]string{"authorization": value}}).Status)
	}
	request := newRequest(t, "GET", s.url+"/v1/things", "all")
	request.Header.Add("authorization", "Bearer read")
	response, err := client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, 401, response.StatusCode)
}

func TestUnknownCallerGets401WhateverElseIsWrong(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, things)
	s.do(call{method: "POST", path: "/v1/things", token: "wrong", body: "{", header: map[string]string{"content-type": "text/plain"}}).refused(401, "unauthorized")
	s.do(call{method: "GET", path: "/v1/things", token: "wrong", header: map[string]string{"x-workspace-id": "mine"}}).refused(401, "unauthorized")
}

func TestWorkspaceHeaderMustBeAUUID(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, things)
	get := func(value string) reply {
		return s.do(call{method: "GET", path: "/v1/things", token: "all", header: map[string]string{"x-workspace-id": value}})
	}
	require.Equal(t, 200, get(workspace.String()).Status)
	get(organisation.String()).refused(403, "forbidden")
	for _, odd := range []string{"mine", "", "{" + workspace.String() + "}", "\xff"} {
		require.Equal(t, []string{"header /x-workspace-id invalid_format"}, get(odd).issues())
	}
}

func guarded(access auth.Access) func(*httpapi.API, *records) {
	return func(api *httpapi.API, _ *records) {
		httpapi.Read(api, httpapi.Route{Method: "GET", Path: "/v1/guarded", ID: "get-guarded", Access: access},
			func(context.Context, *httpapi.Call, *struct{}) (struct{}, error) { return struct{}{}, nil })
		httpapi.Write(api, httpapi.Route{Method: "POST", Path: "/v1/guarded", ID: "post-guarded", Access: access}, doNothing[struct{}],
			func(context.Context, *httpapi.Call, httpapi.WriteResult) (struct{}, error) { return struct{}{}, nil })
	}
}

// allowed lists the tokens that may GET a route with this access.
func allowed(t *testing.T, access auth.Access) []string {
	t.Helper()
	s := serve(t, nil, guarded(access))
	var in []string
	for token := range everybody() {
		answer := s.do(call{method: "GET", path: "/v1/guarded", token: token})
		if answer.Status == 200 {
			in = append(in, token)
			continue
		}
		answer.refused(403, "forbidden")
	}
	return in
}

func TestAccessIsByScopeForKeysAndByRoleForSessions(t *testing.T) {
	t.Parallel()
	require.ElementsMatch(t, []string{"read", "all", "test", "paused"}, allowed(t, auth.Access{Keys: []auth.Scope{auth.ScopeRead}}))
	require.ElementsMatch(t, []string{"send", "admin", "all", "test", "paused"},
		allowed(t, auth.Access{Keys: []auth.Scope{auth.ScopeSend, auth.ScopeAdmin}}))
	require.ElementsMatch(t, []string{"send", "all"}, allowed(t, auth.Access{Keys: []auth.Scope{auth.ScopeSend}, NoTestKeys: true}))
	require.Empty(t, allowed(t, auth.Access{}), "the zero Access admits nobody")
	require.ElementsMatch(t, []string{"session:owner", "session:admin", "session:billing"}, allowed(t, auth.Access{Roles: auth.PermBilling}))
}

func TestPermissionsOfRoles(t *testing.T) {
	t.Parallel()
	const owner, admin, manager, developer, analyst, billing, agent = "owner", "admin", "manager", "developer", "analyst", "billing", "agent"
	table := map[auth.Permission][]string{
		auth.PermContactsRead:  {owner, admin, manager, developer, analyst, agent},
		auth.PermContacts:      {owner, admin, manager},
		auth.PermOptOut:        {owner, admin, manager, agent},
		auth.PermInboxRead:     {owner, admin, manager, developer, analyst, agent},
		auth.PermInbox:         {owner, admin, manager, agent},
		auth.PermInboxFull:     {owner, admin, manager},
		auth.PermSending:       {owner, admin, manager},
		auth.PermLinesRead:     {owner, admin, manager, developer, analyst},
		auth.PermLines:         {owner, admin, manager, developer},
		auth.PermWorkflowsRead: {owner, admin, manager, developer, analyst, agent},
		auth.PermWorkflows:     {owner, admin, manager, developer},
		auth.PermAnalytics:     {owner, admin, manager, analyst},
		auth.PermAnalyticsOwn:  {owner, admin, manager, analyst, agent},
		auth.PermAudit:         {owner, admin, manager, analyst},
		auth.PermDeveloper:     {owner, admin, developer},
		auth.PermCompliance:    {owner, admin},
		auth.PermBilling:       {owner, admin, billing},
		auth.PermPersonal:      {owner, admin, manager, developer, analyst, billing, agent},
	}
	for permission, roles := range table {
		for _, role := range []string{owner, admin, manager, developer, analyst, billing, agent} {
			caller := session(auth.Role(role))
			require.Equal(t, contains(roles, role), caller.Can(permission), "%s %b", role, permission)
		}
		nobody, key := session("made up"), key("key_1", auth.ScopeAdmin)
		key.Role = auth.RoleOwner
		require.False(t, nobody.Can(permission))
		require.False(t, key.Can(permission), "a key has no role")
	}
}

func contains(list []string, one string) bool {
	for _, have := range list {
		if have == one {
			return true
		}
	}
	return false
}

func TestPausedOrganisationMayReadAndNotWrite(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, guarded(auth.Access{Keys: []auth.Scope{auth.ScopeRead}}))
	require.Equal(t, 200, s.do(call{method: "GET", path: "/v1/guarded", token: "paused"}).Status)
	s.do(call{method: "POST", path: "/v1/guarded", token: "paused"}).refused(403, "org_paused")
	require.Equal(t, 200, s.do(call{method: "POST", path: "/v1/guarded", token: "read"}).Status)
}

func TestForwardedAddressCountsOnlyFromATrustedProxy(t *testing.T) {
	t.Parallel()
	address := func(api *httpapi.API, _ *records) {
		httpapi.Read(api, httpapi.Route{Method: "GET", Path: "/v1/address", ID: "address", Access: anybody()},
			func(_ context.Context, c *httpapi.Call, _ *struct{}) (map[string]string, error) {
				return map[string]string{"ip": c.IP.String(), "agent": c.UserAgent}, nil
			})
	}
	ask := func(s *service, forwarded string) any {
		return s.do(call{method: "GET", path: "/v1/address", token: "all", header: map[string]string{
			"x-forwarded-for": forwarded, "x-real-ip": "9.9.9.9", "user-agent": "caf\xe9\tü",
		}}).json()["ip"]
	}
	direct := serve(t, nil, address)
	require.Equal(t, "127.0.0.1", ask(direct, "1.2.3.4"))
	behind := serve(t, func(c *httpapi.Config) { c.TrustedProxies = []string{"127.0.0.0/8"} }, address)
	require.Equal(t, "1.2.3.4", ask(behind, "6.6.6.6, 1.2.3.4"))
	require.Equal(t, "127.0.0.1", ask(behind, "nonsense"))
	require.Equal(t, "2001:db8::1", ask(behind, "2001:db8::1"))
	require.Equal(t, "cafü", direct.do(call{method: "GET", path: "/v1/address", token: "all", header: map[string]string{"user-agent": "caf\xe9\tü"}}).json()["agent"])
}

func TestATokenInThePathIsTheOnlyCredentialAndIsNeverLogged(t *testing.T) {
	t.Parallel()
	const token = "wft_secret-of-the-trigger"
	trigger := auth.Caller{Kind: auth.KindTrigger, ID: workspace.String(), OrganisationID: organisation, WorkspaceID: workspace}
	s := serve(t, func(cfg *httpapi.Config) {
		known := everybody()
		known[token] = trigger
		cfg.Authenticator = known
	}, func(a *httpapi.API, _ *records) {
		httpapi.Read(a, httpapi.Route{Method: "POST", Path: "/triggers/{token}", ID: "fire", Access: auth.Access{PathToken: true}},
			func(_ context.Context, c *httpapi.Call, _ *struct {
				Token string `path:"token"`
			},
			) (thing, error) {
				require.Equal(t, c.ID, c.KeyScope().String(), "its idempotency keys are its own")
				return thing{ID: c.ID}, nil
			})
	})
	require.Equal(t, workspace.String(), s.do(call{method: "POST", path: "/triggers/" + token, header: map[string]string{"authorization": "Bearer nonsense"}}).json()["id"])
	s.do(call{method: "POST", path: "/triggers/unknown", token: "all"}).refused(401, "unauthorized")
	s.do(call{method: "POST", path: "/triggers/all"}).refused(403, "forbidden") // a key is no trigger's token
	require.Contains(t, s.logs.String(), "/triggers/:token")
	require.NotContains(t, s.logs.String(), token)
}
