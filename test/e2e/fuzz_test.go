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
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/organisation"
	"ledgerline/eventstore"
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

// fuzzer generates requests to every operation of the OpenAPI document from a seed: valid ones, with random changes.
type fuzzer struct {
	*rand.Rand
	operations []operation
	schemas    map[string]*schema  // of the document's components
	ids        []string            // of everything
	known      map[string][]string // ids by the collection in the path, such as contacts
	tokens     []string
	spaces     []string
	phones     []string
}

// operation is an operation of the OpenAPI document.
type operation struct {
	method, path string
	query        []string
	body         *schema
}

// schema is the part of a JSON schema that the fuzzer needs.
type schema struct {
	Ref                  string             `json:"$ref"`
	Type                 any                `json:"type"` // a text or a list of texts
	Format               string             `json:"format"`
	Enum                 []any              `json:"enum"`
	Properties           map[string]*schema `json:"properties"`
	Required             []string           `json:"required"`
	Items                *schema            `json:"items"`
	Minimum              *float64           `json:"minimum"`
	MaxLength            int                `json:"maxLength"`
	AdditionalProperties any                `json:"additionalProperties"`
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
	if f.IntN(8) == 0 || len(right) == 0 {
		return f.id()
	}
	return pick(f.Rand, right)
}

// readDocument fills the operations from the service's OpenAPI document.
func (f *fuzzer) readDocument(t testing.TB, a *app.App) {
	t.Helper()
	var document struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name, In string }
			Body       struct {
				Content map[string]struct{ Schema *schema }
			} `json:"requestBody"`
		}
		Components struct{ Schemas map[string]*schema }
	}
	require.NoError(t, json.Unmarshal(a.Anonymous().Get("/openapi.json").Is(200).Raw, &document))
	f.schemas = document.Components.Schemas
	for _, path := range slices.Sorted(maps.Keys(document.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(document.Paths[path])) {
			described := document.Paths[path][method]
			o := operation{method: strings.ToUpper(method), path: path, body: described.Body.Content["application/json"].Schema}
			for _, p := range described.Parameters {
				if p.In == "query" {
					o.query = append(o.query, p.Name)
				}
			}
			f.operations = append(f.operations, o)
		}
	}
	require.NotEmpty(t, f.operations)
}

// valid returns a value that fits a schema in form. name is the property that holds it: values that have to exist, or
// that a rule describes in words, are chosen by it.
func (f *fuzzer) valid(s *schema, name string, depth int) any {
	if known := strings.TrimPrefix(s.Ref, "#/components/schemas/"); known != "" {
		s = f.schemas[known]
	}
	switch name {
	case "phone", "to":
		return pick(f.Rand, f.phones)
	case "contact_id", "message_id", "conversation_id", "pool_id", "line_id", "segment_id":
		return f.of(f.known[strings.TrimSuffix(name, "_id")+"s"])
	case "owner_user_id", "assignee_user_id":
		return f.of(f.known["users"])
	case "definition":
		return map[string]any{"any": []any{leaf("labels", "contains", "x"), map[string]any{"not": leaf("fields.a", "gte", f.value())}}}
	case "csv":
		return "phone,first_name\n" + pick(f.Rand, f.phones) + "," + strings.ReplaceAll(f.text(), "\n", " ") + "\n"
	case "mapping":
		return map[string]any{"phone": "phone", "first_name": "first_name"}
	case "ip_allowlist":
		return []any{"127.0.0.1", "2001:db8::/32"}
	case "area_codes":
		return []any{"212"}
	case "color":
		return "#aabbcc"
	case "handled_by":
		return "team"
	case "idempotency_key":
		return fmt.Sprint("k", f.IntN(200))
	}
	if len(s.Enum) > 0 {
		return pick(f.Rand, s.Enum)
	}
	kind, _ := s.Type.(string)
	if several, ok := s.Type.([]any); ok {
		kind, _ = several[f.IntN(len(several))].(string)
	}
	switch kind {
	case "object":
		object := map[string]any{}
		for _, property := range slices.Sorted(maps.Keys(s.Properties)) {
			if depth < 6 && (slices.Contains(s.Required, property) || f.IntN(3) == 0) {
				object[property] = f.valid(s.Properties[property], property, depth+1)
			}
		}
		if len(s.Properties) == 0 {
			object[f.text()] = f.value()
		}
		return object
	case "array":
		list := []any{}
		for range 1 + f.IntN(2) {
			list = append(list, f.valid(s.Items, name+"[]", depth+1))
		}
		return list
	case "integer", "number":
		least := 0.0
		if s.Minimum != nil {
			least = *s.Minimum
		}
		return least + float64(f.IntN(3))
	case "boolean":
		return f.IntN(2) == 0
	case "null":
		return nil
	}
	switch s.Format {
	case "date-time":
		return "2026-03-02T18:00:00Z"
	case "uuid":
		return f.of(f.known["users"])
	case "uri":
		return "https://example.com/a"
	case "email":
		return "a@example.com"
	}
	text := []rune(pick(f.Rand, []string{"x", "Ada", "Hello", f.text()}))
	if s.MaxLength > 0 && f.IntN(10) > 0 {
		text = text[:min(len(text), s.MaxLength)]
	}
	return string(text)
}

func (f *fuzzer) request() fuzzed {
	o := pick(f.Rand, f.operations)
	if o.method == "DELETE" && f.IntN(4) > 0 {
		o = pick(f.Rand, f.operations) // fewer deletions, since otherwise everything is soon gone
	}
	r := fuzzed{method: o.method, path: o.path, header: f.headers()}
	switch f.IntN(40) {
	case 0:
		r.method = pick(f.Rand, []string{"PUT", "PATCH", "OPTIONS", "HEAD", "TRACE", "DELETE", "POST"})
	case 1:
		return fuzzed{"GET", pick(f.Rand, []string{"/healthz", "/readyz", "/openapi.json", "/docs", "/v1/", "/v1/nothing/x"}), f.headers(), nil}
	case 2:
		return f.mcp()
	case 3:
		path := "/carriers/bluebubbles/" + url.PathEscape(f.of(f.known["lines"])) + "/" + url.PathEscape(f.text())
		return fuzzed{"POST", path, http.Header{}, f.mutate(map[string]any{"type": "new-message", "data": map[string]any{"guid": f.text(), "handle": f.value()}})}
	}
	if o.body != nil {
		if body, ok := f.valid(o.body, "", 0).(map[string]any); ok {
			if body["contact_id"] != nil && body["to"] != nil {
				delete(body, pick(f.Rand, []string{"to", "contact_id"}))
			}
			r.body = f.mutate(body)
		}
	}
	collection, _, _ := strings.Cut(strings.TrimPrefix(o.path, "/v1/"), "/")
	r.path = strings.Replace(r.path, "{id}", url.PathEscape(f.of(f.known[collection])), 1)
	if f.IntN(10) > 3 {
		r.path += f.query(o.query)
	}
	return r
}

// mcp returns a call of a tool over MCP.
func (f *fuzzer) mcp() fuzzed {
	var names []string
	for _, o := range f.operations {
		if name, ok := strings.CutPrefix(o.path, "/v1/mcp/tools/"); ok {
			names = append(names, name)
		}
	}
	r := fuzzed{"POST", "/mcp", f.headers(), nil}
	r.header.Set("Accept", "application/json, text/event-stream")
	r.body = f.mutate(map[string]any{
		"jsonrpc": "2.0", "id": f.value(), "method": pick(f.Rand, []string{"tools/call", "tools/call", "tools/list", "initialize", "ping", f.text()}),
		"params": map[string]any{"name": pick(f.Rand, names), "arguments": map[string]any{"contact_id": f.id(), "phone": pick(f.Rand, f.phones), "body": f.value()}},
	})
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
	f := &fuzzer{spaces: []string{a.ID.String(), other.ID.String(), "x"}}
	f.known = map[string][]string{"lines": {a.Lines[0].ID, a.Lines[1].ID}, "pools": {a.PoolID}}
	f.readDocument(t, a)
	f.tokens = []string{a.NewKey("live", nil, "read", "send", "admin").Secret, a.NewKey("test", nil, "read", "send", "admin").Secret, a.NewKey("live", nil, "read").Secret, "nonsense", ""}
	for _, role := range organisation.Roles() {
		f.tokens = append(f.tokens, a.Session(a.Users[role]))
		f.known["users"] = append(f.known["users"], a.Users[role].String())
	}
	for range 40 {
		phone := a.Phone()
		contact := a.Live.Post("/v1/contacts", app.Map{"phone": phone}).Is(201).Text("id")
		m := a.Live.Post("/v1/messages", app.Map{"to": phone, "body": "x", "send_at": "2026-03-02T18:00:00Z"}).Is(201)
		f.known["contacts"], f.known["messages"] = append(f.known["contacts"], contact), append(f.known["messages"], m.Text("id"))
		f.known["conversations"] = append(f.known["conversations"], m.Text("conversation_id"))
		f.phones = append(f.phones, phone, a.Phone(), a.SandboxNumber(80+len(f.phones)%20))
	}
	for collection, id := range resourceIDs(a, a.Workspace) {
		f.known[collection] = append(f.known[collection], id)
	}
	for _, collection := range slices.Sorted(maps.Keys(f.known)) {
		f.ids = append(f.ids, f.known[collection]...)
	}
	f.ids = append(f.ids, a.Sandbox.ID, other.Lines[0].ID, a.Live.Get("/v1/contacts?limit=1").Text("next_cursor"))
	return a, f
}

// fuzzRequests is the environment variable with the number of requests that the test of fuzzed requests sends.
const fuzzRequests = "FUZZ_REQUESTS"

// maxHeap bounds the live heap of a node with its test while requests are fuzzed, in bytes. It is checked when the test
// runs alone, which it does with fuzzRequests.
const maxHeap = 512 << 20

func TestFuzzedRequestsAreAnsweredWithoutAFailureAndInBoundedMemory(t *testing.T) {
	t.Parallel()
	const workers = 8
	total := 10_000
	if set := os.Getenv(fuzzRequests); set != "" {
		var err error
		total, err = strconv.Atoi(set)
		require.NoError(t, err, fuzzRequests)
	}
	a, from := startFuzzing(t)
	var peak atomic.Uint64
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
			for i := range total / workers {
				if i%100 == 0 {
					var memory runtime.MemStats
					runtime.ReadMemStats(&memory)
					if memory.HeapInuse > peak.Load() {
						peak.Store(memory.HeapInuse) // two workers may race; the next sample corrects it
					}
				}
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
	t.Log(statuses, "peak heap", peak.Load()>>20, "MiB")
	if os.Getenv(fuzzRequests) != "" { // else other tests of the package run in this process
		require.Less(t, peak.Load(), uint64(maxHeap))
	}
	for _, status := range []int{200, 201, 400, 401, 403, 404, 405, 409, 422} {
		require.NotZero(t, statuses[status], "%d never came: the requests have become too wrong, or too right", status)
	}
	a.Settle()
	for shard := range a.Nodes[0].Ledger.Shards() {
		_, err := a.Nodes[0].Ledger.Verify(t.Context(), shard, eventstore.VerifyOptions{})
		require.NoError(t, err)
	}
	var parked int
	a.QueryRow(`select count(*) from feed_parked`, nil, &parked)
	require.Zero(t, parked, "no projection or process met an event that it could not take")
}

// wrongShape reports whether a refusal does not have the form of all refusals. What MCP refuses has the form of MCP,
// and carriers get a status alone.
func wrongShape(response *http.Response, body []byte) bool {
	path := response.Request.URL.Path
	if response.StatusCode < 400 || response.Request.Method == http.MethodHead || path == "/mcp" || strings.HasPrefix(path, "/carriers/") {
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
