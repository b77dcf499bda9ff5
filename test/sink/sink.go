// Package sink is a receiver of webhooks for tests: it keeps what it gets, and answers as it is told to.
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

// Received is one request as it came in.
type Received struct {
	Path   string
	Header http.Header
	Body   []byte
}

// JSON is the body.
func (r Received) JSON(t testing.TB) map[string]any {
	t.Helper()
	var all map[string]any
	require.NoError(t, json.Unmarshal(r.Body, &all))
	return all
}

// Sink is a receiver.
type Sink struct {
	URL    string
	Server *httptest.Server

	t      testing.TB
	mu     sync.Mutex
	answer http.HandlerFunc
	got    []Received
}

// Start starts a receiver that answers 204, and stops it when the test has ended.
func Start(t testing.TB) *Sink {
	t.Helper()
	s := &Sink{t: t}
	s.Answer(204)
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	s.URL = s.Server.URL
	t.Cleanup(func() {
		s.Server.CloseClientConnections() // what hangs
		s.Server.Close()
	})
	return s
}

func (s *Sink) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.got = append(s.got, Received{r.URL.Path, r.Header.Clone(), body})
	answer := s.answer
	s.mu.Unlock()
	answer(w, r)
}

// Answer has it answer with a status, and with headers in pairs, from now on.
func (s *Sink) Answer(status int, headers ...string) {
	s.Do(func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
	})
}

// Do has it answer with a handler from now on.
func (s *Sink) Do(answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// Got is everything that has come in so far, in order.
func (s *Sink) Got() []Received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Received(nil), s.got...)
}

// Forget empties it.
func (s *Sink) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = nil
}

// Wait returns when at least n have come in.
func (s *Sink) Wait(n int) []Received {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return len(s.Got()) >= n }, 20*time.Second, 2*time.Millisecond, "%d requests", n)
	return s.Got()
}
