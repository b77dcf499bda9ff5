package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/apikey"
	"ledgerline/domain/organisation"
	"ledgerline/test/app"
)

// carrying is a transport that adds a token and sends each request to the next of several addresses.
type carrying struct {
	token string
	hosts []string
	next  atomic.Int64
}

func (c *carrying) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+c.token)
	r.URL.Host = c.hosts[int(c.next.Add(1))%len(c.hosts)]
	return http.DefaultTransport.RoundTrip(r)
}

// connect opens a session of the SDK's own client, whose requests go to the nodes in turn.
func connect(t *testing.T, a *app.App, token string) *mcp.ClientSession {
	t.Helper()
	transport := &carrying{token: token}
	for _, n := range a.Nodes {
		if n.Roles.Write {
			transport.hosts = append(transport.hosts, strings.TrimPrefix(n.URL, "http://"))
		}
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: a.Nodes[0].URL + "/mcp", HTTPClient: &http.Client{Transport: transport},
	}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// callTool runs a tool over MCP.
func callTool(t *testing.T, s *mcp.ClientSession, name string, input app.Map) *mcp.CallToolResult {
	t.Helper()
	result, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: input})
	require.NoError(t, err)
	require.Len(t, result.Content, 1)
	return result
}

// said returns the JSON text of a result.
func said(t *testing.T, r *mcp.CallToolResult) app.Map {
	t.Helper()
	content, ok := r.Content[0].(*mcp.TextContent)
	require.True(t, ok)
	var all app.Map
	require.NoError(t, json.Unmarshal([]byte(content.Text), &all))
	return all
}

func resolved(t *testing.T, schema any) *jsonschema.Resolved {
	t.Helper()
	text, err := json.Marshal(schema)
	require.NoError(t, err)
	var read jsonschema.Schema
	require.NoError(t, json.Unmarshal(text, &read))
	found, err := read.Resolve(nil)
	require.NoError(t, err)
	return found
}

func TestTheToolsAreListedWithTheirSchemasAndHints(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	session := connect(t, a, a.NewKey(apikey.Live, nil, apikey.Read).Secret)
	require.Equal(t, "ledgerline", session.InitializeResult().ServerInfo.Name)
	listed, err := session.ListTools(t.Context(), nil)
	require.NoError(t, err)
	var names []string
	for _, tool := range listed.Tools {
		names = append(names, tool.Name)
		require.NotEmpty(t, tool.Description)
		require.NotEmpty(t, tool.Title)
		resolved(t, tool.OutputSchema)
		input := resolved(t, tool.InputSchema)
		require.Error(t, input.Validate(app.Map{"nonsense": true}), tool.Name)
		route, found := a.Nodes[0].API.Route("tool_" + tool.Name)
		require.True(t, found)
		reads := slices.Contains([]string{"get", "list", "search", "check"}, strings.SplitN(tool.Name, "_", 2)[0])
		require.Equal(t, reads, tool.Annotations.ReadOnlyHint, tool.Name)
		require.Equal(t, route.Sending, *tool.Annotations.OpenWorldHint, tool.Name)
	}
	for tool := range runs {
		require.Contains(t, names, tool)
	}
	require.Len(t, names, len(runs))
}

func TestAToolOverMCPAnswersAsItDoesOverREST(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.Nodes(app.Everything, app.Everything))
	ada := newTalk(a, "Ada")
	made, bot := newIdentity(a, nil)
	session := connect(t, a, made.Text("token"))
	messageID := text(object(conversation(a.Live, ada.conversation)["last_message"]), "id")
	listed, err := session.ListTools(t.Context(), nil)
	require.NoError(t, err)
	outputs := map[string]*jsonschema.Resolved{}
	for _, tool := range listed.Tools {
		outputs[tool.Name] = resolved(t, tool.OutputSchema)
	}
	for tool, input := range map[string]app.Map{
		"check_chat": {"phone": ada.phone}, "get_contact": {"contact_id": ada.contact}, "get_conversation": {"conversation_id": ada.conversation},
		"get_message_status": {"message_id": messageID}, "list_conversations": {}, "list_lines": {}, "search_contacts": {"query": "ada"},
		"upsert_contact": {"phone": ada.phone},
	} {
		want := use(bot, tool, input).Is(200).JSON()
		result := callTool(t, session, tool, input)
		require.False(t, result.IsError)
		if tool == "check_chat" {
			want["cached"] = true
		}
		require.Equal(t, want, result.StructuredContent, tool)
		require.Equal(t, want, said(t, result), tool)
		require.NoError(t, outputs[tool].Validate(result.StructuredContent), tool)
	}
	// A retry over MCP gets the answer of a request over REST, and the other way round.
	input := app.Map{"to": ada.phone, "body": "Hello", "idempotency_key": "k"}
	first := callTool(t, session, "send_message", input)
	require.NoError(t, outputs["send_message"].Validate(first.StructuredContent))
	shows(t, object(first.StructuredContent), app.Map{"source": "mcp", "status": "queued"})
	again := callTool(t, session, "send_message", input)
	require.Equal(t, first.StructuredContent, again.StructuredContent)
	require.Equal(t, true, again.Meta["idempotent_replayed"])
	require.Equal(t, first.StructuredContent, use(bot, "send_message", input).Is(200).JSON())
	handed := callTool(t, session, "handoff_to_human", app.Map{"conversation_id": ada.conversation, "reason": "x"})
	require.NoError(t, outputs["handoff_to_human"].Validate(handed.StructuredContent))
	var actor string
	a.QueryRow(`select actor_type || ' ' || actor_id from ledger_events where type = 'message.queued' order by position desc limit 1`, nil, &actor)
	require.Equal(t, "identity "+made.Text("id"), actor)
}

func TestMCPRefusalHasCodeAndIssues(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	session := connect(t, a, a.NewKey(apikey.Live, nil, apikey.Read).Secret)
	refused := func(tool string, input app.Map, status float64, code string) app.Map {
		t.Helper()
		result := callTool(t, session, tool, input)
		require.True(t, result.IsError)
		require.Nil(t, result.StructuredContent)
		require.InDelta(t, status, result.Meta["status"], 0)
		refusal := object(said(t, result)["error"])
		require.Equal(t, code, refusal["code"])
		return refusal
	}
	refused("get_contact", app.Map{"contact_id": "ctc_1"}, 404, "not_found")
	refused("send_message", app.Map{"to": a.Phone(), "body": "x"}, 403, "forbidden")
	refusal := refused("get_conversation", app.Map{"limit": 0, "nonsense": 1}, 400, "validation_failed")
	issues, _ := object(refusal["details"])["issues"].([]any)
	require.Len(t, issues, 3)
	refused("get_contact", nil, 400, "validation_failed")
	_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "nonsense"})
	require.Error(t, err)
	session = connect(t, a, a.NewKey(apikey.Live, nil, apikey.Send).Secret)
	refused("send_message", app.Map{"to": a.Phone(), "body": "x", "idempotency_key": "agent:1"}, 400, "validation_failed")
}

func TestRevokedKeyEndsAnOpenMCPSession(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.Nodes(app.Everything, app.Everything))
	key := a.NewKey(apikey.Live, nil, apikey.Read)
	session := connect(t, a, key.Secret)
	callTool(t, session, "list_conversations", nil)
	a.Live.Delete("/v1/api-keys/" + key.ID).Is(200)
	for range 2 { // on both nodes
		_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "list_conversations"})
		require.ErrorContains(t, err, "Unauthorized")
	}
}

func TestMCPSharesTheLimitsOfItsKey(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.RateLimits())
	key := a.NewKey(apikey.Live, nil, apikey.Read, apikey.Send)
	session, rest := connect(t, a, key.Secret), a.As(key.Secret)
	for range 20 {
		rest.Post("/v1/messages", app.Map{})
	}
	limited := false
	for range 20 {
		result := callTool(t, session, "send_message", app.Map{"to": a.Phone(), "body": "x"})
		if limited = result.IsError; limited {
			require.Equal(t, "rate_limited", object(said(t, result)["error"])["code"])
			require.InDelta(t, 1, result.Meta["retry_after"], 0)
			break
		}
	}
	require.True(t, limited)
	ping := rpc(rest, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	for range 200 {
		if ping.Status != 200 {
			break
		}
		ping = rpc(rest, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	}
	ping.Refused(429, "rate_limited")
}

// rpc posts one JSON-RPC message unchanged.
func rpc(c *app.Client, message string) app.Answer {
	return c.Header("accept", "application/json, text/event-stream").Post("/mcp", message)
}

func TestMCPServerRefusesBadCredentials(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	rpc(a.Live, list).Is(200)
	require.Equal(t, "Bearer", rpc(a.Anonymous(), list).Refused(401, "unauthorized").Header.Get("www-authenticate"))
	rpc(a.As("nonsense"), list).Refused(401, "unauthorized")
	rpc(a.Key(apikey.Live, []string{"203.0.113.1"}, apikey.Read), list).Refused(403, "forbidden")
	rpc(a.As(a.Session(a.Users[organisation.Owner])), list).Is(200)
	rpc(a.Live.Header("x-workspace-id", "nonsense"), list).Refused(400, "validation_failed", "header /x-workspace-id invalid_format")
	rpc(a.Live.Header("origin", "https://evil.example"), list).Refused(403, "forbidden")
	rpc(a.Live.Header("sec-fetch-site", "cross-site"), list).Refused(403, "forbidden")
	rpc(a.Live, `{"jsonrpc":"2.0","id":1,"method":"`+strings.Repeat("x", 1<<20)+`"}`).Refused(413, "payload_too_large")
	rpc(a.Live, "["+strings.Repeat(list+",", 30)+list+"]").Refused(400, "bad_request")
	require.Equal(t, 400, rpc(a.Live, "nonsense").Status)
	a.Live.Get("/mcp").Refused(405, "bad_request")

	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.Nodes[0].URL+"/mcp", strings.NewReader(list))
	require.NoError(t, err)
	request.Host = "evil.example"
	request.Header.Set("Authorization", "Bearer "+a.NewKey(apikey.Live, nil, apikey.Read).Secret)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusForbidden, response.StatusCode)
}

func TestAnswersToOneMCPRequestAreBounded(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	body := strings.Repeat("\U0001F600", 2000) // 8 KB
	var conversation string
	for i := range 50 {
		conversation = a.Live.Post("/v1/messages", app.Map{"to": "+12125550110", "body": body[:len(body)-4] + string(rune('a'+i%26))}).Is(201).Text("conversation_id")
	}
	calls := make([]string, 20)
	for i := range calls {
		calls[i] = fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"get_conversation","arguments":{"conversation_id":%q}}}`, i+1, conversation)
	}
	client := a.Live.Header("mcp-protocol-version", "2025-03-26")
	answer := rpc(client, "["+strings.Join(calls, ",")+"]").Is(200)
	require.Less(t, len(answer.Raw), 12<<20)
	require.Contains(t, string(answer.Raw), "so this tool was not called")
	require.Contains(t, string(answer.Raw), "structuredContent", "the first calls are answered")
}
