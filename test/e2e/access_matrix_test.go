package e2e_test

import (
	"bufio"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/apikey"
	"ledgerline/domain/organisation"
	"ledgerline/test/app"
)

// accessMatrix states for every route of the service who may call it. Its own comment explains the columns.
const accessMatrix = "testdata/access_matrix.txt"

// rights says who may call a route: scopes of live keys, scopes of test keys, and roles.
type rights struct{ live, test, roles []string }

// readAccessMatrix returns the rights of each route that needs a credential, and the routes that need none. A route is
// "GET /v1/contacts/{id}".
func readAccessMatrix(t *testing.T) (protected map[string]rights, public []string) {
	t.Helper()
	file, err := os.Open(accessMatrix)
	require.NoError(t, err)
	defer file.Close()
	protected = map[string]rights{}
	list := func(cell string) []string {
		if strings.TrimSpace(cell) == "-" {
			return nil
		}
		return strings.Fields(cell)
	}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(line, "|")
		route := strings.Join(strings.Fields(cells[0]), " ")
		require.NotContains(t, protected, route, "stated twice")
		if len(cells) == 2 && strings.TrimSpace(cells[1]) == "public" {
			public = append(public, route)
			continue
		}
		require.Len(t, cells, 4, "%s: %s", accessMatrix, line)
		protected[route] = rights{list(cells[1]), list(cells[2]), list(cells[3])}
	}
	require.NoError(t, lines.Err())
	return protected, public
}

// namedParameter is a path parameter as gin writes it.
var namedParameter = regexp.MustCompile(`:(\w+)`)

// servedRoutes lists every route that the service registered, documented or not.
func servedRoutes(a *app.App) []string {
	var routes []string
	for _, r := range a.Nodes[0].API.Engine().Routes() {
		routes = append(routes, r.Method+" "+namedParameter.ReplaceAllString(r.Path, "{$1}"))
	}
	slices.Sort(routes)
	return slices.Compact(routes)
}

// matrixCaller is one column of the matrix: a credential, and the name under which a cell admits it.
type matrixCaller struct {
	name   string
	client *app.Client
	admits func(r rights) bool
}

func matrixCallers(a *app.App) []matrixCaller {
	var callers []matrixCaller
	for _, scope := range []apikey.Scope{apikey.Read, apikey.Send, apikey.Admin} {
		callers = append(callers,
			matrixCaller{"a live key with " + string(scope), a.Key(apikey.Live, nil, scope), func(r rights) bool { return slices.Contains(r.live, string(scope)) }},
			matrixCaller{"a test key with " + string(scope), a.Key(apikey.Test, nil, scope), func(r rights) bool { return slices.Contains(r.test, string(scope)) }},
		)
	}
	for _, role := range organisation.Roles() {
		callers = append(callers, matrixCaller{"a session as " + string(role), a.Sessions[role], func(r rights) bool { return slices.Contains(r.roles, string(role)) }})
	}
	return callers
}

// withID fills the parameters of a route. A request without a body is enough to see whether a caller is admitted:
// access is checked before the body is read.
func withID(route, id string) (method, path string) {
	method, path, _ = strings.Cut(route, " ")
	return method, regexp.MustCompile(`\{\w+\}`).ReplaceAllString(path, id)
}

func refusedByAccess(a app.Answer) bool {
	return a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden
}

func TestEveryRouteStatesWhoMayCallIt(t *testing.T) {
	t.Parallel()
	protected, public := readAccessMatrix(t)
	stated := slices.Clone(public)
	for route := range protected {
		stated = append(stated, route)
	}
	slices.Sort(stated)
	require.Equal(t, stated, servedRoutes(app.Start(t)), "a new route needs a line in %s, and a removed one loses its line", accessMatrix)
}

func TestEveryRouteAdmitsTheCallersThatTheMatrixNamesAndNobodyElse(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	protected, _ := readAccessMatrix(t)
	for _, caller := range matrixCallers(a) {
		for route, r := range protected {
			method, path := withID(route, "none")
			answer := caller.client.Do(method, path, nil)
			if caller.admits(r) {
				require.False(t, refusedByAccess(answer), "%s calls %s: %s", caller.name, route, answer.Raw)
				require.Less(t, answer.Status, 500, "%s calls %s: %s", caller.name, route, answer.Raw)
			} else {
				require.True(t, refusedByAccess(answer), "%s calls %s: %d %s", caller.name, route, answer.Status, answer.Raw)
			}
		}
	}
}

func TestEveryProtectedRouteRefusesCallersWithoutAValidCredential(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	protected, _ := readAccessMatrix(t)
	revoked := a.NewKey(apikey.Live, nil, apikey.Read, apikey.Send, apikey.Admin)
	_, err := a.Nodes[0].App.RevokeAPIKey(t.Context(), a.Operator(), revoked.ID, nil)
	require.NoError(t, err)
	callers := map[string]*app.Client{
		"nobody": a.Anonymous(), "an empty token": a.As(""), "nonsense": a.As("nonsense"),
		"a made-up key": a.As("ll_live_" + strings.Repeat("a", 40)), "a revoked key": a.As(revoked.Secret),
		"another scheme": a.Anonymous().Header("authorization", "Basic abc"),
	}
	for name, client := range callers {
		for route := range protected {
			method, path := withID(route, "none")
			answer := client.Do(method, path, nil)
			require.Equal(t, http.StatusUnauthorized, answer.Status, "%s calls %s: %s", name, route, answer.Raw)
		}
	}
}

func TestEveryProtectedRouteRefusesTheHeaderOfAWorkspaceThatTheCallerIsNotIn(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	protected, _ := readAccessMatrix(t)
	stranger := a.NewOrganisation("Stranger")
	for _, workspace := range []string{stranger.ID.String(), uuid.NewString()} {
		for _, client := range []*app.Client{a.Live, a.Test, a.Sessions[organisation.Owner]} {
			for route := range protected {
				method, path := withID(route, "none")
				answer := client.Header("x-workspace-id", workspace).Do(method, path, nil)
				require.Equal(t, http.StatusForbidden, answer.Status, "%s: %s", route, answer.Raw)
			}
		}
	}
}

// resourceIDs creates one resource of every kind in a workspace, and returns their ids by the first part of the path.
func resourceIDs(a *app.App, w *app.Workspace) map[string]string {
	phone := a.Phone()
	contact := w.Live.Post("/v1/contacts", app.Map{"phone": phone, "consent_status": "opted_in", "consent_source": "form"}).Is(201).Text("id")
	message := w.Live.Post("/v1/messages", app.Map{"contact_id": contact, "body": "x"}).Is(201).Text("id")
	a.Settle()
	workflowOf(w, "contact.created", app.Map{}, graph(nil))
	w.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
	a.Settle()
	hook := w.Live.Post("/v1/webhooks", app.Map{"url": "https://example.com/hook", "events": []string{"contact.created"}}).Is(201).Text("id")
	return map[string]string{
		"contacts": contact, "messages": message, "webhooks": hook,
		"conversations":      text(w.Live.Get("/v1/conversations").Is(200).Data()[0], "id"),
		"labels":             w.Live.Post("/v1/labels", app.Map{"name": "vip"}).Is(201).Text("id"),
		"segments":           w.Live.Post("/v1/segments", app.Map{"name": "all", "definition": leaf("first_name", "exists", true)}).Is(201).Text("id"),
		"saved-replies":      w.Live.Post("/v1/saved-replies", app.Map{"title": "hi", "body": "hi"}).Is(201).Text("id"),
		"lines":              w.Lines[0].ID,
		"pools":              w.PoolID,
		"api-keys":           w.NewKey(apikey.Live, nil, apikey.Read).ID,
		"service-identities": w.Live.Post("/v1/service-identities", app.Map{"name": "crm", "scopes": []string{"read"}}).Is(201).Text("id"),
		"agents":             w.Live.Post("/v1/agents", app.Map{"name": "helper", "instructions": "Help."}).Is(201).Text("id"),
		"outreach": w.Live.Post("/v1/outreach", app.Map{
			"name": "news", "contact_ids": []string{contact}, "body": "x", "send_at": a.Clock.Now().Add(time.Hour).Format(time.RFC3339),
		}).Is(201).Text("id"),
		"workflow-runs":      text(runsOf(w, "")[0], "id"),
		"workflows":          w.Live.Post("/v1/workflows", app.Map{"name": "welcome", "trigger": "contact.created"}).Is(201).Text("id"),
		"sms-connections":    w.Live.Post("/v1/sms-connections", app.Map{"account_sid": smsAccount, "auth_token": smsToken}).Is(201).Text("id"),
		"webhook-deliveries": w.Live.Post("/v1/webhooks/"+hook+"/test", nil).Is(202).Text("id"),
	}
}

// bodies are the bodies with which a request to a route about one resource is complete; other routes need none.
var bodies = map[string]app.Map{
	"PATCH /v1/contacts/{id}":              {"first_name": "Ada"},
	"POST /v1/sms-connections/{id}/test":   {"to": "+14155550134"},
	"PATCH /v1/sms-connections/{id}":       {"prefix_org_name": true},
	"POST /v1/webhooks/{id}/replay":        {"from": "2026-03-01T00:00:00Z", "to": "2026-03-02T00:00:00Z"},
	"POST /v1/contacts/{id}/consent":       {"status": "unknown", "source": "form"},
	"POST /v1/contacts/{id}/labels":        {"add": []string{"vip"}},
	"POST /v1/contacts/{id}/opt-out":       {"source": "phone call"},
	"PATCH /v1/conversations/{id}":         {"status": "closed"},
	"POST /v1/conversations/{id}/messages": {"body": "x"},
	"POST /v1/conversations/{id}/notes":    {"body": "x"},
	"PATCH /v1/labels/{id}":                {"name": "gold"},
	"PATCH /v1/lines/{id}":                 {"display_name": "Front desk"},
	"PATCH /v1/pools/{id}":                 {"name": "Second"},
	"PATCH /v1/saved-replies/{id}":         {"title": "bye"},
	"PATCH /v1/segments/{id}":              {"name": "some"},
	"PATCH /v1/service-identities/{id}":    {"name": "erp"},
	"PATCH /v1/webhooks/{id}":              {"status": "paused"},
	"PATCH /v1/workflows/{id}":             {"name": "welcome back"},
	"PATCH /v1/agents/{id}":                {"name": "clerk"},
	"POST /v1/workflows/{id}/simulate":     {"contact": app.Map{}},
}

func TestEveryRouteAnswersNotFoundForResourcesOfAnotherWorkspace(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	protected, _ := readAccessMatrix(t)
	theirs := resourceIDs(a, a.NewOrganisation("Stranger"))
	neighbours := resourceIDs(a, a.NewWorkspace("Second"))
	callers := matrixCallers(a)
	for route, r := range protected {
		if !strings.Contains(route, "{id}") || route == "GET /v1/contacts/imports/{id}" {
			continue // an import is tested beside its endpoint
		}
		kind, _, _ := strings.Cut(route[strings.Index(route, "/v1/")+len("/v1/"):], "/")
		require.Contains(t, theirs, kind, "resourceIDs has to create a resource for %s", route)
		for _, caller := range callers {
			if !caller.admits(r) {
				continue
			}
			for _, id := range []string{theirs[kind], neighbours[kind]} {
				method, path := withID(route, id)
				var body any
				if b := bodies[route]; b != nil {
					body = b
				}
				answer := caller.client.Do(method, path, body)
				require.Equal(t, http.StatusNotFound, answer.Status, "%s calls %s with the id of another workspace: %s", caller.name, route, answer.Raw)
			}
		}
	}
}
