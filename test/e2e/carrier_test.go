package e2e_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/adapters/bluebubbles"
	"ledgerline/adapters/bluebubbles/bluebubblestest"
	"ledgerline/domain/fault"
	"ledgerline/domain/line"
	"ledgerline/events"
	"ledgerline/processes"
	"ledgerline/processes/carrier"
	"ledgerline/test/app"
	"ledgerline/test/sink"
)

// mac connects the first line to a BlueBubbles server, and returns the address that the server reports to.
func mac(t *testing.T, a *app.App) (server *bluebubblestest.Server, report string) {
	t.Helper()
	server = bluebubblestest.Start(t)
	account := events.CarrierAccount{URL: server.URL(), Password: server.Password, Method: line.PrivateAPI}
	secret, _, err := a.Nodes[0].App.ConfigureCarrier(t.Context(), a.Operator(), a.Lines[0].ID, line.BlueBubbles, account, false)
	require.NoError(t, err)
	report = a.Nodes[0].URL + bluebubbles.ReportPath(a.Lines[0].ID, secret)
	server.AddHook(report, "new-message", "updated-message")
	return server, report
}

func TestAMessageThroughBlueBubblesIsSentDeliveredReadAndAnswered(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.TwoNodes())
	server, _ := mac(t, a)
	phone := a.Phone()
	id := a.Live.Post("/v1/messages", app.Map{"to": phone, "body": "Hello there", "line_id": a.Lines[0].ID}).Is(201).Text("id")
	a.Settle()
	require.Equal(t, "sent", status(a.Live, id))
	require.Len(t, server.MessagesTo(phone), 1)
	require.Equal(t, "Hello there", server.MessagesTo(phone)[0].Text)
	server.Deliver(phone)
	a.Settle()
	require.Equal(t, "delivered", status(a.Live, id))
	server.Read(phone)
	server.ReportAll()
	a.Settle()
	require.Equal(t, "read", status(a.Live, id))

	server.AddMessage(bluebubblestest.Message{Address: phone, Text: "STOP"})
	server.ReportAll()
	a.Settle()
	contact := message(a.Live, id)["contact_id"]
	require.Equal(t, "opted_out", a.Live.Get("/v1/contacts/"+contact.(string)).Is(200).Text("consent_status")) //nolint:errcheck // an id is a text
	require.Len(t, a.Live.Get("/v1/messages?direction=inbound").Is(200).Data(), 1, "reported twice, recorded once")
	require.Len(t, server.MessagesTo(phone), 2, "the opt-out is confirmed")
}

func TestAttachmentOfAContactIsServedUnderTheBaseURL(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.BaseURL("https://ledgerline.example/"))
	server, _ := mac(t, a)
	s := sink.Start(t)
	hook(a.Live, s.URL, "message.received")
	server.AddMessage(bluebubblestest.Message{Address: a.Phone(), Text: "look", Attachments: []bluebubblestest.Attachment{
		{Name: "photo.heic", MIME: "image/heic", Bytes: []byte("a photo")},
	}})
	server.ReportAll()
	a.Settle()
	shown := a.Live.Get("/v1/messages?direction=inbound").Is(200).Data()[0]
	address := text(object(shown["media"].([]any)[0]), "url") //nolint:errcheck,forcetypeassert // fails the test
	rest, ours := strings.CutPrefix(address, "https://ledgerline.example/carriers/bluebubbles/"+a.Lines[0].ID+"/media/")
	require.True(t, ours, address)
	require.Len(t, s.Requests(), 1)
	require.Equal(t, shown["media"], object(s.Requests()[0].JSON(t)["data"])["media"])
	response, err := http.Get(a.Nodes[0].URL + bluebubbles.MediaPath(a.Lines[0].ID, rest)) //nolint:noctx // a test
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, "image/heic", response.Header.Get("Content-Type"))
}

func TestSendWithALostAnswerIsFoundAtTheServerAndNotRepeated(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	server, _ := mac(t, a)
	phone := a.Phone()
	server.SetMode(bluebubblestest.LosesAnswers)
	id := a.Live.Post("/v1/messages", app.Map{"to": phone, "body": "Hello there", "line_id": a.Lines[0].ID}).Is(201).Text("id")
	a.Settle()
	require.Equal(t, "sent", status(a.Live, id))
	require.Len(t, server.MessagesTo(phone), 1)
}

func TestAccountOfALineIsSealedAndErasedWithTheLine(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	server, report := mac(t, a)
	var rows int
	a.QueryRow(`select count(*) from ledger_events where data::text like '%' || $1 || '%' or encode(coalesce(sealed, ''), 'escape') like '%' || $1 || '%'`,
		[]any{server.Password}, &rows)
	require.Zero(t, rows)
	post := func(address string) int {
		response, err := http.Post(address, "application/json", nil) //nolint:noctx,gosec // a test
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	require.Equal(t, http.StatusBadRequest, post(report), "it is known")
	require.Equal(t, http.StatusNotFound, post(report+"x"))

	_, err := a.Nodes[0].App.ChangeLineState(t.Context(), a.Operator(), a.Lines[0].ID, line.Retired, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, post(report))
	var wrapped []byte
	a.QueryRow(`select wrapped from ledger_keys where subject = $1`, []any{a.Lines[0].ID}, &wrapped)
	require.Nil(t, wrapped, "its key is destroyed")
	_, _, err = a.Nodes[0].App.ConfigureCarrier(t.Context(), a.Operator(), a.Lines[0].ID, line.Simulator, events.CarrierAccount{}, false)
	require.True(t, fault.Is(err, fault.Conflict))
}

// slow is a carrier whose lookups of numbers hang until the test answers them.
type slow struct {
	asked, answer chan struct{}
	sent          atomic.Int64
}

func (s *slow) Reachable(context.Context, carrier.Line, string) (bool, error) {
	close(s.asked)
	<-s.answer
	return true, nil
}

func (s *slow) Send(context.Context, carrier.Outbound) (carrier.Accepted, error) {
	s.sent.Add(1)
	return carrier.Accepted{CarrierID: "x"}, nil
}

func (s *slow) Lookup(context.Context, carrier.Outbound) (carrier.Accepted, bool, error) {
	return carrier.Accepted{}, false, nil
}

func TestOptOutDuringALookupStopsTheMessage(t *testing.T) {
	t.Parallel()
	fake := &slow{asked: make(chan struct{}), answer: make(chan struct{})}
	a := app.Start(t, app.Carrier(func(*app.Node) carrier.Carrier { return fake }))
	queued := a.Live.Post("/v1/messages", app.Map{"to": a.Phone(), "body": "Hello"}).Is(201)
	<-fake.asked
	a.Live.Post("/v1/contacts/"+queued.Text("contact_id")+"/opt-out", app.Map{"source": "phone"}).Is(200)
	close(fake.answer)
	a.Settle()
	shows(t, message(a.Live, queued.Text("id")), app.Map{"status": "failed", "error_code": "contact_opted_out"})
	require.Zero(t, fake.sent.Load())
}

// mute is a carrier that accepts every message and never sends a receipt.
type mute struct{}

func (mute) Reachable(context.Context, carrier.Line, string) (bool, error) { return true, nil }

func (mute) Send(_ context.Context, out carrier.Outbound) (carrier.Accepted, error) {
	return carrier.Accepted{CarrierID: out.Channel}, nil
}

func (mute) Lookup(context.Context, carrier.Outbound) (carrier.Accepted, bool, error) {
	return carrier.Accepted{}, false, nil
}

func TestMissingReceiptOfAFallbackSMSIsCountedFromTheSMS(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.LinesSendSMS(), app.Carrier(func(*app.Node) carrier.Carrier { return mute{} }))
	pool := a.Live.Post("/v1/pools", app.Map{"name": "SMS", "fallback_sms_mode": "not_chat_or_failed"}).Is(201).Text("id")
	id := a.Live.Post("/v1/messages", app.Map{"to": a.Phone(), "body": "Hello", "pool_id": pool, "line_id": a.Lines[0].ID}).Is(201).Text("id")
	a.Settle()
	a.Advance(time.Hour)
	require.NoError(t, processes.NewInbox(a.Nodes[0].App).Receipt(t.Context(), carrier.Receipt{
		MessageID: id, CarrierID: "chat", Kind: carrier.ReceiptFailed, Code: "carrier_rejected", At: a.Clock.Now(),
	}))
	a.Settle()
	require.Equal(t, "sms", message(a.Live, id)["channel"])
	a.Advance(23 * time.Hour)
	require.NotContains(t, timeline(a.Live, id), "receipt_missing")
	a.Advance(time.Hour)
	require.Contains(t, timeline(a.Live, id), "receipt_missing")
}
