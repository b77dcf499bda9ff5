package llm_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/adapters/llm"
	"ledgerline/processes/agents"
)

var prompt = agents.Prompt{
	System: "Be brief.", Turns: []agents.Turn{{Inbound: true, Text: "a secret question"}, {Text: "an answer"}, {Inbound: true, Text: "another"}},
	Tools: []agents.Tool{{Name: "finish", Description: "Ends it.", Parameters: map[string]any{"type": "object"}}},
}

// server answers each call with a status and a body, and passes on what it was sent.
func server(t *testing.T, status int, body string) (*llm.Client, <-chan *http.Request, <-chan map[string]any) {
	t.Helper()
	requests, bodies := make(chan *http.Request, 1), make(chan map[string]any, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var sent map[string]any
		_ = json.NewDecoder(r.Body).Decode(&sent)
		requests <- r
		bodies <- sent
		w.Header().Set("content-type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	client, err := llm.New(llm.Config{URL: s.URL + "/v1/", Key: "sk-hidden", Model: "standard"})
	require.NoError(t, err)
	return client, requests, bodies
}

func TestCallFollowsTheChatCompletionsWire(t *testing.T) {
	t.Parallel()
	client, requests, bodies := server(t, 200, `{"choices":[{"message":{"role":"assistant","content":"sure",
		"tool_calls":[{"id":"1","type":"function","function":{"name":"finish","arguments":"{}"}}]}}]}`)
	answer, err := client.Complete(t.Context(), &prompt)
	require.NoError(t, err)
	require.Equal(t, agents.Completion{Text: "sure", Calls: []agents.ToolCall{{Name: "finish", Arguments: "{}"}}}, answer)
	r, body := <-requests, <-bodies
	require.Equal(t, []string{"POST", "/v1/chat/completions", "Bearer sk-hidden"}, []string{r.Method, r.URL.Path, r.Header.Get("Authorization")})
	require.Equal(t, "standard", body["model"])
	require.Equal(t, []any{
		map[string]any{"role": "system", "content": "Be brief."}, map[string]any{"role": "user", "content": "a secret question"},
		map[string]any{"role": "assistant", "content": "an answer"}, map[string]any{"role": "user", "content": "another"},
	}, body["messages"])
	require.Equal(t, []any{map[string]any{"type": "function", "function": map[string]any{
		"name": "finish", "description": "Ends it.", "parameters": map[string]any{"type": "object"},
	}}}, body["tools"])
	named := prompt
	named.Model = "other"
	_, err = client.Complete(t.Context(), &named)
	require.NoError(t, err)
	<-requests
	require.Equal(t, "other", (<-bodies)["model"])
}

func TestErrorsHoldNoTextAndNoKey(t *testing.T) {
	t.Parallel()
	for status, refused := range map[int]bool{400: false, 401: true, 403: true, 404: true, 429: false, 500: false, 302: false, 200: false} {
		for _, body := range []string{`{"error":{"message":"sk-hidden: a secret question"}}`, `a secret question, sk-hidden`} {
			if status == 200 && body[0] == '{' {
				continue
			}
			client, _, _ := server(t, status, body)
			_, err := client.Complete(t.Context(), &prompt)
			require.Error(t, err, "%d %s", status, body)
			require.NotContains(t, err.Error(), "secret")
			require.NotContains(t, err.Error(), "sk-hidden")
			if refused {
				require.ErrorIs(t, err, agents.ErrRefused)
			} else {
				require.NotErrorIs(t, err, agents.ErrRefused)
			}
		}
	}
	client, err := llm.New(llm.Config{URL: "http://127.0.0.1:1"})
	require.NoError(t, err)
	_, err = client.Complete(t.Context(), &prompt)
	require.Error(t, err)
	for _, wrong := range []string{"", "ftp://example.com", "example.com/v1"} {
		_, err := llm.New(llm.Config{URL: wrong})
		require.Error(t, err, wrong)
	}
}

func TestCallEndsWithItsContext(t *testing.T) {
	t.Parallel()
	hanging := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hanging }))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(hanging) })
	client, err := llm.New(llm.Config{URL: s.URL})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = client.Complete(ctx, &prompt)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = llm.Scripted{}.Complete(ctx, &agents.Prompt{Turns: []agents.Turn{{Inbound: true, Text: "slow"}}})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
