// Package sink is a receiver of webhooks for tests. It records every request and answers as the test says.
package sink

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Received is one recorded request.
type Received struct {
	Path   string
	Header http.Header
	Body   []byte
}

// JSON returns the body as a JSON object.
func (r Received) JSON(t testing.TB) map[string]any {
	t.Helper()
	var all map[string]any
	require.NoError(t, json.Unmarshal(r.Body, &all))
	return all
}

// Sink is a receiver. Its methods may be called concurrently.
type Sink struct {
	URL    string
	Server *httptest.Server

	t        testing.TB
	mu       sync.Mutex
	answer   http.HandlerFunc
	requests []Received
}

// Start starts a receiver that answers 204, and stops it when the test ends.
func Start(t testing.TB) *Sink {
	t.Helper()
	s := &Sink{t: t}
	s.Answer(204)
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	s.URL = s.Server.URL
	t.Cleanup(func() {
		s.Server.CloseClientConnections() // ends requests whose handler hangs
		s.Server.Close()
	})
	return s
}

func (s *Sink) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.requests = append(s.requests, Received{r.URL.Path, r.Header.Clone(), body})
	answer := s.answer
	s.mu.Unlock()
	answer(w, r)
}

// Answer makes the receiver answer with a status, and with headers given in pairs, from now on.
func (s *Sink) Answer(status int, headers ...string) {
	s.AnswerWith(func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
	})
}

// AnswerWith makes the receiver answer with a handler from now on.
func (s *Sink) AnswerWith(answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// Requests returns all requests so far, in order.
func (s *Sink) Requests() []Received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Received(nil), s.requests...)
}

// Reset forgets all requests so far.
func (s *Sink) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = nil
}

// Wait returns once at least n requests have come in.
func (s *Sink) Wait(n int) []Received {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return len(s.Requests()) >= n }, 20*time.Second, 2*time.Millisecond, "%d requests", n)
	return s.Requests()
}
