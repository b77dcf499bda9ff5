package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/fault"
	"ledgerline/httpapi"
	"ledgerline/httpapi/auth"
)

var (
	workspace    = uuid.MustParse("01920f6c-b6f1-7c40-a8b1-f7c9d3f0a2b4")
	organisation = uuid.MustParse("01920f6c-b6f1-7c40-a8b1-f7c9d3f0a2b5")
)

// callers is an Authenticator that knows callers by their tokens.
type callers map[string]auth.Caller

// Identify knows the tokens whose callers there are, and the token "revoked".
func (c callers) Identify(_ context.Context, credentials auth.Credentials) (auth.Identity, error) {
	if caller, ok := c[credentials.Token]; ok {
		return auth.Identity{Key: caller.ID + "/" + credentials.WorkspaceHeader, Base: caller.ID}, nil
	}
	if credentials.Token == "revoked" {
		return auth.Identity{Key: "revoked", Base: "revoked"}, nil
	}
	return auth.Identity{}, fault.New(fault.Unauthorized, "The token is not valid.")
}

func (c callers) Authenticate(_ context.Context, credentials auth.Credentials) (auth.Caller, error) {
	caller, ok := c[credentials.Token]
	if !ok {
		return auth.Caller{}, fault.New(fault.Unauthorized, "The token is not valid.")
	}
	if credentials.WorkspaceHeader != "" && credentials.WorkspaceHeader != caller.WorkspaceID.String() {
		return auth.Caller{}, fault.New(fault.Forbidden, "This workspace is not yours.")
	}
	return caller, nil
}

func key(id string, scopes ...auth.Scope) auth.Caller {
	return auth.Caller{
		Kind: auth.KindKey, ID: id, OrganisationID: organisation, WorkspaceID: workspace, Scopes: scopes,
	}
}

func session(role auth.Role) auth.Caller {
	return auth.Caller{
		Kind: auth.KindSession, ID: "user-" + string(role),
		OrganisationID: organisation, WorkspaceID: workspace, Role: role,
	}
}

func everybody() callers {
	all := callers{
		"all":   key("key_all", auth.ScopeRead, auth.ScopeSend, auth.ScopeAdmin),
		"read":  key("key_read", auth.ScopeRead),
		"send":  key("key_send", auth.ScopeSend),
		"admin": key("key_admin", auth.ScopeAdmin),
	}
	test := key("key_test", auth.ScopeRead, auth.ScopeSend, auth.ScopeAdmin)
	test.Test = true
	all["test"] = test
	paused := key("key_paused", auth.ScopeRead, auth.ScopeAdmin)
	paused.OrgPaused = true
	all["paused"] = paused
	for _, role := range []auth.Role{
		auth.RoleOwner, auth.RoleAdmin, auth.RoleBilling, auth.RoleManager, auth.RoleAgent, auth.RoleDeveloper, auth.RoleAnalyst,
	} {
		all["session:"+string(role)] = session(role)
	}
	return all
}

// records is an IdempotencyRecords in memory. As in the ledger, a key can be used once in a workspace.
type records struct {
	mu     sync.Mutex
	stored map[string]*httpapi.IdempotencyRecord // by workspace and key
	added  chan string                           // keys whose body was added
	broken error                                 // returned by every method when set
}

func newRecords() *records {
	return &records{stored: map[string]*httpapi.IdempotencyRecord{}, added: make(chan string, 1000)}
}

func (r *records) Find(_ context.Context, workspace uuid.UUID, key string) (*httpapi.IdempotencyRecord, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken != nil {
		return nil, r.broken
	}
	record := r.stored[workspace.String()+key]
	if record == nil {
		return nil, nil
	}
	found := *record
	return &found, nil
}

func (r *records) SaveRefusal(
	_ context.Context, caller auth.Caller, key string, fingerprint []byte, record httpapi.IdempotencyRecord,
) error {
	record.Actor, record.Fingerprint = caller.Actor(), fingerprint
	return r.append(caller.WorkspaceID, key, record)
}

// append stores a record as the append of a command does.
func (r *records) append(workspace uuid.UUID, key string, record httpapi.IdempotencyRecord) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken != nil {
		return r.broken
	}
	if r.stored[workspace.String()+key] != nil {
		return httpapi.ErrIdempotencyKeyUsed
	}
	r.stored[workspace.String()+key] = &record
	return nil
}

func (r *records) AddBody(_ context.Context, workspace uuid.UUID, actor, key string, body []byte) {
	r.mu.Lock()
	if record := r.stored[workspace.String()+key]; record != nil && record.Actor == actor && record.Body == nil {
		record.Body = body
	}
	r.mu.Unlock()
	r.added <- key
}

// service is an API with a few endpoints, served over real HTTP.
type service struct {
	t       testing.TB
	api     *httpapi.API
	url     string
	records *records
	logs    *syncBuffer
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func newAPI(t testing.TB, change func(*httpapi.Config)) (*httpapi.API, *records, *syncBuffer) {
	t.Helper()
	logs, kept := &syncBuffer{}, newRecords()
	cfg := httpapi.Config{
		Title: "Ledgerline", Version: "1", Authenticator: everybody(), IdempotencyRecords: kept,
		Logger: slog.New(slog.NewJSONHandler(logs, nil)), AccessLog: true,
	}
	if change != nil {
		change(&cfg)
	}
	api, err := httpapi.New(cfg)
	require.NoError(t, err)
	t.Cleanup(api.Close)
	return api, kept, logs
}

func serve(t testing.TB, change func(*httpapi.Config), register func(*httpapi.API, *records)) *service {
	t.Helper()
	api, kept, logs := newAPI(t, change)
	register(api, kept)
	server := httptest.NewServer(api.Handler())
	t.Cleanup(server.Close)
	return &service{t: t, api: api, url: server.URL, records: kept, logs: logs}
}

// reply is an answer that a client received.
type reply struct {
	t      testing.TB
	Status int
	Header http.Header
	Body   []byte
}

type call struct {
	method, path, token, body string
	header                    map[string]string
}

func (s *service) do(c call) reply {
	s.t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), c.method, s.url+c.path, bytes.NewReader([]byte(c.body)))
	require.NoError(s.t, err)
	if c.token != "" {
		request.Header.Set("authorization", "Bearer "+c.token)
	}
	if c.body != "" {
		request.Header.Set("content-type", "application/json")
	}
	for name, value := range c.header {
		if value == "-" {
			request.Header.Del(name)
			continue
		}
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(s.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	return reply{s.t, response.StatusCode, response.Header, body}
}

func (s *service) get(path string) reply { return s.do(call{method: "GET", path: path, token: "all"}) }

func (s *service) post(path, body string) reply {
	return s.do(call{method: "POST", path: path, token: "all", body: body})
}

func (s *service) postKey(path, key, body string) reply {
	return s.do(call{method: "POST", path: path, token: "all", body: body, header: map[string]string{"idempotency-key": key}})
}

type errorBody struct {
	Error struct {
		Code      string         `json:"code"`
		Message   string         `json:"message"`
		RequestID string         `json:"request_id"`
		Details   map[string]any `json:"details"`
	} `json:"error"`
}

func (r reply) error() errorBody {
	r.t.Helper()
	var body errorBody
	decoder := json.NewDecoder(bytes.NewReader(r.Body))
	decoder.DisallowUnknownFields()
	require.NoError(r.t, decoder.Decode(&body), string(r.Body))
	require.Equal(r.t, "application/json", r.Header.Get("content-type"))
	require.NotNil(r.t, body.Error.Details)
	return body
}

// refused requires a refusal with a status and a code, in the shape of all errors.
func (r reply) refused(status int, code string) errorBody {
	r.t.Helper()
	require.Equal(r.t, status, r.Status, string(r.Body))
	body := r.error()
	require.Equal(r.t, code, body.Error.Code)
	require.NotEmpty(r.t, body.Error.Message)
	require.Equal(r.t, r.Header.Get("x-request-id"), body.Error.RequestID)
	return body
}

// issues lists the issues of a validation failure as "location path code".
func (r reply) issues() []string {
	r.t.Helper()
	body := r.refused(http.StatusBadRequest, "validation_failed")
	list, ok := body.Error.Details["issues"].([]any)
	require.True(r.t, ok, string(r.Body))
	var found []string
	for _, one := range list {
		issue, ok := one.(map[string]any)
		require.True(r.t, ok)
		require.NotEmpty(r.t, issue["message"])
		found = append(found, fmt.Sprintf("%s %s %s", issue["location"], issue["path"], issue["code"]))
	}
	return found
}

func (r reply) json() map[string]any {
	r.t.Helper()
	var body map[string]any
	require.NoError(r.t, json.Unmarshal(r.Body, &body), string(r.Body))
	return body
}

// The sample resource.

type thing struct {
	ID        string             `json:"id"`
	Name      string             `json:"name"`
	Email     *string            `json:"email"`
	Owner     *uuid.UUID         `json:"owner"`
	Kind      *string            `json:"kind" enum:"big,small"`
	Labels    []string           `json:"labels"`
	Fields    map[string]any     `json:"fields"`
	Allowlist []string           `json:"allowlist" nullable:"true"`
	Parent    *thingParent       `json:"parent"`
	CreatedAt httpapi.Timestamp  `json:"created_at"`
	SeenAt    *httpapi.Timestamp `json:"seen_at"`
}

type thingParent struct {
	ID string `json:"id"`
}

type thingMedia struct {
	URL  string `json:"url" format:"uri" maxLength:"30"`
	Name string `json:"name,omitempty" maxLength:"5"`
}

type createThing struct {
	Body struct {
		Name   string         `json:"name" maxLength:"10"`
		Email  string         `json:"email,omitempty" format:"email" maxLength:"254"`
		Owner  uuid.UUID      `json:"owner,omitzero"`
		Count  int            `json:"count,omitempty" minimum:"1" maximum:"50"`
		Size   int64          `json:"size,omitempty"`
		Kind   string         `json:"kind,omitempty" enum:"big,small"`
		At     time.Time      `json:"at,omitzero"`
		Labels []string       `json:"labels,omitempty" maxItems:"3"`
		Media  []thingMedia   `json:"media,omitempty" maxItems:"10"`
		Fields map[string]any `json:"fields,omitempty"`
		Urgent bool           `json:"urgent,omitempty" default:"false"`
		Ratio  float64        `json:"ratio,omitempty"`
	}
}

type listThings struct {
	httpapi.PageParams
	Q     string                      `query:"q" maxLength:"5"`
	Kind  string                      `query:"kind" enum:"big,small"`
	Owner httpapi.Optional[uuid.UUID] `query:"owner"`
	From  time.Time                   `query:"from"`
}

func anybody() auth.Access {
	return auth.Access{
		Keys:  []auth.Scope{auth.ScopeRead, auth.ScopeSend, auth.ScopeAdmin},
		Roles: auth.PermContacts | auth.PermContactsRead,
	}
}

var created = httpapi.TimestampOf(time.Date(2026, 1, 31, 17, 0, 0, 120_000_000, time.FixedZone("CET", 3600)))

// things registers the sample resource: list, get, create and delete.
func things(api *httpapi.API, kept *records) {
	httpapi.Read(api, httpapi.Route{Method: "GET", Path: "/v1/things", ID: "list-things", Access: anybody()},
		func(_ context.Context, _ *httpapi.Call, in *listThings) (httpapi.Page[thing], error) {
			return httpapi.Page[thing]{Data: []thing{{ID: in.Q, Name: in.Kind, Fields: map[string]any{
				"limit": in.Limit, "cursor": in.Cursor, "owner": in.Owner.Ptr(),
			}}}}, nil
		})
	httpapi.Read(api, httpapi.Route{Method: "GET", Path: "/v1/things/{id}", ID: "get-thing", Access: anybody()},
		func(_ context.Context, c *httpapi.Call, in *httpapi.IDParam) (thing, error) {
			if len(in.ID) != 8 {
				return thing{}, fault.New(fault.NotFound, "There is no such thing.")
			}
			return thing{ID: in.ID, Name: c.UserAgent, CreatedAt: created}, nil
		})
	httpapi.Read(api, httpapi.Route{Method: "GET", Path: "/v1/marks/{id}", ID: "get-mark", Access: anybody()},
		func(_ context.Context, _ *httpapi.Call, in *httpapi.UUIDParam) (thing, error) {
			return thing{ID: in.ID.String()}, nil
		})
	httpapi.Write(api, httpapi.Route{Method: "POST", Path: "/v1/things", ID: "create-thing", Access: anybody(), Status: 201},
		func(_ context.Context, c *httpapi.Call, in *createThing) (httpapi.WriteResult, error) {
			if c.Idempotency != nil {
				record := httpapi.IdempotencyRecord{Actor: c.Actor(), Fingerprint: c.Idempotency.Fingerprint, Status: c.Idempotency.Status, Ref: in.Body.Name}
				if err := kept.append(c.WorkspaceID, c.Idempotency.Key, record); err != nil {
					return httpapi.WriteResult{}, err
				}
			}
			return httpapi.WriteResult{Ref: in.Body.Name, Body: thing{ID: "thg_" + in.Body.Name, Name: in.Body.Name, Fields: in.Body.Fields}}, nil
		},
		func(_ context.Context, _ *httpapi.Call, done httpapi.WriteResult) (thing, error) {
			return thing{ID: "thg_" + done.Ref, Name: done.Ref}, nil
		})
	httpapi.Write(api, httpapi.Route{Method: "DELETE", Path: "/v1/things/{id}", ID: "delete-thing", Access: anybody()},
		func(_ context.Context, _ *httpapi.Call, in *httpapi.IDParam) (httpapi.WriteResult, error) {
			return httpapi.WriteResult{Body: httpapi.Deleted{Deleted: true, ID: in.ID}}, nil
		},
		func(_ context.Context, _ *httpapi.Call, _ httpapi.WriteResult) (httpapi.Deleted, error) {
			return httpapi.Deleted{}, fault.New(fault.NotFound, "It does not exist.")
		})
}
