package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/fault"
	"ledgerline/httpapi"
)

// doNothing is a write that succeeds with an empty body.
func doNothing[In any](context.Context, *httpapi.Call, *In) (httpapi.WriteResult, error) {
	return httpapi.WriteResult{Body: struct{}{}, BodyStored: true}, nil
}

func TestAnswerShowsNullsEmptyListsAndSecurityHeaders(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, things)
	answer := s.get("/v1/things/thg_1234")
	require.Equal(t, 200, answer.Status)
	require.Equal(t, "application/json", answer.Header.Get("content-type"))
	require.Equal(t, "no-store", answer.Header.Get("cache-control"))
	require.Equal(t, "nosniff", answer.Header.Get("x-content-type-options"))
	require.JSONEq(t, `{"id":"thg_1234","name":"Go-http-client/1.1","email":null,"owner":null,"kind":null,"labels":[],"fields":{},
		"allowlist":null,"parent":null,"created_at":"2026-01-31T16:00:00.120Z","seen_at":null}`, string(answer.Body))
}

func TestAnswerIsJSONWhateverTheClientAccepts(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, things)
	for _, accept := range []string{"text/html", "application/cbor", "*/*", "nonsense", "application/problem+json"} {
		answer := s.do(call{method: "GET", path: "/v1/things/thg_1234", token: "all", header: map[string]string{"accept": accept}})
		require.Equal(t, 200, answer.Status)
		require.Equal(t, "application/json", answer.Header.Get("content-type"))
	}
}

func TestQueryParametersHaveDefaults(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, things)
	fields := func(path string) map[string]any {
		data, ok := s.get(path).json()["data"].([]any)
		require.True(t, ok)
		one, ok := data[0].(map[string]any)
		require.True(t, ok)
		inner, ok := one["fields"].(map[string]any)
		require.True(t, ok)
		return inner
	}
	require.Equal(t, map[string]any{"limit": 50.0, "cursor": "", "owner": nil}, fields("/v1/things"))
	require.Equal(t, map[string]any{"limit": 50.0, "cursor": "", "owner": nil}, fields("/v1/things?q="))
	require.Equal(t, map[string]any{"limit": 7.0, "cursor": "c", "owner": workspace.String()}, fields("/v1/things?limit=7&cursor=c&owner="+workspace.String()))
}

type patchThing struct {
	httpapi.IDParam
	Body struct {
		Name  httpapi.Nullable[string]      `json:"name,omitzero" maxLength:"5"`
		Phone httpapi.Optional[string]      `json:"phone,omitzero" maxLength:"5"`
		Kind  httpapi.Nullable[string]      `json:"kind,omitzero" enum:"big,small"`
		Hours httpapi.Nullable[hours]       `json:"hours,omitzero"`
		Names httpapi.Optional[[]string]    `json:"names,omitzero" maxItems:"2"`
		Owner httpapi.Nullable[thingParent] `json:"owner,omitzero"`
	}
}

type hours struct {
	Start string `json:"start" maxLength:"5"`
	End   string `json:"end"`
}

func patching(api *httpapi.API, _ *records) {
	httpapi.Write(api, httpapi.Route{Method: "PATCH", Path: "/v1/things/{id}", ID: "patch-thing", Access: anybody()},
		func(_ context.Context, _ *httpapi.Call, in *patchThing) (httpapi.WriteResult, error) {
			b := in.Body
			return httpapi.WriteResult{BodyStored: true, Body: map[string]any{
				"name": []any{b.Name.Set, b.Name.Null, b.Name.Ptr()}, "phone": []any{b.Phone.Set, b.Phone.Value},
				"hours": []any{b.Hours.Set, b.Hours.Null, b.Hours.Value.Start}, "names": b.Names.Value,
			}}, nil
		}, func(context.Context, *httpapi.Call, httpapi.WriteResult) (map[string]any, error) { return nil, nil })
}

func TestPatchDistinguishesAbsentNullAndValue(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, patching)
	patch := func(body string) reply {
		return s.do(call{method: "PATCH", path: "/v1/things/1", token: "all", body: body})
	}
	require.JSONEq(t, `{"name":[false,false,null],"phone":[false,""],"hours":[false,false,""],"names":null}`, string(patch(`{}`).Body))
	require.JSONEq(t, `{"name":[true,true,null],"phone":[false,""],"hours":[true,true,""],"names":null}`, string(patch(`{"name":null,"hours":null}`).Body))
	require.JSONEq(t, `{"name":[true,false,"ann"],"phone":[true,"1"],"hours":[true,false,"09:00"],"names":["x"]}`,
		string(patch(`{"name":"ann","phone":"1","hours":{"start":"09:00","end":"20:00"},"names":["x"]}`).Body))
	require.Equal(t, []string{
		"body /hours/end required", "body /hours/start too_long", "body /kind invalid_value", "body /name too_long", "body /names too_many_items",
		"body /phone null_not_allowed",
	}, patch(`{"name":"longer","phone":null,"kind":"x","hours":{"start":"09:00:00"},"names":["a","b","c"]}`).issues())
}

func TestOptionalBodyMayBeMissing(t *testing.T) {
	t.Parallel()
	type in struct {
		Body *struct {
			Reason string `json:"reason,omitempty" maxLength:"5"`
		}
	}
	s := serve(t, nil, func(api *httpapi.API, _ *records) {
		httpapi.Write(api, httpapi.Route{Method: "POST", Path: "/v1/pause", ID: "pause", Access: anybody()},
			func(_ context.Context, _ *httpapi.Call, in *in) (httpapi.WriteResult, error) {
				return httpapi.WriteResult{BodyStored: true, Body: map[string]bool{"body": in.Body != nil}}, nil
			}, func(context.Context, *httpapi.Call, httpapi.WriteResult) (map[string]bool, error) { return nil, nil })
	})
	require.JSONEq(t, `{"body":false}`, string(s.post("/v1/pause", "").Body))
	require.JSONEq(t, `{"body":true}`, string(s.post("/v1/pause", "{}").Body))
	require.Equal(t, []string{"body /reason too_long"}, s.post("/v1/pause", `{"reason":"because"}`).issues())
}

func TestStalledDownloadIsBrokenOff(t *testing.T) {
	t.Parallel()
	broken := make(chan error, 1)
	s := serve(t, func(cfg *httpapi.Config) { cfg.StallTimeout = 50 * time.Millisecond }, func(api *httpapi.API, _ *records) {
		httpapi.Stream(api, httpapi.Route{Method: "GET", Path: "/v1/export", ID: "export", Access: anybody()}, "text/csv",
			func(context.Context, *httpapi.Call, *struct{}) (httpapi.Download, error) {
				return httpapi.Download{ContentType: "text/csv", Write: func(w io.Writer) error {
					for {
						if _, err := w.Write(make([]byte, 1<<20)); err != nil {
							broken <- err
							return err
						}
					}
				}}, nil
			})
	})
	response, err := client.Do(newRequest(t, "GET", s.url+"/v1/export", "all"))
	require.NoError(t, err)
	defer response.Body.Close()
	require.ErrorIs(t, <-broken, os.ErrDeadlineExceeded)
}

func TestDownloadThatTheClientEndsIsNoErrorOfTheService(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, func(api *httpapi.API, _ *records) {
		httpapi.Stream(api, httpapi.Route{Method: "GET", Path: "/v1/export", ID: "export", Access: anybody()}, "text/csv",
			func(context.Context, *httpapi.Call, *struct{}) (httpapi.Download, error) {
				return httpapi.Download{ContentType: "text/csv", Write: func(w io.Writer) error {
					for {
						if _, err := w.Write(make([]byte, 1<<16)); err != nil {
							return fmt.Errorf("write: %w", err)
						}
					}
				}}, nil
			})
	})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v1/export", http.NoBody)
	require.NoError(t, err)
	request.Header.Set("authorization", "Bearer all")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Eventually(t, func() bool { return strings.Contains(s.logs.String(), "the client ended a download early") }, 10*time.Second, time.Millisecond)
	require.NotContains(t, s.logs.String(), `"level":"ERROR"`)
}

func TestDownloadRefusesOnlyBeforeItsFirstByte(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, func(api *httpapi.API, _ *records) {
		httpapi.Stream(api, httpapi.Route{Method: "GET", Path: "/v1/export/{id}", ID: "export", Access: anybody()}, "text/csv",
			func(_ context.Context, _ *httpapi.Call, in *httpapi.IDParam) (httpapi.Download, error) {
				return httpapi.Download{ContentType: "text/csv; charset=utf-8", Filename: "things.csv", Write: func(w io.Writer) error {
					switch in.ID {
					case "refused":
						return fault.New(fault.NotFound, "No.")
					case "broken":
						_, _ = io.WriteString(w, "a,b\n")
						return errors.New("the database is unreachable")
					case "empty":
						return nil
					}
					_, err := io.WriteString(w, "a,b\n1,2\n")
					return err
				}}, nil
			})
	})
	answer := s.get("/v1/export/all")
	require.Equal(t, "a,b\n1,2\n", string(answer.Body))
	require.Equal(t, "text/csv; charset=utf-8", answer.Header.Get("content-type"))
	require.Equal(t, `attachment; filename="things.csv"`, answer.Header.Get("content-disposition"))
	require.Equal(t, 200, s.get("/v1/export/empty").Status)
	s.get("/v1/export/refused").refused(404, "not_found")

	request := newRequest(t, "GET", s.url+"/v1/export/broken", "all")
	response, err := client.Do(request)
	if err == nil {
		defer response.Body.Close()
		_, err = io.ReadAll(response.Body)
	}
	require.Error(t, err, "a partial file must not look complete")
}
