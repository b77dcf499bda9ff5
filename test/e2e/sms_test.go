package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/adapters/twilio/twiliotest"
	"ledgerline/domain/organisation"
	"ledgerline/test/app"
)

// smsReady is smsWorld with a connection that is ready, and a default pool that falls back in both cases.
func smsReady(t *testing.T, in app.Map, opts ...app.Option) (a *app.App, provider *twiliotest.Server, connectionID string) {
	t.Helper()
	a, provider = smsWorld(t, opts...)
	made := connection(a, in).Is(201)
	require.Equal(t, "active", made.Text("status"), made.Text("last_error"))
	fallbackMode(a, "not_chat_or_failed")
	return a, provider, made.Text("id")
}

func fallbackMode(a *app.App, mode string) {
	a.Live.Do("PATCH", "/v1/pools/"+a.PoolID, app.Map{"fallback_sms_mode": mode}).Is(200)
}

// bySMS sends a message to a number that is not on chat, and returns its id and the number.
func bySMS(a *app.App, in app.Map) (id, to string) {
	body := app.Map{"to": a.SandboxNumber(80), "body": "Hello", "line_id": a.Lines[0].ID, "pool_id": a.PoolID}
	for name, value := range in {
		body[name] = value
	}
	id = a.Live.Post("/v1/messages", body).Is(201).Text("id")
	a.Settle()
	return id, fmt.Sprint(body["to"])
}

func smsInbound(id string) string { return smsBase + "/carriers/sms/" + id }

func TestMessageFallsBackToSMSAndItsTimelineTellsWhy(t *testing.T) {
	t.Parallel()
	a, provider, conn := smsReady(t, nil)
	for _, row := range []struct {
		mode     string
		digits   int
		fallback bool
		status   string
		channel  string
		code     any
		reason   any
	}{
		{"off", 80, true, "failed", "chat", "not_on_chat", nil},
		{"not_chat", 80, true, "sent", "sms", nil, "not_on_chat"},
		{"not_chat", 80, false, "failed", "chat", "not_on_chat", nil},
		{"not_chat", 85, true, "failed", "chat", "carrier_rejected", nil},
		{"not_chat_or_failed", 85, true, "sent", "sms", nil, "chat_failed"},
	} {
		fallbackMode(a, row.mode)
		id, _ := bySMS(a, app.Map{"to": a.SandboxNumber(row.digits), "fallback": row.fallback})
		m := message(a.Live, id)
		shows(t, m, app.Map{"status": row.status, "channel": row.channel, "error_code": row.code})
		var reason any
		for _, entry := range a.Live.Get("/v1/messages/" + id + "/events").Is(200).Data() {
			if entry["type"] == "fallback_sms" {
				reason = object(entry["detail"])["reason"]
			}
		}
		require.Equal(t, row.reason, reason, "%s %d", row.mode, row.digits)
		if row.channel == "sms" {
			shows(t, m, app.Map{"line_id": nil, "from": smsNumber})
		}
	}
	sent := provider.Messages()
	require.Len(t, sent, 2)
	require.Equal(t, smsInbound(conn), sent[0].Callback)
	require.Equal(t, smsNumber, sent[0].From)
	require.Empty(t, sent[0].ServiceSID)
}

func TestLiveMessageFallsBackOnlyWhileTheConnectionIsReady(t *testing.T) {
	t.Parallel()
	a, provider := smsWorld(t)
	fallbackMode(a, "not_chat")
	id, _ := bySMS(a, nil)
	require.Equal(t, "not_on_chat", message(a.Live, id)["error_code"], "no connection")
	user := a.Sessions[organisation.Owner]
	path := "/v1/sms-connections/" + connection(a, app.Map{"compliance_confirmed": false}).Is(201).Text("id")
	id, _ = bySMS(a, nil)
	require.Equal(t, "not_on_chat", message(a.Live, id)["error_code"], "not confirmed")
	user.Do("PATCH", path, app.Map{"compliance_confirmed": true, "disabled": true}).Is(200)
	id, _ = bySMS(a, nil)
	require.Equal(t, "not_on_chat", message(a.Live, id)["error_code"], "disabled")
	user.Post(path+"/verify", nil).Is(200)
	id, _ = bySMS(a, nil)
	require.Equal(t, "sent", status(a.Live, id))
	a.Live.Delete(path).Is(200)
	id, _ = bySMS(a, nil)
	require.Equal(t, "not_on_chat", message(a.Live, id)["error_code"], "deleted")
	require.Len(t, provider.Messages(), 1)
}

func TestTextBeginsWithTheOrganisationAndIsNeverOver1600Characters(t *testing.T) {
	t.Parallel()
	a, provider, _ := smsReady(t, app.Map{"prefix_org_name": true, "messaging_service_sid": smsService})
	id, to := bySMS(a, nil)
	require.Equal(t, "Acme: Hello", provider.MessagesTo(to)[0].Body)
	require.Equal(t, smsService, provider.MessagesTo(to)[0].ServiceSID, "a messaging service wins over numbers")
	require.Nil(t, message(a.Live, id)["from"], "the service chooses the number")
	id, to = bySMS(a, app.Map{"body": strings.Repeat("x", 1594)})
	require.Equal(t, "sent", status(a.Live, id))
	require.Len(t, provider.MessagesTo(to)[0].Body, 1600)
	before := len(provider.Requests())
	id, _ = bySMS(a, app.Map{"body": strings.Repeat("x", 1595)})
	shows(t, message(a.Live, id), app.Map{"status": "failed", "error_code": "sms_21617"})
	require.Len(t, provider.Requests(), before, "the provider was not called")
}

func TestStatusCallbacksDeliverFailAndNeverGoBack(t *testing.T) {
	t.Parallel()
	a, provider, conn := smsReady(t, nil)
	id, to := bySMS(a, nil)
	sid := provider.MessagesTo(to)[0].SID
	require.Equal(t, 200, provider.Report(sid, "sent", 0))
	require.Equal(t, "sent", status(a.Live, id))
	for range 2 {
		require.Equal(t, 200, provider.Report(sid, "delivered", 0))
	}
	require.Equal(t, 200, provider.Report(sid, "sent", 0))
	require.Equal(t, 200, provider.Report(sid, "undelivered", 30003))
	require.Equal(t, "delivered", status(a.Live, id))

	for _, kind := range []string{"undelivered", "failed"} {
		id, to = bySMS(a, app.Map{"to": a.SandboxNumber(81)})
		list := provider.MessagesTo(to)
		require.Equal(t, 200, provider.Report(list[len(list)-1].SID, kind, 30005))
		shows(t, message(a.Live, id), app.Map{"status": "failed", "error_code": "sms_30005"})
	}
	unknown := url.Values{"AccountSid": {smsAccount}, "MessageSid": {"SMunknown"}, "MessageStatus": {"delivered"}}
	require.Equal(t, 200, provider.Post(smsInbound(conn), smsToken, unknown), "unknown ids are ignored")
}

func TestRefusalsOfTheProviderFailTheMessageWithItsCode(t *testing.T) {
	t.Parallel()
	a, provider, _ := smsReady(t, nil)
	to := a.SandboxNumber(80)
	provider.Block(to)
	id, _ := bySMS(a, app.Map{"to": to})
	shows(t, message(a.Live, id), app.Map{"status": "failed", "error_code": "sms_21610"})
	contact := message(a.Live, id)["contact_id"]
	shows(t, a.Live.Get(fmt.Sprint("/v1/contacts/", contact)).Is(200).JSON(), app.Map{"consent_status": "opted_out", "consent_source": "sms_provider"})
	trail := a.Live.Get("/v1/compliance/consent-events").Is(200).Data()[0]
	shows(t, trail, app.Map{"source": "sms_provider", "channel": "sms", "message_id": id, "to_status": "opted_out"})

	other := a.SandboxNumber(81)
	id, _ = bySMS(a, app.Map{"to": other})
	require.Equal(t, 200, provider.Report(provider.MessagesTo(other)[0].SID, "failed", 21610))
	a.Settle()
	shows(t, a.Live.Get(fmt.Sprint("/v1/contacts/", message(a.Live, id)["contact_id"])).Is(200).JSON(), app.Map{"consent_status": "opted_out", "consent_source": "sms_provider"})
}

func TestFailedAttemptsFollowTheScheduleAndEndAsUnreachable(t *testing.T) {
	t.Parallel()
	a, provider, _ := smsReady(t, nil)
	provider.SetMode(twiliotest.Down)
	id, to := bySMS(a, nil)
	for i, wait := range []time.Duration{30 * time.Second, 2 * time.Minute, 10 * time.Minute} {
		shows(t, message(a.Live, id), app.Map{"status": "sending", "channel": "sms"})
		require.Len(t, only(timeline(a.Live, id), "retried"), i+1)
		a.Advance(wait)
	}
	shows(t, message(a.Live, id), app.Map{"status": "failed", "error_code": "carrier_unreachable"})
	require.Empty(t, provider.MessagesTo(to))

	provider.SetMode(twiliotest.Limiting) // asks for a pause of 300 s
	a.Advance(time.Minute)
	id, to = bySMS(a, app.Map{"to": a.SandboxNumber(81)})
	provider.SetMode(twiliotest.Working)
	a.Advance(299 * time.Second)
	require.Equal(t, "sending", status(a.Live, id), "Retry-After is honoured")
	a.Advance(time.Second)
	require.Equal(t, "sent", status(a.Live, id))
	require.Len(t, provider.MessagesTo(to), 1)
}

func only(list []any, kind string) []any {
	var found []any
	for _, entry := range list {
		if entry == kind {
			found = append(found, entry)
		}
	}
	return found
}

func TestMessageWithALostAnswerIsLookedUpAndNotSentTwice(t *testing.T) {
	t.Parallel()
	a, provider, _ := smsReady(t, nil)
	for _, mode := range []twiliotest.Mode{twiliotest.DownAccepting, twiliotest.LosesAnswers} {
		provider.SetMode(mode)
		to := a.SandboxNumber(80)
		before := len(provider.MessagesTo(to))
		id := a.Live.Post("/v1/messages", app.Map{"to": to, "body": "Hello", "line_id": a.Lines[0].ID}).Is(201).Text("id")
		require.Eventually(t, func() bool { return len(provider.MessagesTo(to)) > before }, 30*time.Second, 5*time.Millisecond)
		a.Settle()
		provider.SetMode(twiliotest.Working)
		a.Advance(30 * time.Second)
		require.Equal(t, "sent", status(a.Live, id))
		require.Len(t, provider.MessagesTo(to), before+1)
	}
}

func TestConnectionThatIsDeletedMeanwhileFailsWhatWaits(t *testing.T) {
	t.Parallel()
	a, provider, conn := smsReady(t, nil)
	provider.SetMode(twiliotest.Down)
	id, _ := bySMS(a, nil)
	a.Live.Delete("/v1/sms-connections/" + conn).Is(200)
	provider.SetMode(twiliotest.Working)
	a.Advance(30 * time.Second)
	shows(t, message(a.Live, id), app.Map{"status": "failed", "error_code": "carrier_unreachable"})
	require.Empty(t, provider.Messages())
}

func TestOutageOfTheProviderDoesNotDelayChatMessages(t *testing.T) {
	t.Parallel()
	a, provider, _ := smsReady(t, nil)
	provider.SetMode(twiliotest.Hanging)
	t.Cleanup(func() { provider.SetMode(twiliotest.Working) })
	contact := a.SandboxNumber(85) // chat takes its messages and fails them later
	a.Live.Post("/v1/messages", app.Map{"to": contact, "body": "first", "line_id": a.Lines[0].ID}).Is(201)
	for i := range 12 {
		a.Live.Post("/v1/messages", app.Map{"to": a.SandboxNumber(80), "body": fmt.Sprint("by SMS ", i), "line_id": a.Lines[0].ID}).Is(201)
	}
	require.Eventually(t, func() bool { return provider.MostCalls() > 0 }, 30*time.Second, 5*time.Millisecond)
	chat := a.Live.Post("/v1/messages", app.Map{"to": a.Phone(), "body": "by chat", "line_id": a.Lines[1].ID}).Is(201).Text("id")
	require.Eventually(t, func() bool { return slices.Contains([]any{"sent", "delivered", "read"}, status(a.Live, chat)) }, 30*time.Second, 5*time.Millisecond)
	require.LessOrEqual(t, provider.MostCalls(), 8)
}

func TestContactThatWritesBySMSIsAnsweredBySMSFromTheNumberItWroteTo(t *testing.T) {
	t.Parallel()
	a, provider, conn := smsReady(t, app.Map{"from_numbers": []string{smsNumber, smsNumber2}})
	fallbackMode(a, "off") // it governs the fallback alone
	from := a.SandboxNumber(80)
	sid, taken := provider.Receive(smsInbound(conn), smsAccount, from, smsNumber2, "Hi there", "")
	require.Equal(t, 200, taken)
	_, taken = provider.Receive(smsInbound(conn), smsAccount, from, smsNumber2, "Hi there", sid)
	require.Equal(t, 200, taken)
	a.Settle()
	inbound := a.Live.Get("/v1/messages?direction=inbound").Is(200).Data()
	require.Len(t, inbound, 1, "a repeated report counts once")
	shows(t, inbound[0], app.Map{"channel": "sms", "line_id": nil, "from": from, "to": smsNumber2, "body": "Hi there", "status": "received"})
	conv := text(inbound[0], "conversation_id")
	reply := a.Live.Post("/v1/conversations/"+conv+"/messages", app.Map{"body": "Good morning"}).Is(201)
	shows(t, reply.JSON(), app.Map{"channel": "sms", "line_id": nil, "from": smsNumber2, "status": "queued"})
	a.Settle()
	require.Equal(t, smsNumber2, provider.MessagesTo(from)[0].From)
	shows(t, message(a.Live, reply.Text("id")), app.Map{"status": "sent", "conversation_id": conv})
	a.Inbound(from, a.Lines[0].Phone, "now by chat")
	require.Equal(t, "chat", a.Live.Post("/v1/conversations/"+conv+"/messages", app.Map{"body": "Hello again"}).Is(201).Text("channel"))
	require.Len(t, a.Live.Get("/v1/conversations").Is(200).Data(), 1, "one conversation across channels")
}

func TestStopBySMSIsObeyedInEveryStatusAndConfirmedBySMSWhileReady(t *testing.T) {
	t.Parallel()
	a, provider, conn := smsReady(t, nil)
	path := "/v1/sms-connections/" + conn
	say := func(from, body string) {
		_, taken := provider.Receive(smsInbound(conn), smsAccount, from, smsNumber, body, "")
		require.Equal(t, 200, taken)
		a.Settle()
	}
	consent := func(from string) any {
		return a.Live.Get("/v1/contacts?phone=" + url.QueryEscape(from)).Is(200).Data()[0]["consent_status"]
	}
	first := a.Phone()
	say(first, "HELP")
	require.Equal(t, "This is the messaging service of Acme. Reply STOP to opt out.", provider.MessagesTo(first)[0].Body)
	say(first, "Stop!")
	require.Equal(t, "opted_out", consent(first))
	require.Len(t, provider.MessagesTo(first), 2, "the opt-out is confirmed by SMS")
	say(first, "START")
	require.Equal(t, "opted_in", consent(first))
	a.Live.Do("PATCH", path, app.Map{"disabled": true}).Is(200)
	second := a.Phone()
	say(second, "STOP")
	require.Equal(t, "opted_out", consent(second))
	a.Advance(20 * time.Minute)
	require.Empty(t, provider.MessagesTo(second), "answers leave only while the connection is ready")
}

func TestQuietHoursAndConsentHoldForSMS(t *testing.T) {
	t.Parallel()
	a, provider, _ := smsReady(t, nil)
	provider.SetMode(twiliotest.Down)
	id, to := bySMS(a, nil)
	contact := fmt.Sprint(message(a.Live, id)["contact_id"])
	a.Live.Post("/v1/contacts/"+contact+"/opt-out", app.Map{"source": "phone"}).Is(200)
	provider.SetMode(twiliotest.Working)
	a.Settle()
	a.Advance(time.Hour)
	shows(t, message(a.Live, id), app.Map{"status": "failed", "error_code": "contact_opted_out"})
	require.Empty(t, provider.MessagesTo(to))

	provider.SetMode(twiliotest.Down)
	id, to = bySMS(a, app.Map{"to": a.SandboxNumber(82)})
	provider.SetMode(twiliotest.Working)
	a.Advance(12 * time.Hour) // night
	require.Contains(t, timeline(a.Live, id), "deferred")
	require.Empty(t, provider.MessagesTo(to))
	a.Advance(12 * time.Hour)
	require.Equal(t, "sent", status(a.Live, id))
}

func TestReportWithoutTheSignatureOfTheConnectionIsRefused(t *testing.T) {
	t.Parallel()
	a, provider, conn := smsReady(t, nil)
	form := url.Values{"AccountSid": {smsAccount}, "MessageSid": {"SM1"}, "From": {a.Phone()}, "To": {smsNumber}, "Body": {"STOP"}}
	require.Equal(t, 403, provider.Post(smsInbound(conn), "another token", form))
	require.Equal(t, 403, provider.Post(smsInbound(conn)+"?x=1", smsToken+"x", form))
	other := a.NewOrganisation("Other")
	theirs := other.Sessions[organisation.Owner].Post("/v1/sms-connections", app.Map{"account_sid": smsAccount, "auth_token": smsToken, "from_numbers": []string{smsNumber}}).Is(201).Text("id")
	post := func(address string, header http.Header, body string) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, strings.Replace(address, smsBase, a.Nodes[0].URL, 1), strings.NewReader(body))
		require.NoError(t, err)
		request.Header = header
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body)
		return response.StatusCode
	}
	formType := "application/x-www-form-urlencoded"
	signed := http.Header{"Content-Type": {formType}, "X-Twilio-Signature": {twiliotest.Sign(smsToken, smsInbound(conn), form)}}
	require.Equal(t, 403, post(smsInbound(theirs), signed, form.Encode()), "a report for one connection replayed to another with the same token")
	require.Equal(t, 403, post(smsInbound(conn), http.Header{"Content-Type": {formType}}, form.Encode()), "missing")
	require.Equal(t, 403, post(smsBase+"/carriers/sms/smc_unknown", signed, form.Encode()))
	require.Equal(t, 415, post(smsInbound(conn), http.Header{"Content-Type": {"application/json"}}, "{}"))
	require.Equal(t, 413, post(smsInbound(conn), http.Header{"Content-Type": {formType}}, "Body="+strings.Repeat("x", 300<<10)))
	require.Equal(t, 400, post(smsInbound(conn), http.Header{"Content-Type": {formType}}, "a=%zz"))
	require.Empty(t, a.Live.Get("/v1/messages?direction=inbound").Is(200).Data())
	require.Equal(t, 200, post(smsInbound(conn), signed, form.Encode()))
}

func TestAttachmentsOfInboundSMSAreFetchedWithTheCredentials(t *testing.T) {
	t.Parallel()
	a, provider, conn := smsReady(t, nil)
	media := provider.AddMedia(smsAccount, "image/png", []byte("a picture"))
	_, taken := provider.Receive(smsInbound(conn), smsAccount, a.Phone(), smsNumber, "", "", media, "https://elsewhere.example/x.png")
	require.Equal(t, 200, taken)
	a.Settle()
	list, _ := a.Live.Get("/v1/messages?direction=inbound").Is(200).Data()[0]["media"].([]any)
	require.Len(t, list, 1, "an attachment that is not at the provider is dropped")
	shown := object(list[0])
	require.Equal(t, "image/png", shown["mime"])
	path, ours := strings.CutPrefix(text(shown, "url"), smsBase)
	require.True(t, ours, shown)
	response, err := http.Get(a.Nodes[0].URL + path) //nolint:noctx // a test
	require.NoError(t, err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, "a picture", string(content))
	require.Equal(t, "attachment", response.Header.Get("Content-Disposition"))
}
