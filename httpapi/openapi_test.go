package httpapi_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/httpapi"
	"ledgerline/httpapi/auth"
)

// at returns the node of a document at a path of property names.
func at(t *testing.T, node any, path ...string) any {
	t.Helper()
	for _, name := range path {
		object, ok := node.(map[string]any)
		require.True(t, ok, "%s of %v", name, path)
		node, ok = object[name]
		require.True(t, ok, "%s of %v is missing", name, path)
	}
	return node
}

func TestDocumentShowsTheSchemasThatAreChecked(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *httpapi.Config) { c.BaseURL = "https://api.example.com" }, func(api *httpapi.API, kept *records) {
		things(api, kept)
		patching(api, kept)
	})
	answer := s.do(call{method: "GET", path: "/openapi.json"})
	require.Equal(t, 200, answer.Status)
	require.NotContains(t, string(answer.Body), "$schema")
	document := answer.json()
	require.Equal(t, "3.1.0", document["openapi"])
	require.Equal(t, "Ledgerline", at(t, document, "info", "title"))
	require.Equal(t, "bearer", at(t, document, "components", "securitySchemes", "bearer", "scheme"))
	require.NotNil(t, document["servers"])

	post := at(t, document, "paths", "/v1/things", "post")
	for _, status := range []string{"400", "401", "403", "404", "409", "413", "415", "429", "500"} {
		require.Equal(t, "#/components/schemas/Error", at(t, post, "responses", status, "content", "application/json", "schema", "$ref"))
	}
	var headers []string
	list, ok := at(t, post, "parameters").([]any)
	require.True(t, ok)
	for _, one := range list {
		require.Equal(t, "header", at(t, one, "in"))
		headers = append(headers, fmt.Sprint(at(t, one, "name")))
	}
	require.Equal(t, []string{"x-workspace-id", "idempotency-key"}, headers)

	body := at(t, document, "components", "schemas", "CreateThingBody")
	require.Equal(t, []any{"name"}, at(t, body, "required"))
	require.Equal(t, false, at(t, body, "additionalProperties"))
	require.EqualValues(t, 10, at(t, body, "properties", "name", "maxLength"))
	require.Equal(t, "email", at(t, body, "properties", "email", "format"))
	require.Equal(t, "uuid", at(t, body, "properties", "owner", "format"))
	require.Equal(t, "date-time", at(t, body, "properties", "at", "format"))
	require.Equal(t, "array", at(t, body, "properties", "labels", "type"))

	shown := at(t, document, "components", "schemas", "Thing", "properties")
	require.Equal(t, []any{"string", "null"}, at(t, shown, "email", "type"))
	require.Equal(t, []any{map[string]any{"type": "string", "enum": []any{"big", "small"}}, map[string]any{"type": "null"}}, at(t, shown, "kind", "oneOf"))
	require.Equal(t, []any{"string", "null"}, at(t, shown, "owner", "type"))
	require.Equal(t, "uuid", at(t, shown, "owner", "format"))
	require.Equal(t, []any{"string", "null"}, at(t, shown, "seen_at", "type"))
	require.Equal(t, "string", at(t, shown, "created_at", "type"))
	require.Equal(t, []any{"object", "null"}, at(t, shown, "parent", "type"))
	require.Equal(t, []any{"array", "null"}, at(t, shown, "allowlist", "type"))
	require.Equal(t, "array", at(t, shown, "labels", "type"))

	patch := at(t, document, "components", "schemas", "PatchThingBody")
	require.NotContains(t, patch, "required")
	require.Equal(t, []any{"string", "null"}, at(t, patch, "properties", "name", "type"))
	require.EqualValues(t, 5, at(t, patch, "properties", "name", "maxLength"))
	require.Equal(t, "string", at(t, patch, "properties", "phone", "type"))
	require.Equal(t, []any{"object", "null"}, at(t, patch, "properties", "hours", "type"))
	require.EqualValues(t, 2, at(t, patch, "properties", "names", "maxItems"))
}

func TestDocumentSaysWhoMayCall(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, guarded(auth.Access{Keys: []auth.Scope{auth.ScopeSend, auth.ScopeAdmin}, Roles: auth.PermBilling, NoTestKeys: true}))
	document := s.do(call{method: "GET", path: "/openapi.json"}).json()
	require.Equal(t, "For API keys with scope `send` or `admin` (no test keys); signed-in users as owner, admin, billing.",
		at(t, document, "paths", "/v1/guarded", "get", "description"))
}

func TestDocumentIsDeterministic(t *testing.T) {
	t.Parallel()
	one, _, _ := newAPI(t, nil)
	two, _, _ := newAPI(t, nil)
	for _, api := range []*httpapi.API{one, two} {
		things(api, newRecords())
	}
	first, err := one.OpenAPI()
	require.NoError(t, err)
	second, err := two.OpenAPI()
	require.NoError(t, err)
	require.JSONEq(t, string(first), string(second))
	require.True(t, json.Valid(first))
}

func TestFrontPageAndDocsPageLoadNothingFromElsewhereAndLinkToWhatExists(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, things)
	page := s.do(call{method: "GET", path: "/docs"})
	require.Equal(t, 200, page.Status)
	require.Contains(t, page.Header.Get("content-type"), "text/html")
	policy := page.Header.Get("content-security-policy")
	require.Contains(t, policy, "default-src 'none'")
	require.Contains(t, policy, "script-src 'self';")
	require.NotContains(t, string(page.Body), "://")
	require.NotRegexp(t, `<script>|onload=`, string(page.Body), "nothing inline, because the content security policy forbids it")
	front := s.do(call{method: "GET", path: "/"})
	require.Equal(t, 200, front.Status)
	require.NotContains(t, string(front.Body), "://")
	for _, link := range regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(string(page.Body)+string(front.Body), -1) {
		asset := s.do(call{method: "GET", path: "/" + link[1]})
		require.Equal(t, 200, asset.Status, link[1])
		require.NotEmpty(t, asset.Body)
		if strings.HasSuffix(link[1], ".js") {
			require.Contains(t, asset.Header.Get("content-type"), "javascript")
		}
	}
	require.Equal(t, 404, s.do(call{method: "GET", path: "/docs/none.js"}).Status)
	require.Equal(t, page.Body, s.do(call{method: "GET", path: "/docs/"}).Body)
	require.Equal(t, "image/png", s.do(call{method: "GET", path: "/favicon.ico"}).Header.Get("content-type"))
}
