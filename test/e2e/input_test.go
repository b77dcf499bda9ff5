package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/test/app"
)

// wide is n characters of four bytes each.
func wide(n int) string { return strings.Repeat("𝄞", n) }

func texts(n int, text string) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s%02d", text, i)
	}
	return list
}

func TestContactIsAcceptedAtEachLimitAndRefusedBeyondIt(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	create := func(name string, value any) app.Answer {
		return a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone(), "consent_status": "opted_in", name: value})
	}
	for _, limit := range []struct {
		name   string
		edge   any
		past   any
		issues []string
	}{
		{"first_name", wide(100), wide(101), []string{"body /first_name too_long"}},
		{"last_name", wide(100), wide(101), []string{"body /last_name too_long"}},
		{"company", wide(200), wide(201), []string{"body /company too_long"}},
		{"email", strings.Repeat("a", 64) + "@" + strings.Repeat("b.", 93) + "com", strings.Repeat("a", 64) + "@" + strings.Repeat("b.", 94) + "com", []string{"body /email too_long"}},
		{"labels", texts(50, "l"), texts(51, "m"), []string{"body /labels too_many_items"}},
		{"labels", []string{wide(64)}, []string{"ok", wide(65)}, []string{"body /labels/1 too_long"}},
		{"consent_source", wide(200), wide(201), []string{"body /consent_source too_long"}},
		{"owner_user_id", a.Users["agent"], uuid.New(), []string{"body /owner_user_id not_a_member"}},
	} {
		made := create(limit.name, limit.edge).Is(201)
		require.Equal(t, asJSON(t, limit.edge), made.At(limit.name), limit.name)
		create(limit.name, limit.past).Refused(400, "validation_failed", limit.issues...)
	}
	a.Live.Post("/v1/contacts", app.Map{"phone": fmt.Sprintf("%32s", a.Phone())}).Is(201)
	a.Live.Post("/v1/contacts", app.Map{"phone": fmt.Sprintf("%33s", a.Phone())}).Refused(400, "validation_failed", "body /phone too_long")
	a.Live.Get("/v1/contacts?q=" + url.QueryEscape(wide(100))).Is(200)
	a.Live.Get("/v1/contacts?q="+url.QueryEscape(wide(101))).Refused(400, "validation_failed", "query /q too_long")
	a.Live.Get("/v1/contacts?label=" + url.QueryEscape(wide(64))).Is(200)
	a.Live.Get("/v1/contacts?label="+url.QueryEscape(wide(65))).Refused(400, "validation_failed", "query /label too_long")

	id := create("first_name", "x").Is(201).Text("id")
	consent := func(source string) app.Answer {
		return a.Live.Post("/v1/contacts/"+id+"/consent", app.Map{"status": "unknown", "source": source})
	}
	consent(wide(200)).Is(200)
	consent(wide(201)).Refused(400, "validation_failed", "body /source too_long")
	optOut := func(source, keyword string) app.Answer {
		return a.Live.Post("/v1/contacts/"+id+"/opt-out", app.Map{"source": source, "keyword": keyword})
	}
	optOut(wide(200), wide(40)).Is(200)
	optOut(wide(201), wide(41)).Refused(400, "validation_failed", "body /source too_long", "body /keyword too_long")
}

func TestTextsThatCannotBeStoredAreRefusedAtTheirPointers(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	id := a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201).Text("id")
	a.Live.Post("/v1/messages", `{"contact_id":"`+id+`","body":"x","metadata":{"order":[{"id":9007199254740993}]}}`).
		Refused(400, "validation_failed", "body /metadata/order/0/id out_of_range")
	a.Live.Do("PATCH", "/v1/contacts/"+id, `{"fields":{"n":-9007199254740992}}`).Refused(400, "validation_failed", "body /fields/n out_of_range")
	a.Live.Post("/v1/segments", `{"name":"x","definition":{"field":"fields.n","op":"eq","value":9007199254740993}}`).
		Refused(400, "validation_failed", "body /definition/value out_of_range")
	a.Live.Post("/v1/messages", `{"contact_id":"`+id+`","body":"x","body":"y"}`).Refused(400, "validation_failed", "body /body duplicate_property")
	made := a.Live.Post("/v1/messages", `{"contact_id":"`+id+`","body":"x","metadata":{"most":9007199254740991,"part":0.25}}`).Is(201)
	require.Equal(t, app.Map{"most": 9007199254740991.0, "part": 0.25}, made.At("metadata"))
	conversation := "/v1/conversations/" + made.Text("conversation_id")
	a.Live.Do("PATCH", conversation, app.Map{"snoozed_until": "9999-12-31T23:59:59-01:00"}).Refused(400, "validation_failed", "body /snoozed_until out_of_range")
	a.Live.Post("/v1/api-keys", app.Map{"name": "x", "scopes": []string{"read"}, "expires_at": "9999-12-31T23:59:59-01:00"}).
		Refused(400, "validation_failed", "body /expires_at out_of_range")
	a.Live.Get("/v1/compliance/consent-events?from=9999-12-31T23:59:59-01:00").Refused(400, "validation_failed", "query /from out_of_range")
	last := "9999-12-31T23:59:59.999Z"
	require.Equal(t, last, a.Live.Do("PATCH", conversation, app.Map{"snoozed_until": last}).Is(200).Text("snoozed_until"))
}

// asJSON is a value as it comes back.
func asJSON(t *testing.T, value any) (back any) {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &back))
	return back
}

func TestMessageIsAcceptedAtEachLimitAndRefusedBeyondIt(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	phone := a.Phone()
	post := func(change app.Map) app.Answer {
		body := app.Map{"to": phone, "body": "x"}
		for name, value := range change {
			body[name] = value
		}
		return a.Live.Post("/v1/messages", body)
	}
	media := func(n int, change app.Map) []app.Map {
		list := make([]app.Map, n)
		for i := range list {
			list[i] = app.Map{"url": "https://example.com/" + fmt.Sprint(i)}
			for name, value := range change {
				list[i][name] = value
			}
		}
		return list
	}
	metadata := func(n int) app.Map {
		m := app.Map{}
		for i := range n {
			m[fmt.Sprint("k", i)] = i
		}
		return m
	}
	longURL := "https://example.com/" + strings.Repeat("a", 2048-20)
	for _, limit := range []struct {
		edge, past app.Map
		issue      string
	}{
		{app.Map{"body": wide(2000)}, app.Map{"body": wide(2001)}, "body /body too_long"},
		{app.Map{"media": media(10, nil)}, app.Map{"media": media(11, nil)}, "body /media too_many_items"},
		{app.Map{"media": media(1, app.Map{"url": longURL})}, app.Map{"media": media(1, app.Map{"url": longURL + "a"})}, "body /media/0/url too_long"},
		{app.Map{"media": media(2, app.Map{"filename": wide(255)})}, app.Map{"media": media(1, app.Map{"filename": wide(256)})}, "body /media/0/filename too_long"},
		{app.Map{"media": media(2, app.Map{"mime": wide(100)})}, app.Map{"media": media(1, app.Map{"mime": wide(101)})}, "body /media/0/mime too_long"},
		{app.Map{"external_id": wide(255)}, app.Map{"external_id": wide(256)}, "body /external_id too_long"},
		{app.Map{"metadata": metadata(50)}, app.Map{"metadata": metadata(51)}, "body /metadata too_many"},
		{app.Map{"send_at": stamp(365 * 24 * time.Hour)}, app.Map{"send_at": stamp(365*24*time.Hour + time.Millisecond)}, "body /send_at too_late"},
		{app.Map{"media": media(1, nil), "body": ""}, app.Map{"media": media(0, nil), "body": ""}, "body /body required"},
		{app.Map{"pool_id": a.PoolID}, app.Map{"pool_id": "pool_1"}, "body /pool_id not_found"},
		{app.Map{"line_id": a.Lines[0].ID}, app.Map{"line_id": "ln_1"}, "body /line_id not_found"},
	} {
		post(limit.edge).Is(201)
		post(limit.past).Refused(400, "validation_failed", limit.issue)
	}
	require.Equal(t, "queued", status(a.Live, post(app.Map{"send_at": "0001-01-01T00:00:00Z"}).Is(201).Text("id")), "a send_at that is past is now")
	a.Live.Get("/v1/messages?external_id=" + url.QueryEscape(wide(255))).Is(200)
	a.Live.Get("/v1/messages?external_id="+url.QueryEscape(wide(256))).Refused(400, "validation_failed", "query /external_id too_long")
	a.Live.Post("/v1/messages", app.Map{"body": "x"}).Refused(400, "validation_failed", "body /to exactly_one")
	post(app.Map{"contact_id": "ctc_1"}).Refused(400, "validation_failed", "body /to exactly_one")
	a.Live.Post("/v1/messages", app.Map{"contact_id": "ctc_1", "body": "x"}).Refused(404, "not_found")
}

func TestAllProblemsOfARequestAreReportedTogether(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	a.Live.Header("idempotency-key", "workflow:1").Post("/v1/contacts", `{"phone":5,"first_name":null,"email":"nobody","labels":["a",7],"nick":"x","fields":[],"owner_user_id":"u","consent_status":"opted_out"}`).
		Refused(400, "validation_failed", "body /phone invalid_type", "body /first_name null_not_allowed", "body /email invalid_format",
			"body /labels/1 invalid_type", "body /nick unknown_property", "body /fields invalid_type", "body /owner_user_id invalid_format",
			"body /consent_status invalid_value", "header /idempotency-key reserved")
	a.Live.Post("/v1/contacts", app.Map{"phone": "12", "labels": []string{"ok", " ", wide(65)}, "owner_user_id": uuid.New()}).
		Refused(400, "validation_failed", "body /phone invalid_phone", "body /labels/1 required", "body /labels/2 too_long", "body /owner_user_id not_a_member")
	a.Live.Post("/v1/messages", `{"to":"12","body":"","pool_id":"p","line_id":"l","send_at":"2999-01-01T00:00:00Z"}`).
		Refused(400, "validation_failed", "body /to invalid_phone", "body /body required", "body /pool_id not_found", "body /line_id not_found", "body /send_at too_late")
	a.Live.Post("/v1/messages", `{"media":[{},{"url":"nope","size":1},5],"fallback":"no","metadata":{"a/b~c":"\u0000"},"send_at":"tomorrow"}`).
		Refused(400, "validation_failed", "body /media/0/url required", "body /media/1/size unknown_property", "body /media/1/url invalid_format", "body /media/2 invalid_type",
			"body /fallback invalid_type", "body /metadata/a~1b~0c invalid_characters", "body /send_at invalid_format")
	a.Live.Post("/v1/contacts", `{"phone":"12","nick":"x"}`).Refused(400, "validation_failed", "body /nick unknown_property", "body /phone invalid_phone")
	a.Live.Post("/v1/contacts", `{}`).Refused(400, "validation_failed", "body /phone required")
	a.Live.Post("/v1/contacts/ctc_1/consent", `{"status":"maybe"}`).Refused(400, "validation_failed", "body /status invalid_value", "body /source required")
	a.Live.Get("/v1/contacts?limit=0&owner_user_id=x&segment_id=y&consent_status=z&phone=abc").
		Refused(400, "validation_failed", "query /limit too_small", "query /owner_user_id invalid_format", "query /segment_id invalid_format", "query /consent_status invalid_value")
	a.Live.Get("/v1/contacts?phone=abc&segment_id="+uuid.NewString()).Refused(400, "validation_failed", "query /phone invalid_phone", "query /segment_id not_found")
	a.Live.Get("/v1/messages?limit=101&status=gone&direction=up").
		Refused(400, "validation_failed", "query /limit too_large", "query /status invalid_value", "query /direction invalid_value")
	a.Live.Get("/v1/compliance/consent-events?from=x&to=y&type=z&phone=1&limit=1.5").
		Refused(400, "validation_failed", "query /from invalid_format", "query /to invalid_format", "query /type invalid_value", "query /limit invalid_type")
	a.Live.Get("/v1/contacts?limit=100").Is(200)
	a.Live.Get("/v1/contacts?limit=99999999999999999999").Refused(400, "validation_failed", "query /limit invalid_type")
}

func TestInvalidAndTooLargeBodiesAreRefused(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	for _, path := range []string{"/v1/contacts", "/v1/messages", "/v1/contacts/ctc_1/consent", "/v1/contacts/ctc_1/opt-out"} {
		for _, malformed := range []string{`{`, `{"phone":}`, `{"phone":"1"} x`, `{"phone":"1",}`, `'x'`, "\xff", `{"a":01}`, `{"a":"` + "\n" + `"}`, strings.Repeat("[", 101) + strings.Repeat("]", 101)} {
			a.Live.Post(path, malformed).Refused(400, "bad_request")
		}
		for _, wrong := range []string{`[]`, `null`, `"x"`, `1`, `true`} {
			answer := a.Live.Post(path, wrong).Is(400)
			require.Equal(t, "validation_failed", answer.Text("error.code"), wrong)
		}
		a.Live.Post(path, "").Refused(400, "validation_failed", "body  required")
		large := []byte(`{"x":"` + strings.Repeat("x", 1<<20-8) + `"}`)
		require.Len(t, large, 1<<20)
		a.Live.Post(path, large).Is(400)
		a.Live.Post(path, append(large, ' ')).Refused(413, "payload_too_large")
		for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", "nonsense", "application/xml"} {
			a.Live.Header("content-type", kind).Post(path, `{}`).Refused(415, "unsupported_media_type")
		}
	}
	a.Live.Header("content-type", "application/json; charset=UTF-8").Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
	a.Live.Post("/v1/contacts", `{"phone":"`+a.Phone()+`","first_name":"`+"a\xffb"+`"}`).Refused(400, "validation_failed", "body /first_name invalid_characters")
	a.Live.Post("/v1/contacts", `{"phone":"`+a.Phone()+`","fields":{"`+"\xc3\x28"+`":1}}`).Is(400)
	a.Live.Post("/v1/contacts", `{"phone":"`+a.Phone()+`","fields":{"n":1e999}}`).Refused(400, "validation_failed", "body /fields/n out_of_range")
	half := a.Live.Post("/v1/contacts", `{"phone":"`+a.Phone()+`","first_name":"\ud800x"}`)
	require.Contains(t, []int{201, 400}, half.Status, "half a character is refused or replaced")
	kept := a.Live.Post("/v1/contacts", `{"phone":"`+a.Phone()+`","fields":{"n":9007199254740991,"m":0.1,"\ufdd0":"x","":{"":null}}}`).Is(201)
	require.Equal(t, app.Map{"n": 9007199254740991.0, "m": 0.1, "\ufdd0": "x", "": app.Map{"": nil}}, kept.At("fields"))
}

func TestUnknownPathsAndMethodsAnswerWithTheErrorShape(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	for _, path := range []string{"/v1/nothing", "/v1/contacts/", "/v2/contacts", "/v1//contacts", "/v1/contacts/a/b", "/v1/messages/x/events/y"} {
		a.Live.Get(path).Refused(404, "not_found")
	}
	for _, wrong := range [][2]string{{"PUT", "/v1/contacts"}, {"DELETE", "/v1/messages"}, {"PATCH", "/v1/messages/msg_1"}, {"POST", "/v1/messages/msg_1/events"}} {
		answer := a.Live.Do(wrong[0], wrong[1], nil).Refused(405, "bad_request")
		require.NotEmpty(t, answer.Header.Get("allow"))
	}
	require.Equal(t, 405, a.Live.Do(http.MethodHead, "/v1/contacts", nil).Status)
	for _, id := range []string{"x", "msg_1", "ctc_", "ctc_01arz3ndektsv4rrffq69g5fav", strings.Repeat("c", 3000), "%00", "%ff", "ctc_%F0%9D%84%9E", "..", "%20", "'--", "org_" + a.Organisation.String(), "num_x"} {
		a.Live.Get("/v1/contacts/"+id).Refused(404, "not_found")
		a.Live.Post("/v1/contacts/"+id+"/opt-out", app.Map{"source": "x"}).Refused(404, "not_found")
	}
	for _, id := range []string{"x", "ctc_1", "msg_", "%00", "%ff", "usr_" + a.Users["owner"].String(), strings.Repeat("c", 3000), "msg_%E2%82%AC"} {
		a.Live.Get("/v1/messages/"+id).Refused(404, "not_found")
		a.Live.Get("/v1/messages/"+id+"/events").Refused(404, "not_found")
		a.Live.Post("/v1/messages/"+id+"/cancel", nil).Refused(404, "not_found")
		a.Live.Post("/v1/messages", app.Map{"contact_id": id, "body": "x"}).Refused(404, "not_found")
	}
	a.Live.Post("/v1/messages/"+a.Lines[0].ID+"/cancel", nil).Refused(404, "not_found")
	a.Live.Post("/v1/messages", app.Map{"to": a.Phone(), "body": "x", "line_id": a.PoolID, "pool_id": a.Lines[0].ID}).
		Refused(400, "validation_failed", "body /line_id not_found", "body /pool_id not_found")
}

func TestForgedForeignAndMismatchedCursorsAreRefused(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.TwoNodes())
	other := a.NewWorkspace("Other")
	for range 3 {
		for _, w := range []*app.Workspace{a.Workspace, other} {
			w.Live.Post("/v1/contacts", app.Map{"phone": a.Phone(), "consent_status": "opted_in"}).Is(201)
			send(w.Live, a.Phone(), "x")
		}
	}
	const wrong = "query /cursor invalid_cursor"
	lists := []string{"/v1/contacts?", "/v1/messages?", "/v1/compliance/consent-events?"}
	for i, list := range lists {
		cursor := a.Live.Get(list + "limit=1").Is(200).Text("next_cursor")
		a.Live.Get(list + "limit=2&cursor=" + cursor).Is(200) // limit is no filter
		a.Live.Get(list+"limit=0&cursor="+cursor).Refused(400, "validation_failed", "query /limit too_small")
		other.Live.Get(list+"cursor="+cursor).Refused(400, "validation_failed", wrong)
		a.Live.Get(lists[(i+1)%3]+"cursor="+cursor).Refused(400, "validation_failed", wrong)
		for _, forged := range []string{"x", "AAAA", cursor[1:], cursor[:len(cursor)-1], cursor + "A", "A" + cursor, strings.Repeat("A", 512), "%00", "%0A" + cursor, cursor + "%3D", "%F0%9D%84%9E"} {
			answer := a.Live.Get(list + "cursor=" + forged).Is(400)
			require.Equal(t, "validation_failed", answer.Text("error.code"), forged)
		}
		changed := []byte(cursor)
		for _, at := range []int{0, len(changed) / 2, len(changed) - 1} {
			was := changed[at]
			changed[at] = 'A' + (was-'A'+1)%26
			a.Live.Get(list+"cursor="+string(changed)).Refused(400, "validation_failed", wrong)
			changed[at] = was
		}
		a.Live.Get(list+"cursor="+strings.Repeat("A", 513)).Refused(400, "validation_failed", "query /cursor too_long")
		require.LessOrEqual(t, len(cursor), 512)
	}
	filtered := a.Live.Get("/v1/contacts?limit=1&consent_status=opted_in").Is(200).Text("next_cursor")
	a.Live.Get("/v1/contacts?consent_status=opted_in&cursor=" + filtered).Is(200)
	a.Live.Get("/v1/contacts?consent_status=unknown&cursor="+filtered).Refused(400, "validation_failed", wrong)
	a.Live.Get("/v1/contacts?cursor="+filtered).Refused(400, "validation_failed", wrong)
}

func TestPhoneNumbersAreNormalised(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	for typed, want := range map[string]string{
		"(415) 777-9001": "+14157779001", "1-415-777-9002": "+14157779002", "+44 20 7946 0958": "+442079460958", " +1.415.777.9003 ": "+14157779003",
		"(415) 555-0123": "+14155550123", "+1 (999) 555-0100": "+19995550100",
	} {
		require.Equal(t, want, a.Live.Post("/v1/contacts", app.Map{"phone": typed}).Is(201).Text("phone"), typed)
		a.Live.Post("/v1/contacts", app.Map{"phone": want}).Refused(409, "conflict")
	}
	for _, wrong := range []string{"", "x", "123", "+1", "+1415777", "+1415777900123456789", "1-800-FLOWERS", "+14157779001;ext=5", "tel:+14157779001", "+999123456789", "＋1４", "+1 415 777 9001 x5"} {
		a.Live.Post("/v1/contacts", app.Map{"phone": wrong}).Refused(400, "validation_failed", "body /phone invalid_phone")
		a.Live.Post("/v1/messages", app.Map{"to": wrong, "body": "x"}).Refused(400, "validation_failed", "body /to invalid_phone")
	}
}

func TestTimesInRFC3339AreAcceptedAndOthersRefused(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	for sendAt, want := range map[string]int{
		stamp(time.Hour): 201, "2026-03-02T19:00:00+01:00": 201, "2026-03-02T18:00:00.123456789Z": 201, "0000-01-01T00:00:00Z": 201,
		"2026-03-02T18:00:00": 400, "2026-03-02": 400, "2026-03-02 18:00:00Z": 400, "2026-02-30T18:00:00Z": 400, "2026-03-02T18:00:00,5Z": 400,
		"2026-03-02T18:00:00+99:99": 400, "": 400, "1772474400": 400, "12026-03-02T18:00:00Z": 400, "9999-12-31T23:59:59Z": 400, "2026-03-02t18:00:00z": 400,
		"2026-03-02T24:00:00Z": 400, "2026-03-02T18:00:60Z": 400,
	} {
		answer := a.Live.Post("/v1/messages", app.Map{"to": a.Phone(), "body": "x", "send_at": sendAt})
		require.Equal(t, want, answer.Status, "%s: %s", sendAt, answer.Raw)
		if want == 400 {
			require.Len(t, answer.Issues(), 1)
			require.Contains(t, answer.Issues()[0], "body /send_at ", sendAt)
		}
	}
	for from, want := range map[string]int{
		"2026-03-02T17:00:00Z": 200, "0000-01-01T00:00:00Z": 200, "9999-12-31T23:59:59Z": 200, "2026-03-02T17:00:00%2B23:59": 200, "2026-03-02": 400, "x": 400, "99999-01-01T00:00:00Z": 400,
	} {
		for _, name := range []string{"from", "to"} {
			answer := a.Live.Get("/v1/compliance/consent-events?" + name + "=" + from)
			require.Equal(t, want, answer.Status, "%s: %s", from, answer.Raw)
		}
	}
}
