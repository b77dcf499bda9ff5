package service_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/service"
	"ledgerline/test/app"
)

func startDev(t *testing.T) *app.App {
	t.Helper()
	a := app.Start(t)
	a.Nodes[0].RegisterDev(service.Dev{Clock: a.Clock})
	return a
}

func TestMovingTheDevClockRunsWhatBecomesDue(t *testing.T) {
	t.Parallel()
	a := startDev(t)
	require.Equal(t, "2026-03-02T17:00:00.000Z", a.Anonymous().Get("/dev/clock").Is(200).Text("now"))
	sent := a.Live.Post("/v1/messages", app.Map{"to": "+12125550110", "body": "Hello"}).Is(201).Text("id")
	require.Equal(t, "2026-03-02T17:00:02.000Z", a.Anonymous().Post("/dev/clock", app.Map{"advance": "PT2S"}).Is(200).Text("now"))
	require.Equal(t, "read", a.Live.Get("/v1/messages/"+sent).Is(200).Text("status"), "it answers when what became due is done")

	soon := a.Live.Post("/v1/messages", app.Map{"to": "+12125550112", "body": "Hello"}).Is(201).Text("id")
	a.Anonymous().Post("/dev/clock", app.Map{"advance": "PT0S"}).Is(200)
	require.Equal(t, "delivered", a.Live.Get("/v1/messages/"+soon).Is(200).Text("status"), "moved by nothing, it waits for what is under way")

	later := a.Live.Post("/v1/messages", app.Map{"to": "+12125550111", "body": "Later", "send_at": "2026-03-03T17:00:00Z"}).Is(201).Text("id")
	a.Anonymous().Post("/dev/clock", app.Map{"now": "2026-03-03T17:00:00Z"}).Is(200)
	require.Equal(t, "delivered", a.Live.Get("/v1/messages/"+later).Is(200).Text("status"))

	clock := a.Anonymous()
	clock.Post("/dev/clock", app.Map{"advance": "-PT1S"}).Refused(400, "validation_failed", "body /advance backwards")
	clock.Post("/dev/clock", app.Map{"now": "2026-03-03T16:59:59Z"}).Refused(400, "validation_failed", "body /now backwards")
	clock.Post("/dev/clock", app.Map{"advance": "2 hours"}).Refused(400, "validation_failed", "body /advance duration")
	for _, advance := range []string{"P", "PT", "P1DT", "-P", "P1M", "P1Y", "P1Y2M3DT4H", ""} {
		clock.Post("/dev/clock", app.Map{"advance": advance}).Refused(400, "validation_failed", "body /advance duration")
	}
	clock.Post("/dev/clock", app.Map{"now": "noon"}).Refused(400, "validation_failed", "body /now date_time")
	clock.Post("/dev/clock", app.Map{}).Refused(400, "validation_failed", "body  one_of")
	clock.Post("/dev/clock", app.Map{"advance": "PT1S", "now": "2027-01-01T00:00:00Z"}).Refused(400, "validation_failed", "body  one_of")
	clock.Post("/dev/clock", app.Map{"advance": 2}).Refused(400, "validation_failed", "body /advance type")
	clock.Post("/dev/clock", app.Map{"back": "PT1S"}).Refused(400, "validation_failed", "body /back unknown")
	clock.Post("/dev/clock", "{").Refused(400, "bad_request")
	clock.Post("/dev/clock", `{"advance":"PT1S"} {}`).Refused(400, "bad_request")
	clock.Post("/dev/clock", strings.Repeat(" ", 1<<20)+`{"advance":"PT1S"}`).Refused(413, "payload_too_large")
	require.Equal(t, "2026-03-03T17:00:00.000Z", clock.Get("/dev/clock").Is(200).Text("now"), "a refused move moves nothing")
	clock.Do(http.MethodPut, "/dev/clock", nil).Refused(405, "bad_request")
}

func TestAMessageFromAContactCanBeSimulated(t *testing.T) {
	t.Parallel()
	a := startDev(t)
	contact := a.Live.Post("/v1/contacts", app.Map{"phone": "+12125550110"}).Is(201).Text("id")
	play := a.Anonymous()
	id := play.Post("/dev/inbound", app.Map{"from": "(212) 555-0110", "to": a.Lines[0].Phone, "body": "Stop!"}).Is(200).Text("message_id")
	require.Equal(t, "Stop!", a.Live.Get("/v1/messages/"+id).Is(200).Text("body"))
	require.Equal(t, "opted_out", a.Live.Get("/v1/contacts/"+contact).Is(200).Text("consent_status"))
	a.Live.Post("/v1/messages", app.Map{"contact_id": contact, "body": "Hello"}).Refused(422, "contact_opted_out")

	sms := play.Post("/dev/inbound", app.Map{"from": "+12125550111", "to": a.Sandbox.Phone, "channel": "sms",
		"media": []app.Map{{"url": "https://example.com/a.png", "mime": "image/png"}}}).Is(200).Text("message_id")
	shown := a.Live.Get("/v1/messages/" + sms).Is(200)
	require.Equal(t, "sms", shown.Text("channel"))
	require.Equal(t, "https://example.com/a.png", shown.Text("media.0.url"))

	again := app.Map{"from": "+12125550111", "to": a.Lines[0].Phone, "body": "Hello", "carrier_id": "guid-1"}
	once := play.Post("/dev/inbound", again).Is(200).Text("message_id")
	require.Equal(t, once, play.Post("/dev/inbound", again).Is(200).Text("message_id"), "a carrier may report a message again")

	play.Post("/dev/inbound", app.Map{"from": "+12125550111", "to": a.Sandbox.Phone, "media": []app.Map{{}, {"url": "a.png", "size": -1}}, "carrier_id": strings.Repeat("x", 256)}).
		Refused(400, "validation_failed", "body /media/0/url required", "body /media/1/url uri", "body /media/1/size minimum", "body /carrier_id too_long")
	play.Post("/dev/inbound", app.Map{"channel": "mail"}).Refused(400, "validation_failed",
		"body /from invalid_phone", "body /to required", "body /body required", "body /channel enum")
	play.Post("/dev/inbound", app.Map{"from": "+12125550111", "to": "+12125559999", "body": "Hello"}).Refused(404, "not_found")
}

func TestTheDevRoutesAnswerToThisMachineAndNotToBrowsers(t *testing.T) {
	t.Parallel()
	a := startDev(t)
	for name, one := range map[string]struct {
		peer, host, origin string
		forwarded          string
		status             int
	}{
		"a program on this machine":          {peer: "127.0.0.1:5000", host: "localhost:8080", status: 200},
		"by IPv6":                            {peer: "[::1]:5000", host: "[::1]:8080", status: 200},
		"by IPv4 within IPv6":                {peer: "[::ffff:127.0.0.1]:5000", host: "127.0.0.1", status: 200},
		"another machine":                    {peer: "192.0.2.1:5000", host: "localhost:8080", status: 403},
		"another machine that says it is us": {peer: "192.0.2.1:5000", host: "localhost", forwarded: "127.0.0.1", status: 403},
		"a name that resolves to us":         {peer: "127.0.0.1:5000", host: "rebound.example:8080", status: 403},
		"a page from elsewhere":              {peer: "127.0.0.1:5000", host: "localhost:8080", origin: "https://example.com", status: 403},
		"a page that has no origin":          {peer: "127.0.0.1:5000", host: "localhost:8080", origin: "null", status: 403},
		"no peer at all":                     {host: "localhost:8080", status: 403},
		"a proxy on this machine":            {peer: "127.0.0.1:5000", host: "localhost:8080", forwarded: "192.0.2.1", status: 403},
	} {
		for path, body := range map[string]string{"/dev/clock": `{"advance":"PT0S"}`, "/dev/inbound": `{"from":"+12125550110","to":"` + a.Lines[0].Phone + `","body":"Hello"}`} {
			request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
			request.RemoteAddr, request.Host = one.peer, one.host
			if one.origin != "" {
				request.Header.Set("Origin", one.origin)
			}
			if one.forwarded != "" {
				request.Header.Set("X-Forwarded-For", one.forwarded)
			}
			answer := httptest.NewRecorder()
			a.Nodes[0].Handler().ServeHTTP(answer, request)
			require.Equal(t, one.status, answer.Code, "%s, %s: %s", name, path, answer.Body)
		}
	}
}

func TestTheDevRoutesRefuseWhatAProxyPassesOn(t *testing.T) {
	t.Parallel()
	a := startDev(t)
	for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "x-forwarded-port", "Forwarded", "X-Real-IP", "Via"} {
		a.Anonymous().Header(name, "").Get("/dev/clock").Refused(403, "forbidden")
		a.Anonymous().Header(name, "127.0.0.1").Post("/dev/clock", app.Map{"advance": "PT0S"}).Refused(403, "forbidden")
	}
	a.Anonymous().Get("/dev/clock").Is(200)
}
