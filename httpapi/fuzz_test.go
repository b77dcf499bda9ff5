package httpapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/httpapi"
)

// FuzzRequests checks that every request gets an answer of the documented shape, and never a 5xx.
func FuzzRequests(f *testing.F) {
	for _, seed := range [][6]string{
		{"POST", "/v1/things", "", "k1", "application/json", `{"name":"a","labels":["x"],"media":[{"url":"http://u"}],"fields":{"a.b[0]":null}}`},
		{"POST", "/v1/things", "", "", "application/json; charset=utf-8", `{"name":"a","count":1e999,"at":"2026-01-01T00:00:00Z"}`},
		{"PATCH", "/v1/patched/1", "", "agent:", "text/plain", `{"name":null,"hours":{"start":null},"kind":"big"}`},
		{"GET", "/v1/things", "limit=1&cursor=%00&q=%ff&from=2026", "", "", ""},
		{"DELETE", "/v1/things/thg_1", "", "k\x01", "", ""},
		{"GET", "/v1/marks/01920f6c-b6f1-7c40-a8b1-f7c9d3f0a2b4", "%", "", "", ""},
		{"BREW", "//", ";", "", "a/b;c", "\x00"},
		{"POST", "/v1/things", "", "", "", "\"\\ud800\""},
		{"POST", "/v1/things", "", "", "", `{"name":"a","name":{},"NAME":1,"\u0000":[[[[]]]]}`},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3], seed[4], []byte(seed[5]))
	}
	api, kept, _ := newAPI(f, func(c *httpapi.Config) { c.AccessLog = false })
	kept.added = make(chan string, 1<<20)
	things(api, kept)
	httpapi.Write(api, httpapi.Route{Method: "PATCH", Path: "/v1/patched/{id}", ID: "patched", Access: anybody()}, doNothing[patchThing],
		func(context.Context, *httpapi.Call, httpapi.WriteResult) (struct{}, error) { return struct{}{}, nil })
	handler := api.Handler()
	f.Fuzz(func(t *testing.T, method, path, query, key, kind string, body []byte) {
		request := httptest.NewRequest(http.MethodGet, "/", strings.NewReader(string(body)))
		if method == "" || strings.ContainsFunc(method, func(r rune) bool { return r <= ' ' || r > '~' }) {
			method = http.MethodPost
		}
		request.Method = method
		request.URL.Path, request.URL.RawQuery = "/"+strings.TrimPrefix(path, "/"), query
		request.Header.Set("authorization", "Bearer all")
		if key != "" {
			request.Header["Idempotency-Key"] = []string{key}
		}
		if kind != "" {
			request.Header["Content-Type"] = []string{kind}
		}
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		require.Less(t, answer.Code, 500, answer.Body.String())
		require.NotEmpty(t, answer.Header().Get("x-request-id"))
		if answer.Code >= 400 && !strings.HasPrefix(request.URL.Path, "/docs") {
			reply{t, answer.Code, answer.Header(), answer.Body.Bytes()}.error()
		}
	})
}
