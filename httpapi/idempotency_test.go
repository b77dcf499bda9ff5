package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/fault"
	"ledgerline/httpapi"
	"ledgerline/httpapi/auth"
)

// ledger counts the writes of POST /v1/entries, which appends an entry and its idempotency record in one step.
type ledger struct {
	kept    *records
	mu      sync.Mutex
	names   map[string]bool
	runs    atomic.Int64  // how often the command ran
	entries atomic.Int64  // how often it appended
	views   atomic.Int64  // how often the view was built
	refuse  error         // what the command returns when set
	viewErr error         // what the view returns when set
	hold    chan struct{} // when set, the command waits until it is closed
	inside  chan struct{} // receives when a command waits
	stored  bool          // the command stores the body itself
}

type entryIn struct {
	Body struct {
		Name   string         `json:"name" maxLength:"50"`
		Fields map[string]any `json:"fields,omitempty"`
	}
}

type entry struct {
	Ref  string `json:"ref"`
	From string `json:"from"`
}

func (l *ledger) do(_ context.Context, c *httpapi.Call, in *entryIn) (httpapi.WriteResult, error) {
	l.runs.Add(1)
	if l.hold != nil {
		l.inside <- struct{}{}
		<-l.hold
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse != nil {
		return httpapi.WriteResult{}, l.refuse
	}
	if l.names[in.Body.Name] {
		return httpapi.WriteResult{}, fault.New(fault.Conflict, "The name is taken.")
	}
	done := httpapi.WriteResult{Ref: in.Body.Name, Position: 7, Shard: 2}
	if c.Idempotency != nil {
		record := httpapi.IdempotencyRecord{Actor: c.Actor(), Fingerprint: c.Idempotency.Fingerprint, Status: c.Idempotency.Status, Ref: done.Ref, Position: 7, Shard: 2}
		if l.stored {
			record.Body = []byte(`{"ref":"once","from":"secret"}`)
			done.Body, done.BodyStored = json.RawMessage(record.Body), true
		}
		if err := l.kept.append(c.WorkspaceID, c.Idempotency.Key, record); err != nil {
			return httpapi.WriteResult{}, fmt.Errorf("append: %w", err)
		}
	}
	l.names[in.Body.Name] = true
	l.entries.Add(1)
	return done, nil
}

func (l *ledger) view(_ context.Context, _ *httpapi.Call, done httpapi.WriteResult) (entry, error) {
	l.views.Add(1)
	if l.viewErr != nil {
		return entry{}, l.viewErr
	}
	if done.Position != 7 || done.Shard != 2 {
		return entry{}, errors.New("the view needs shard and position")
	}
	return entry{Ref: done.Ref, From: "view"}, nil
}

func entries(t *testing.T, omitBody bool) (*service, *ledger) {
	t.Helper()
	l := &ledger{names: map[string]bool{}}
	s := serve(t, nil, func(api *httpapi.API, kept *records) {
		l.kept = kept
		access := anybody()
		access.Keys = []auth.Scope{auth.ScopeSend}
		httpapi.Write(api, httpapi.Route{Method: "POST", Path: "/v1/entries", ID: "entry", Access: access, Status: 201, OmitStoredBody: omitBody}, l.do, l.view)
		httpapi.Write(api, httpapi.Route{Method: "POST", Path: "/v1/others", ID: "other", Access: access, Status: 201}, l.do, l.view)
	})
	return s, l
}

func TestRetryWithTheSameKeyGetsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	s, l := entries(t, false)
	first := s.postKey("/v1/entries", "k1", `{"name":"a","fields":{"x":1.10,"y":[1,2]}}`)
	require.Equal(t, 201, first.Status, string(first.Body))
	require.Empty(t, first.Header.Get("idempotent-replayed"))
	require.Equal(t, "k1", <-s.records.added, "the body is added to its record after the answer")
	for _, same := range []string{`{"name":"a","fields":{"x":1.10,"y":[1,2]}}`, ` { "fields" : {"y":[1, 2],"x":1.10}, "name":"\u0061" } `} {
		again := s.postKey("/v1/entries", "k1", same)
		require.Equal(t, 201, again.Status)
		require.Equal(t, "true", again.Header.Get("idempotent-replayed"))
		require.Equal(t, string(first.Body), string(again.Body))
		require.NotEqual(t, first.Header.Get("x-request-id"), again.Header.Get("x-request-id"))
	}
	require.EqualValues(t, 1, l.entries.Load())
	require.EqualValues(t, 1, l.views.Load(), "the answer is the stored body, not a new view")
}

func TestEveryRequestWithoutAKeyRuns(t *testing.T) {
	t.Parallel()
	s, l := entries(t, false)
	require.Equal(t, 201, s.post("/v1/entries", `{"name":"a"}`).Status)
	s.post("/v1/entries", `{"name":"a"}`).refused(409, "conflict")
	require.EqualValues(t, 1, l.entries.Load())
	require.Empty(t, s.records.stored)
}

func TestSameKeyForAnotherRequestIs409(t *testing.T) {
	t.Parallel()
	s, _ := entries(t, false)
	require.Equal(t, 201, s.postKey("/v1/entries", "k1", `{"name":"a","fields":{"x":1}}`).Status)
	s.postKey("/v1/entries", "k1", `{"name":"b","fields":{"x":1}}`).refused(409, "idempotency_conflict")
	s.postKey("/v1/entries", "k1", `{"name":"a","fields":{"x":1.0}}`).refused(409, "idempotency_conflict")
	s.postKey("/v1/entries", "k1", `{"name":"a"}`).refused(409, "idempotency_conflict")
	s.postKey("/v1/others", "k1", `{"name":"a","fields":{"x":1}}`).refused(409, "idempotency_conflict")
}

func TestSecondRequestIs409WhileTheFirstRuns(t *testing.T) {
	t.Parallel()
	s, l := entries(t, false)
	l.hold, l.inside = make(chan struct{}), make(chan struct{}, 10)
	first := make(chan reply)
	go func() { first <- s.postKey("/v1/entries", "k1", `{"name":"a"}`) }()
	<-l.inside
	s.postKey("/v1/entries", "k1", `{"name":"a"}`).refused(409, "idempotency_conflict")
	close(l.hold)
	require.Equal(t, 201, (<-first).Status)
	require.Equal(t, 201, s.postKey("/v1/entries", "k1", `{"name":"a"}`).Status)
	require.EqualValues(t, 1, l.entries.Load())
}

func TestConcurrentRequestsWithOneKeyWriteOnce(t *testing.T) {
	t.Parallel()
	s, l := entries(t, false)
	var group sync.WaitGroup
	var ok atomic.Int64
	for range 32 {
		group.Go(func() {
			answer := s.postKey("/v1/entries", "k1", `{"name":"a"}`)
			if answer.Status == 201 {
				ok.Add(1)
			} else {
				answer.refused(409, "idempotency_conflict")
			}
		})
	}
	group.Wait()
	require.EqualValues(t, 1, l.entries.Load())
	require.Positive(t, ok.Load())
}

func TestRecordWithoutABodyIsAnsweredFromTheView(t *testing.T) {
	t.Parallel()
	for _, omitBody := range []bool{false, true} {
		s, l := entries(t, omitBody)
		l.viewErr = &fault.Fault{Code: fault.Unavailable, Message: "Not yet."}
		s.postKey("/v1/entries", "k1", `{"name":"a"}`).refused(503, "service_unavailable")
		l.viewErr = nil
		again := s.postKey("/v1/entries", "k1", `{"name":"a"}`)
		require.Equal(t, 201, again.Status)
		require.Equal(t, "true", again.Header.Get("idempotent-replayed"))
		require.JSONEq(t, `{"ref":"a","from":"view"}`, string(again.Body))
		require.EqualValues(t, 1, l.entries.Load())
	}
}

func TestOmittedBodyIsNeverStored(t *testing.T) {
	t.Parallel()
	s, _ := entries(t, true)
	require.Equal(t, 201, s.postKey("/v1/entries", "k1", `{"name":"a"}`).Status)
	s.api.Close()
	require.Nil(t, s.records.stored[workspace.String()+"k1"].Body)
}

func TestBodyThatWasStoredByTheCommandIsAnsweredByteForByte(t *testing.T) {
	t.Parallel()
	s, l := entries(t, false)
	l.stored = true
	first := s.postKey("/v1/entries", "k1", `{"name":"a"}`)
	require.Equal(t, 201, first.Status)
	require.Contains(t, string(first.Body), "secret")
	require.Equal(t, string(first.Body), string(s.postKey("/v1/entries", "k1", `{"name":"a"}`).Body))
	require.EqualValues(t, 0, l.views.Load())
}

func TestRefusalOfTheEndpointIsStored(t *testing.T) {
	t.Parallel()
	for code, status := range map[fault.Code]int{
		fault.ValidationFailed: 400, fault.BadRequest: 400, fault.NotFound: 404, fault.Conflict: 409, fault.ContactOptedOut: 422, fault.ConsentRequired: 422,
	} {
		s, l := entries(t, false)
		l.refuse = fault.New(code, "No.").With("contact_id", "ctc_1")
		first := s.postKey("/v1/entries", "k1", `{"name":"a"}`)
		first.refused(status, string(code))
		require.Empty(t, first.Header.Get("idempotent-replayed"))
		again := s.postKey("/v1/entries", "k1", `{"name":"a"}`)
		require.Equal(t, status, again.Status)
		require.Equal(t, "true", again.Header.Get("idempotent-replayed"))
		require.Equal(t, string(first.Body), string(again.Body))
		s.postKey("/v1/entries", "k1", `{"name":"b"}`).refused(409, "idempotency_conflict")
	}
}

func TestKeyMayBeUsedAgainAfterARefusalThatIsNotStored(t *testing.T) {
	t.Parallel()
	for _, refusal := range []error{
		fault.New(fault.Unauthorized, "No."), fault.New(fault.Forbidden, "No."), fault.New(fault.OrgPaused, "No."), fault.New(fault.PayloadTooLarge, "No."),
		fault.New(fault.UnsupportedMediaType, "No."), fault.New(fault.RateLimited, "No."), fault.New(fault.IdempotencyConflict, "No."),
		fault.New(fault.Unavailable, "No."), errors.New("broken"),
	} {
		s, l := entries(t, false)
		l.refuse = refusal
		require.GreaterOrEqual(t, s.postKey("/v1/entries", "k1", `{"name":"a"}`).Status, 400)
		require.Empty(t, s.records.stored)
		l.refuse = nil
		answer := s.postKey("/v1/entries", "k1", `{"name":"other"}`)
		require.Equal(t, 201, answer.Status)
		require.Empty(t, answer.Header.Get("idempotent-replayed"))
	}
}

func TestRefusalBeforeTheEndpointIsNotStored(t *testing.T) {
	t.Parallel()
	s, _ := entries(t, false)
	s.postKey("/v1/entries", "k1", `{"name":1}`).refused(400, "validation_failed")
	s.postKey("/v1/entries", "k1", `{`).refused(400, "bad_request")
	s.do(call{method: "POST", path: "/v1/entries", token: "read", body: `{"name":"a"}`, header: map[string]string{"idempotency-key": "k1"}}).refused(403, "forbidden")
	require.Equal(t, 201, s.postKey("/v1/entries", "k1", `{"name":"a"}`).Status)
}

func TestRetryOfASuccessIsNotRefusedBecauseOfTheFirstRequest(t *testing.T) {
	t.Parallel()
	s, l := entries(t, false)
	require.Equal(t, 201, s.postKey("/v1/entries", "k1", `{"name":"a"}`).Status)
	require.Equal(t, 201, s.postKey("/v1/entries", "k1", `{"name":"a"}`).Status, "the name is taken by the first request itself")
	l.refuse = fault.New(fault.RateLimited, "Five a minute.")
	require.Equal(t, 201, s.postKey("/v1/entries", "k1", `{"name":"a"}`).Status)
	require.EqualValues(t, 3, l.runs.Load())
	require.EqualValues(t, 1, l.entries.Load())
}

func TestKeyBelongsToItsWorkspace(t *testing.T) {
	t.Parallel()
	other := key("key_other", auth.ScopeSend)
	other.WorkspaceID = uuid.MustParse("01920f6c-b6f1-7c40-a8b1-f7c9d3f0a2b9")
	s, l := entries(t, false)
	all := everybody()
	all["other"] = other
	s2 := serve(t, func(c *httpapi.Config) { c.Authenticator, c.IdempotencyRecords = all, s.records }, func(api *httpapi.API, _ *records) {
		httpapi.Write(api, httpapi.Route{Method: "POST", Path: "/v1/entries", ID: "entry", Access: anybody(), Status: 201}, l.do, l.view)
	})
	require.Equal(t, 201, s.postKey("/v1/entries", "k1", `{"name":"a"}`).Status)
	answer := s2.do(call{method: "POST", path: "/v1/entries", token: "other", body: `{"name":"b"}`, header: map[string]string{"idempotency-key": "k1"}})
	require.Equal(t, 201, answer.Status)
	require.Empty(t, answer.Header.Get("idempotent-replayed"))
}

func TestRecordsThatCannotBeReadAre5xx(t *testing.T) {
	t.Parallel()
	s, l := entries(t, false)
	l.refuse, s.records.broken = fault.New(fault.Conflict, "No."), errors.New("the database is unreachable")
	s.postKey("/v1/entries", "k1", `{"name":"a"}`).refused(500, "internal_error")
	l.refuse = fault.New(fault.Unavailable, "The database is unreachable.")
	s.postKey("/v1/entries", "k1", `{"name":"a"}`).refused(503, "service_unavailable")
	s.records.broken, l.refuse = nil, nil
	require.Equal(t, 201, s.postKey("/v1/entries", "k1", `{"name":"a"}`).Status)
}

func TestMalformedIdempotencyKeyIsReported(t *testing.T) {
	t.Parallel()
	s, _ := entries(t, false)
	for key, issue := range map[string]string{
		"": "too_short", strings.Repeat("k", 256): "too_long", "a b": "invalid_characters", "kä": "invalid_characters", "a\tb": "invalid_characters",
		"outreach:1": "reserved", "workflow:": "reserved", "agent:x": "reserved",
	} {
		require.Equal(t, []string{"header /idempotency-key " + issue}, s.postKey("/v1/entries", key, `{"name":"a"}`).issues(), key)
	}
	for i, key := range []string{"!", "~", strings.Repeat("k", 255), "Agent:1", "x-agent:1", "a,b;c\"'"} {
		require.Equal(t, 201, s.postKey("/v1/entries", key, fmt.Sprintf(`{"name":"n%d"}`, i)).Status, key)
	}
	request := newRequest(t, "POST", s.url+"/v1/entries", "all")
	request.Header["Idempotency-Key"] = []string{"a", "b"}
	request.Body, request.ContentLength = http.NoBody, 0
	response, err := client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, 400, response.StatusCode)
}

type toolIn struct {
	Body struct {
		Name string `json:"name"`
		Key  string `json:"idempotency_key,omitempty" maxLength:"255"`
	}
}

func (in *toolIn) IdempotencyKey() string { return in.Body.Key }

func TestToolTakesItsKeyFromItsInput(t *testing.T) {
	t.Parallel()
	l := &ledger{names: map[string]bool{}}
	s := serve(t, nil, func(api *httpapi.API, kept *records) {
		l.kept = kept
		httpapi.Write(api, httpapi.Route{Method: "POST", Path: "/v1/mcp/tools/add", ID: "tool", Access: anybody()},
			func(ctx context.Context, c *httpapi.Call, in *toolIn) (httpapi.WriteResult, error) {
				inner := &entryIn{}
				inner.Body.Name = in.Body.Name
				return l.do(ctx, c, inner)
			}, l.view)
	})
	require.Equal(t, 200, s.post("/v1/mcp/tools/add", `{"name":"a","idempotency_key":"k1"}`).Status)
	require.Equal(t, "true", s.post("/v1/mcp/tools/add", `{"name":"a","idempotency_key":"k1"}`).Header.Get("idempotent-replayed"))
	require.Equal(t, []string{"body /idempotency_key reserved"}, s.post("/v1/mcp/tools/add", `{"name":"a","idempotency_key":"agent:1"}`).issues())
	require.EqualValues(t, 1, l.entries.Load())
}

func TestKeyMayBeUsedAgainAfterAPanic(t *testing.T) {
	t.Parallel()
	var fixed atomic.Bool
	s := serve(t, nil, func(api *httpapi.API, _ *records) {
		httpapi.Write(api, httpapi.Route{Method: "POST", Path: "/v1/entries", ID: "entry", Access: anybody()},
			func(context.Context, *httpapi.Call, *struct{}) (httpapi.WriteResult, error) {
				if !fixed.Load() {
					panic(errors.New("bug"))
				}
				return httpapi.WriteResult{Body: entry{}}, nil
			}, func(context.Context, *httpapi.Call, httpapi.WriteResult) (entry, error) { return entry{}, nil })
	})
	s.postKey("/v1/entries", "k1", "").refused(500, "internal_error")
	fixed.Store(true)
	require.Equal(t, 200, s.postKey("/v1/entries", "k1", "").Status)
}
