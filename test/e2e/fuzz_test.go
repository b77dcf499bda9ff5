package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/organisation"
	"ledgerline/test/app"
)

// nasty are values that often break programs.
var nasty = []any{
	nil, true, false, 0, -1, 1.5, 1e308, json.Number("1e999"), json.Number("-0"), json.Number("123456789012345678901234567890"),
	"", " ", "\u0000", "\u202e", "﷽", "𝄞", "\ufdd0", "a\tb\nc", "%s%n", "'; drop table ledger_events; --", "\\", "%", "_", "../../etc/passwd",
	strings.Repeat("x", 70), strings.Repeat("é", 300), strings.Repeat("\u0301", 3000), "null", "NaN", "2026-03-02T17:00:00Z", "0000-00-00T00:00:00Z", "9999-12-31T23:59:59.999999999Z",
	"00000000-0000-0000-0000-000000000000", "ctc_", "ctc_00000000000000000000000000", "msg_zzzzzzzzzzzzzzzzzzzzzzzzzz", "org_1", "num_x", "+14157770001", "+12125550190",
	"opted_in", "unknown", "opted_out", "https://example.com/", "https://[::1]:99999/", "http://\x7f/", "a@b", "\"a b\"@c.de", "a@b.c\r\nX: y",
	[]any{}, []any{nil}, []any{"a", "A", " a ", "a"}, map[string]any{}, map[string]any{"": ""}, map[string]any{"a.b[0]": []any{map[string]any{"~/": 1}}}, deep(60), deep(99),
}

func deep(n int) any {
	if n == 0 {
		return "end"
	}
	if n%2 == 0 {
		return []any{deep(n - 1)}
	}
	return map[string]any{"d": deep(n - 1)}
}

// fuzzer generates requests from a seed: valid ones, with random changes.
type fuzzer struct {
	*rand.Rand
	ids    []string // of everything
	users  []string
	lines  []string
	known  map[string][]string // contacts, messages and conversations, by the route's collection
	tokens []string
	spaces []string
	phones []string
}

// fuzzed is one request.
type fuzzed struct {
	method, path string
	header       http.Header
	body         []byte
}

func (r fuzzed) String() string {
	return fmt.Sprintf("%s %s %q %.2000q", r.method, r.path, r.header, r.body)
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

func (f *fuzzer) value() any { return pick(f.Rand, nasty) }

func (f *fuzzer) text() string { return fmt.Sprint(f.value()) }

func (f *fuzzer) id() string {
	if f.IntN(4) == 0 {
		return f.text()
	}
	return pick(f.Rand, f.ids)
}

// of returns one of these existing ids, and sometimes any other value.
func (f *fuzzer) of(right []string) string {
	if f.IntN(8) == 0 {
		return f.id()
	}
	return pick(f.Rand, right)
}

func (f *fuzzer) request() fuzzed {
	bodies := map[string]map[string]any{
		"/v1/contacts": {
			"phone": pick(f.Rand, f.phones), "first_name": "A", "last_name": "B", "company": "C", "email": "a@example.com", "fields": map[string]any{"a": 1},
			"labels": []any{"x", "y"}, "owner_user_id": f.of(f.users), "consent_status": "opted_in", "consent_source": "form",
		},
		"/v1/contacts/{id}/consent": {"status": pick(f.Rand, []string{"opted_in", "opted_out", "unknown"}), "source": "x"},
		"/v1/contacts/{id}/opt-out": {"source": "x", "keyword": "stop"},
		"/v1/messages": {
			"to": pick(f.Rand, f.phones), "contact_id": f.of(f.known["contacts"]), "body": "Hello", "media": []any{map[string]any{"url": "https://example.com/a", "filename": "a", "mime": "image/png"}},
			"pool_id": f.of(f.lines[:1]), "line_id": f.of(f.lines[1:]), "send_at": "2026-03-02T18:00:00Z", "fallback": false, "external_id": "e", "metadata": map[string]any{"k": "v"},
		},
		"/v1/messages/{id}/cancel":        nil,
		"/v1/conversations/{id}/messages": {"body": "Hello", "media": []any{map[string]any{"url": "https://example.com/a"}}},
		"/v1/conversations/{id}/notes":    {"body": "Hush"},
		"/v1/saved-replies":               {"title": f.text(), "body": "x", "team_id": f.of(f.users)},
		"/v1/conversations/{id}": {
			"assignee_user_id": f.of(f.users), "team_id": nil, "handled_by": "team", "labels": []any{"x"}, "mark_read": true,
			"snoozed_until": "2026-03-03T18:00:00Z", "status": pick(f.Rand, []string{"open", "snoozed", "closed"}),
		},
	}
	queries := map[string][]string{
		"/v1/contacts":                  {"limit", "cursor", "q", "phone", "label", "segment_id", "consent_status", "owner_user_id", "line_id"},
		"/v1/messages":                  {"limit", "cursor", "contact_id", "conversation_id", "line_id", "status", "direction", "external_id"},
		"/v1/compliance/consent-events": {"limit", "cursor", "phone", "contact_id", "type", "from", "to"},
		"/v1/conversations":             {"limit", "cursor", "status", "assignee", "team_id", "label", "line_id", "contact_id", "q"},
		"/v1/conversations/{id}":        {"messages_limit", "messages_cursor"},
		"/v1/contacts/{id}":             nil, "/v1/messages/{id}": nil, "/v1/messages/{id}/events": nil, "/v1/saved-replies": nil, "/v1/teams": nil, "/v1/me": nil,
	}
	var r fuzzed
	switch f.IntN(20) {
	case 0:
		r.method, r.path = pick(f.Rand, []string{"PUT", "PATCH", "OPTIONS", "HEAD", "TRACE", "DELETE", "POST"}), pick(f.Rand, slices.Sorted(maps.Keys(queries)))
	case 1:
		if r.method, r.path = "DELETE", "/v1/contacts/{id}"; f.IntN(10) > 0 {
			r.method = "GET" // mostly, since otherwise all contacts are soon deleted
		}
	case 2, 3, 4, 5, 6, 7:
		r.method, r.path = "GET", pick(f.Rand, slices.Sorted(maps.Keys(queries)))
	case 8:
		r.method, r.path = "GET", pick(f.Rand, []string{"/healthz", "/readyz", "/openapi.json", "/docs", "/v1/", "/v1/nothing/{id}"})
	default:
		if r.method, r.path = "POST", pick(f.Rand, slices.Sorted(maps.Keys(bodies))); r.path == "/v1/conversations/{id}" {
			r.method = "PATCH"
		}
	}
	delete(bodies["/v1/messages"], pick(f.Rand, []string{"to", "contact_id"}))
	if body := bodies[r.path]; body != nil && (r.method == "POST" || r.method == "PATCH") {
		r.body = f.mutate(body)
	}
	query := f.query(queries[r.path])
	for collection, known := range f.known {
		if strings.HasPrefix(r.path, "/v1/"+collection+"/") && f.IntN(2) == 0 {
			r.path = strings.Replace(r.path, "{id}", pick(f.Rand, known), 1)
		}
	}
	r.path = strings.Replace(r.path, "{id}", url.PathEscape(f.id()), 1)
	if f.IntN(10) > 3 {
		r.path += query
	}
	r.header = f.headers()
	return r
}

func (f *fuzzer) query(names []string) string {
	values := url.Values{}
	for range f.IntN(4) {
		name := f.text()
		if len(names) > 0 && f.IntN(10) > 0 {
			name = pick(f.Rand, names)
		}
		value := f.text()
		switch f.IntN(3) {
		case 0:
			value = f.id()
		case 1:
			value = pick(f.Rand, []string{"1", "100", "opted_in", "sent", "inbound", "2026-03-02T17:00:00Z", "%", "\xff"})
		}
		values.Add(name, value)
	}
	text := "?" + values.Encode()
	if f.IntN(20) == 0 {
		text += pick(f.Rand, []string{"&%zz", ";a=b", "&a=%", "&=&&", "&q=%ff%00"})
	}
	return text
}

// mutate returns a body as JSON with no or a few random changes.
func (f *fuzzer) mutate(body map[string]any) []byte {
	whole := f.IntN(2) == 0
	for _, name := range slices.Sorted(maps.Keys(body)) {
		if whole {
			break
		}
		switch f.IntN(12) {
		case 0, 1, 2:
			delete(body, name)
		case 3:
			body[name] = f.value()
		case 4:
			body[name] = []any{body[name], f.value()}
		case 5:
			if inner, ok := body[name].(map[string]any); ok {
				inner[f.text()] = f.value()
			}
		}
	}
	if f.IntN(30) == 0 {
		body[f.text()] = f.value()
	}
	text, err := json.Marshal(body)
	if err != nil { // a number that JSON cannot represent
		text = []byte(`{"fields":{"n":1e999}}`)
	}
	switch f.IntN(30) {
	case 0:
		at := f.IntN(len(text))
		text = append(text[:at:at], append([]byte{byte(f.IntN(256))}, text[at:]...)...)
	case 1:
		text[f.IntN(len(text))] = byte(f.IntN(256))
	case 2:
		text = text[:f.IntN(len(text))]
	case 3:
		text = append(text, text...)
	}
	return text
}

func (f *fuzzer) headers() http.Header {
	h := http.Header{"Authorization": {"Bearer " + f.tokens[0]}, "Content-Type": {"application/json"}}
	if f.IntN(5) == 0 {
		h.Set("Authorization", "Bearer "+pick(f.Rand, f.tokens))
	}
	if f.IntN(8) == 0 {
		h.Set("Idempotency-Key", fmt.Sprint("k", f.IntN(200)))
	}
	if f.IntN(10) == 0 {
		h.Set("X-Workspace-Id", pick(f.Rand, f.spaces))
	}
	if f.IntN(15) == 0 {
		name := pick(f.Rand, []string{"Authorization", "Idempotency-Key", "X-Workspace-Id", "Content-Type", "Accept", "X-Forwarded-For", "User-Agent", "X-Request-Id", "Content-Encoding", "Accept-Encoding", "If-Match", "Cookie"})
		h.Set(name, strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return -1 // no client could send it
			}
			return r
		}, f.text()))
	}
	return h
}

// startFuzzing starts a service with contacts, messages and conversations, and returns a fuzzer that knows their ids.
func startFuzzing(t testing.TB) (*app.App, *fuzzer) {
	t.Helper()
	a := app.Start(t)
	other := a.NewOrganisation("Other")
	f := &fuzzer{known: map[string][]string{}, spaces: []string{a.ID.String(), other.ID.String(), "x"}, lines: []string{a.PoolID, a.Lines[0].ID, a.Lines[1].ID}}
	f.tokens = []string{a.NewKey("live", nil, "read", "send", "admin").Secret, a.NewKey("test", nil, "read", "send", "admin").Secret, a.NewKey("live", nil, "read").Secret, "nonsense", ""}
	for _, role := range organisation.Roles() {
		f.tokens = append(f.tokens, a.Session(a.Users[role]))
		f.users = append(f.users, a.Users[role].String())
	}
	for range 40 {
		phone := a.Phone()
		contact := a.Live.Post("/v1/contacts", app.Map{"phone": phone}).Is(201).Text("id")
		m := a.Live.Post("/v1/messages", app.Map{"to": phone, "body": "x", "send_at": "2026-03-02T18:00:00Z"}).Is(201)
		f.known["contacts"], f.known["messages"] = append(f.known["contacts"], contact), append(f.known["messages"], m.Text("id"))
		f.known["conversations"] = append(f.known["conversations"], m.Text("conversation_id"))
		f.ids = append(f.ids, contact, m.Text("id"), m.Text("conversation_id"))
		f.phones = append(f.phones, phone, a.Phone(), a.SandboxNumber(80+len(f.phones)%20))
	}
	f.ids = append(f.ids, f.users...)
	f.ids = append(f.ids, a.Lines[0].ID, a.PoolID, a.Sandbox.ID, other.Lines[0].ID, a.Live.Get("/v1/contacts?limit=1").Text("next_cursor"))
	return a, f
}

func TestTenThousandFuzzedRequestsAreAnsweredWithoutAFailure(t *testing.T) {
	t.Parallel()
	const workers, each = 8, 1250
	a, from := startFuzzing(t)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers}}
	t.Cleanup(client.CloseIdleConnections)
	var mu sync.Mutex
	statuses := map[int]int{}
	var failures []string
	var all sync.WaitGroup
	for w := range workers {
		f := *from
		f.Rand = rand.New(rand.NewPCG(20260302, uint64(w))) //nolint:gosec // it must be the same every time
		all.Go(func() {
			for range each {
				r := f.request()
				request, err := http.NewRequestWithContext(t.Context(), r.method, a.Nodes[0].URL+r.path, bytes.NewReader(r.body))
				if err != nil {
					continue // no client could send it
				}
				request.Header = r.header
				response, err := client.Do(request)
				if err != nil {
					mu.Lock()
					failures = append(failures, fmt.Sprintf("%v: %s", err, r))
					mu.Unlock()
					continue
				}
				body, err := io.ReadAll(response.Body)
				_ = response.Body.Close()
				mu.Lock()
				statuses[response.StatusCode]++
				if err != nil || response.StatusCode >= 500 || wrongShape(response, body) {
					failures = append(failures, fmt.Sprintf("%d %s: %s", response.StatusCode, body, r))
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(failures) > 0 {
		t.Fatalf("%d failures, among them:\n%s", len(failures), strings.Join(failures[:min(len(failures), 10)], "\n"))
	}
	t.Log(statuses)
	for _, status := range []int{200, 201, 400, 401, 403, 404, 405, 409, 422} {
		require.NotZero(t, statuses[status], "%d never came: the requests have become too wrong, or too right", status)
	}
	a.Settle()
	for shard := range a.Nodes[0].Ledger.Shards() {
		_, err := a.Nodes[0].Ledger.Verify(t.Context(), shard, nil)
		require.NoError(t, err)
	}
	var parked int
	a.QueryRow(`select count(*) from feed_parked`, nil, &parked)
	require.Zero(t, parked, "no projection or process met an event that it could not take")
}

// wrongShape reports whether a refusal does not have the form of all refusals.
func wrongShape(response *http.Response, body []byte) bool {
	if response.StatusCode < 400 || response.Request.Method == http.MethodHead {
		return false
	}
	var refused struct {
		Error struct {
			Code, Message string
			RequestID     string `json:"request_id"`
			Details       map[string]any
		}
	}
	err := json.Unmarshal(body, &refused)
	e := refused.Error
	return err != nil || e.Code == "" || e.Message == "" || e.RequestID != response.Header.Get("x-request-id") && response.Header.Get("idempotent-replayed") == "" || e.Details == nil
}

func FuzzRequests(f *testing.F) {
	a, from := startFuzzing(f)
	handler := a.Nodes[0].Handler()
	seeds := *from
	seeds.Rand = rand.New(rand.NewPCG(1, 2)) //nolint:gosec // it must be the same every time
	for range 100 {
		r := seeds.request()
		f.Add(r.method, r.path, r.header.Get("Content-Type"), r.header.Get("Idempotency-Key"), r.body)
	}
	f.Fuzz(func(t *testing.T, method, path, contentType, key string, body []byte) {
		target, err := url.Parse("http://127.0.0.1" + path)
		if err != nil || !strings.HasPrefix(path, "/") {
			t.Skip()
		}
		request := &http.Request{
			Method: method, URL: target, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
			Host: "127.0.0.1", RemoteAddr: "127.0.0.1:1", RequestURI: path,
			Header: http.Header{"Authorization": {"Bearer " + from.tokens[0]}, "Content-Type": {contentType}},
		}
		if key != "" {
			request.Header.Set("Idempotency-Key", key)
		}
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request.WithContext(t.Context()))
		if recorder.Code >= 500 {
			t.Fatalf("%d %s", recorder.Code, recorder.Body)
		}
	})
}
