package httpapi_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/httpapi"
)

func TestMalformedJSONIs400BadRequest(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, things)
	for name, body := range map[string]string{
		"cut off": `{"name":"a"`, "trailing data": `{"name":"a"} {}`, "trailing garbage": `{"name":"a"}x`, "no JSON": `name=a`,
		"deep": `{"name":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`, "very deep": strings.Repeat("[", 500_000),
		"single quotes": `{'name':'a'}`, "invalid bytes outside of strings": "{\"name\":\"a\"\xff}", "only space": "  ", "control": "{\"name\":\"a\nb\"}",
		"byte order mark": "\ufeff{}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.post("/v1/things", body).refused(400, "bad_request")
		})
	}
}

func TestMissingBodyIsReported(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, things)
	require.Equal(t, []string{"body  required"}, s.post("/v1/things", "").issues())
}

func TestContentTypeOtherThanJSONIs415(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, things)
	for _, kind := range []string{
		"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonx", "nonsense",
		"application/json; charset=utf-16", "application/json;;", "application/xml+json;charset=latin1", "a+b;c",
	} {
		s.do(call{method: "POST", path: "/v1/things", token: "all", body: `{"name":"a"}`, header: map[string]string{"content-type": kind}}).
			refused(415, "unsupported_media_type")
	}
	for _, kind := range []string{"application/json", "application/json; charset=utf-8", "Application/JSON", "application/merge-patch+json", "-"} {
		answer := s.do(call{method: "POST", path: "/v1/things", token: "all", body: `{"name":"a"}`, header: map[string]string{"content-type": kind}})
		require.Equal(t, 201, answer.Status, kind)
	}
}

func TestBodyOverTheLimitIs413(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, func(api *httpapi.API, kept *records) {
		things(api, kept)
		type in struct {
			Body struct {
				CSV string `json:"csv"`
			}
		}
		httpapi.Write[in, struct{}](api, httpapi.Route{Method: "POST", Path: "/v1/imports", ID: "import", Access: anybody(), MaxBody: 3 << 20},
			doNothing[in], nil)
	})
	pad := func(size int) string { return `{"name":"a"` + strings.Repeat(" ", size-12) + `}` }
	require.Equal(t, 201, s.post("/v1/things", pad(1<<20)).Status)
	s.post("/v1/things", pad(1<<20+1)).refused(413, "payload_too_large")
	s.post("/v1/things", pad(3<<20)).refused(413, "payload_too_large")
	csv := func(size int) string { return `{"csv":"` + strings.Repeat("a", size-10) + `"}` }
	require.Equal(t, 200, s.post("/v1/imports", csv(3<<20)).Status)
	s.post("/v1/imports", csv(3<<20+1)).refused(413, "payload_too_large")
}

func TestTextThatCannotBeStoredIsReportedWithItsPointer(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, things)
	require.Equal(t, []string{"body /name invalid_characters"}, s.post("/v1/things", `{"name":"a\u0000b"}`).issues())
	require.Equal(t, []string{"body /labels/1 invalid_characters"}, s.post("/v1/things", "{\"name\":\"a\",\"labels\":[\"x\",\"\xc3\x28\"]}").issues())
	require.Equal(t, []string{"body /fields/a~1b/c invalid_characters"}, s.post("/v1/things", `{"name":"a","fields":{"a/b":{"c":"\u0000"}}}`).issues())
	require.Equal(t, []string{"query /q invalid_characters"}, s.get("/v1/things?q=%00").issues())
	require.Equal(t, []string{"query /q invalid_characters"}, s.get("/v1/things?q=%ff").issues())
	s.get("/v1/things/%00aaaaaaa").refused(404, "not_found")
	s.get("/v1/things/%ffaaaaaaa").refused(404, "not_found")
}

func TestHugeNumbersAreReported(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, things)
	require.Contains(t, s.post("/v1/things", `{"name":"a","ratio":1e999}`).issues(), "body /ratio out_of_range")
	require.Contains(t, s.post("/v1/things", `{"name":"a","count":1e300}`).issues(), "body /count too_large")
	require.Contains(t, s.post("/v1/things", `{"name":"a","count":99999999999999999999}`).issues(), "body /count too_large")
	require.Equal(t, []string{"body /count invalid_type"}, s.post("/v1/things", `{"name":"a","count":1.5}`).issues())
	require.Equal(t, []string{"body /count invalid_type"}, s.post("/v1/things", `{"name":"a","count":1.0}`).issues())
	require.Equal(t, []string{"body /size too_large"}, s.post("/v1/things", `{"name":"a","size":9007199254740992}`).issues())
	require.Equal(t, []string{"body /size too_small"}, s.post("/v1/things", `{"name":"a","size":-9223372036854775809}`).issues())
	require.Equal(t, 201, s.post("/v1/things", `{"name":"a","size":9007199254740991,"ratio":1.0}`).Status)
}

func TestAllProblemsAreReportedTogether(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, things)
	answer := s.do(call{
		method: "POST", path: "/v1/things", token: "all",
		body: `{"email":"Ann <ann@example.com>","owner":"nobody","count":0,"kind":"odd","at":"today","labels":["a",1,"b","c"],
			"media":[{"url":"` + "http://" + strings.Repeat("u", 24) + `","name":"toolong","extra":1},{}],"fields":[],"urgent":"yes","a.b[0]":1,"Name":"x","nothing":{"x":1}}`,
		header: map[string]string{"idempotency-key": "agent:1", "x-workspace-id": "mine"},
	})
	require.ElementsMatch(t, []string{
		"header /x-workspace-id invalid_format", "header /idempotency-key reserved",
		"body /name required", "body /email invalid_format", "body /owner invalid_format", "body /count too_small", "body /kind invalid_value",
		"body /at invalid_format", "body /labels too_many_items", "body /labels/1 invalid_type", "body /media/0/url too_long",
		"body /media/0/name too_long", "body /media/0/extra unknown_property", "body /media/1/url required", "body /fields invalid_type",
		"body /urgent invalid_type", "body /a.b[0] unknown_property", "body /Name unknown_property", "body /nothing unknown_property",
	}, answer.issues())
}

func TestQueryProblemsAreReportedTogether(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, things)
	require.ElementsMatch(t, []string{
		"query /limit too_large", "query /cursor too_long", "query /q too_long", "query /kind invalid_value", "query /owner invalid_format", "query /from invalid_format",
	}, s.get("/v1/things?limit=101&cursor="+strings.Repeat("c", 513)+"&q=abcdef&kind=odd&owner=nobody&from=today").issues())
	require.Equal(t, []string{"query /limit invalid_type"}, s.get("/v1/things?limit=ten").issues())
	require.Equal(t, []string{"query /limit too_small"}, s.get("/v1/things?limit=0").issues())
	require.Equal(t, []string{"query /limit too_small"}, s.get("/v1/things?limit=-1").issues())
	require.Equal(t, []string{"query /limit invalid_type"}, s.get("/v1/things?limit=99999999999999999999").issues())
}

func TestIssueOfAWholeBodyHasTheEmptyPointer(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, things)
	for _, body := range []string{`[]`, `null`, `"name"`, `1`, `true`} {
		require.Equal(t, []string{"body  invalid_type"}, s.post("/v1/things", body).issues())
	}
}

func TestPointersAreEscaped(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, things)
	require.Equal(t, []string{"body / unknown_property", "body /a.b unknown_property", "body /~0~1[1] unknown_property"},
		s.post("/v1/things", `{"name":"a","":1,"a.b":2,"~/[1]":3}`).issues())
}

func TestLengthsCountCharacters(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, things)
	require.Equal(t, 201, s.post("/v1/things", `{"name":"`+strings.Repeat("ß", 10)+`"}`).Status)
	require.Equal(t, []string{"body /name too_long"}, s.post("/v1/things", `{"name":"`+strings.Repeat("🙂", 11)+`"}`).issues())
}

func TestNullIsRefusedWhereItIsNotAllowed(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, things)
	require.Equal(t, []string{"body /email null_not_allowed", "body /fields null_not_allowed", "body /media/0/name null_not_allowed", "body /name invalid_type"},
		s.post("/v1/things", `{"name":null,"email":null,"fields":null,"media":[{"url":"http://u","name":null}]}`).issues())
}

func TestAtMost100IssuesAreListed(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, things)
	var body strings.Builder
	body.WriteString(`{"name":"a"`)
	for i := range 500 {
		body.WriteString(`,"x` + strings.Repeat("y", i) + `":1`)
	}
	body.WriteString(`}`)
	require.Len(t, s.post("/v1/things", body.String()).issues(), 100)
}

func TestDuplicatePropertyIsReported(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, things)
	require.Equal(t, []string{"body /name duplicate_property"}, s.post("/v1/things", `{"name":"b","name":"a"}`).issues())
	require.Equal(t, []string{"body /name duplicate_property"}, s.post("/v1/things", `{"name":"b","\u006eame":"a"}`).issues())
	require.ElementsMatch(t, []string{"body /fields/x~1y/0/1/z duplicate_property", "body /fields duplicate_property"},
		s.post("/v1/things", `{"name":"a","fields":{"x/y":[["z",{"z":1,"z":{}}]],"z":[]},"fields":{"z":1}}`).issues())
	require.Equal(t, 201, s.post("/v1/things", `{"name":"a","fields":{"name":{"name":1},"NAME":[{"a":1},{"a":2}]}}`).Status)
}

func TestNumberThatFloat64CannotHoldIsReported(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, things)
	for _, huge := range []string{"9007199254740992", "-9007199254740992", "12345678901234567890", "-99999999999999999999", "9007199254740993.5", "9007199254740993.0"} {
		require.Equal(t, []string{"body /fields/a.b/1/n out_of_range"}, s.post("/v1/things", `{"name":"a","fields":{"a.b":[0,{"n":`+huge+`}]}}`).issues(), huge)
	}
	answer := s.post("/v1/things", `{"name":"a","fields":{"most":9007199254740991,"least":-9007199254740991,"mole":6.022e23,"part":0.1,"zero":-0}}`)
	require.Equal(t, 201, answer.Status)
	require.Equal(t, map[string]any{"most": 9007199254740991.0, "least": -9007199254740991.0, "mole": 6.022e23, "part": 0.1, "zero": 0.0}, answer.json()["fields"])
}

func TestUUIDWithAnotherSpellingIsReported(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, things)
	id := "01920f6c-b6f1-7c40-a8b1-f7c9d3f0a2b4"
	require.Equal(t, 201, s.post("/v1/things", `{"name":"a","owner":"`+id+`"}`).Status)
	for _, odd := range []string{strings.ReplaceAll(id, "-", ""), "{" + id + "}", "urn:uuid:" + id, id[:35], ""} {
		require.Equal(t, []string{"body /owner invalid_format"}, s.post("/v1/things", `{"name":"a","owner":"`+odd+`"}`).issues(), odd)
	}
	require.Equal(t, 200, s.get("/v1/marks/"+id).Status)
	require.Equal(t, []string{"path /id invalid_format"}, s.get("/v1/marks/xyz").issues())
}

func TestTimesLieInTheYears0To9999UTC(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, things)
	for _, beyond := range []string{"9999-12-31T23:59:59-01:00", "0000-01-01T00:00:00+00:01"} {
		require.Equal(t, []string{"body /at out_of_range"}, s.post("/v1/things", `{"name":"a","at":"`+beyond+`"}`).issues(), beyond)
		require.Equal(t, []string{"query /from out_of_range"}, s.get("/v1/things?from="+url.QueryEscape(beyond)).issues(), beyond)
	}
	require.Equal(t, 201, s.post("/v1/things", `{"name":"a","at":"9999-12-31T23:59:59Z"}`).Status)
	require.Equal(t, []string{"query /from invalid_format"}, s.get("/v1/things?from=2026-01-31T6:04:05Z").issues())
}

func TestUnknownDuplicateAndEmptyParametersAreReported(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, things)
	for _, name := range []string{"limit", "cursor", "kind", "owner", "from"} {
		for _, query := range []string{name, name + "=", "q=&" + name + "="} {
			require.Equal(t, []string{"query /" + name + " too_short"}, s.get("/v1/things?"+query).issues(), query)
		}
	}
	for _, query := range []string{"", "q=", "q", "&"} {
		require.Equal(t, 200, s.get("/v1/things?"+query).Status, query)
	}
	require.Equal(t, []string{"query  invalid_format"}, s.get("/v1/things?limit=1;kind=x").issues())
	require.Equal(t, []string{"query /a~1b unknown_parameter", "query /kinds unknown_parameter", "query /limit duplicate_parameter"},
		s.get("/v1/things?kinds=small&limit=1&a/b&limit=1").issues())
	require.Equal(t, []string{"query /Limit unknown_parameter", "body /name required"}, s.post("/v1/things?Limit=1", `{}`).issues())
}

func TestMalformedPrefixedIDIs404(t *testing.T) {
	t.Parallel()
	serve(t, nil, things).get("/v1/things/xyz").refused(404, "not_found")
}

func TestURIWithoutHostAndTimeNotInRFC3339AreReported(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, things)
	for _, wrong := range []string{"u", "/a", "//host/a", "ftp://host/a", "https:///a", "mailto:a@b.c", "data:,x"} {
		require.Equal(t, []string{"body /media/0/url invalid_format"}, s.post("/v1/things", `{"name":"a","media":[{"url":"`+wrong+`"}]}`).issues(), wrong)
	}
	for _, wrong := range []string{"2026-01-31T16:04:05,5Z", "2026-01-31T6:04:05Z", "2026-01-31T16:04:05+24:00", "2026-01-31 16:04:05Z"} {
		require.Equal(t, []string{"body /at invalid_format"}, s.post("/v1/things", `{"name":"a","at":"`+wrong+`"}`).issues(), wrong)
	}
}
