package bluebubbles_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/adapters/bluebubbles"
	"ledgerline/adapters/bluebubbles/bluebubblestest"
	"ledgerline/events"
	"ledgerline/processes/carrier"
)

// logged is a log that is safe for concurrent use.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func message(id string) carrier.Outbound {
	return carrier.Outbound{MessageID: id, LineID: lineID, From: phone, To: contact, Body: "private words of " + id, Channel: "chat"}
}

func (w *world) send(t *testing.T, out carrier.Outbound) string {
	t.Helper()
	accepted, err := w.adapter.Send(t.Context(), out)
	require.NoError(t, err)
	return accepted.CarrierID
}

func TestTheFirstMessageCreatesAChatAndLaterOnesUseIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second := w.send(t, message("msg_1")), w.send(t, message("msg_2"))
	sent := w.server.MessagesTo(contact)
	require.Equal(t, []string{first, second}, []string{sent[0].GUID, sent[1].GUID})
	sends := slices.DeleteFunc(w.server.Requests(), func(asked string) bool { return strings.HasPrefix(asked, "GET") })
	require.Equal(t, []string{"POST /api/v1/chat/new", "POST /api/v1/message/text"}, sends)
}

func TestReachabilityIsUnknownWithoutThePrivateAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	via := carrier.Line{ID: lineID, Phone: phone}
	w.lines.account.PrivateAPI = false
	_, err := w.adapter.Reachable(t.Context(), via, contact)
	require.ErrorIs(t, err, carrier.ErrReachabilityUnknown)
	w.send(t, message("msg_1"))

	w.lines.account.PrivateAPI, w.server.PrivateAPI = true, false
	_, err = w.adapter.Reachable(t.Context(), via, contact)
	require.ErrorIs(t, err, carrier.ErrReachabilityUnknown)
	_, err = w.adapter.Send(t.Context(), message("msg_2"))
	require.ErrorIs(t, err, carrier.ErrTransient, "nothing was sent")
	_, err = w.adapter.Reachable(t.Context(), carrier.Line{ID: "ln_2"}, contact)
	require.ErrorIs(t, err, bluebubbles.ErrNoAccount)
	require.Contains(t, fmt.Sprint(w.log), "a message is for a line without an account")
}

// TestErrorsAndLogsContainNoPasswordNumberOrText makes every kind of failure happen.
func TestErrorsAndLogsContainNoPasswordNumberOrText(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil     func(*world)
		transient bool
	}{
		"the server is gone":        {func(w *world) { w.lines.account.URL = "http://127.0.0.1:1" }, true},
		"the name does not resolve": {func(w *world) { w.lines.account.URL = "http://mac.invalid" }, true},
		"the password is wrong":     {func(w *world) { w.lines.account.Password = "another" }, true},
		"the answer is lost":        {func(w *world) { w.server.SetMode(bluebubblestest.LosesAnswers) }, false},
		"the request is lost":       {func(w *world) { w.server.SetMode(bluebubblestest.LosesRequests) }, false},
		"the helper is gone":        {func(w *world) { w.server.SetMode(bluebubblestest.Busy) }, true},
		"the line has no account":   {func(w *world) { w.lines.account.LineID = "ln_2" }, true},
		"something between is broken": {func(w *world) {
			broken := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				rw.WriteHeader(http.StatusBadGateway)
				_, _ = io.WriteString(rw, r.URL.String())
			}))
			t.Cleanup(broken.Close)
			w.lines.account.URL = broken.URL
		}, true}, // already when it is asked for the chat
		"a tunnel redirects": {func(w *world) {
			away := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				http.Redirect(rw, r, "http://elsewhere.invalid"+r.URL.String(), http.StatusFound)
			}))
			t.Cleanup(away.Close)
			w.lines.account.URL = away.URL
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c.spoil(w)
			_, sent := w.adapter.Send(t.Context(), message("msg_1"))
			require.Error(t, sent)
			if c.transient {
				require.ErrorIs(t, sent, carrier.ErrTransient)
			} else {
				require.NotErrorIs(t, sent, carrier.ErrTransient)
			}
			_, asked := w.adapter.Reachable(t.Context(), carrier.Line{ID: lineID}, contact)
			_, _, outcome := w.adapter.Lookup(t.Context(), message("msg_1"))
			read := w.adapter.Poll(t.Context(), lineID)
			output := fmt.Sprint(sent, asked, outcome, read, w.log)
			for _, private := range []string{w.server.Password, url.QueryEscape(w.server.Password), "another", contact[1:], "private words", secret} {
				require.NotContains(t, output, private)
			}
		})
	}
}

func TestAMessageThatTheServerCannotDeliverFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read(t)
	w.server.Bounce(contact, 4)
	_, err := w.adapter.Send(t.Context(), message("msg_1"))
	var rejected *carrier.Rejected
	require.ErrorAs(t, err, &rejected)
	require.Equal(t, "carrier_rejected", rejected.Code)

	w.server.Bounce(contact, 0)
	w.send(t, message("msg_2"))
	w.server.ChangeNewest(contact, true, func(m *bluebubblestest.Message) { m.Error = 22 })
	w.send(t, message("msg_3"))
	w.server.ChangeNewest(contact, false, func(m *bluebubblestest.Message) { m.Error = 1 })
	w.read(t)
	for id, code := range map[string]string{"msg_2": "not_on_chat", "msg_3": "carrier_rejected"} {
		receipts := w.inbox.Receipts(id)
		require.Len(t, receipts, 1, id)
		require.Equal(t, carrier.ReceiptFailed, receipts[0].Kind)
		require.Equal(t, code, receipts[0].Code)
	}
}

func TestMessageWhosePartWasLostThreeTimesIsRefusedForNow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.server.SetMode(bluebubblestest.LosesRequests)
	for range 3 {
		_, err := w.adapter.Send(t.Context(), message("msg_1"))
		require.Error(t, err)
		require.NotErrorIs(t, err, carrier.ErrTransient)
		w.endAcceptWindow(t)
		_, found, err := w.adapter.Lookup(t.Context(), message("msg_1"))
		require.NoError(t, err)
		require.False(t, found)
	}
	_, err := w.adapter.Send(t.Context(), message("msg_1"))
	require.ErrorIs(t, err, carrier.ErrTransient, "from here on it counts as refused")
}

// files serves attachments.
func files(t *testing.T) (address string, set func(handler http.HandlerFunc)) {
	t.Helper()
	var mu sync.Mutex
	handle := func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "content of "+r.URL.Path) }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		current := handle
		mu.Unlock()
		current(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, func(h http.HandlerFunc) {
		mu.Lock()
		defer mu.Unlock()
		handle = h
	}
}

func TestAttachmentsFollowTheTextAndAnInterruptedMessageContinues(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read(t)
	address, _ := files(t)
	name, kind := "menu", "image/png"
	out := message("msg_1")
	out.Media = []events.Media{{URL: address + "/a.png"}, {URL: address + "/b", Filename: &name, MIME: &kind}}
	w.server.Bounce(contact, 0)
	w.send(t, message("msg_0"))

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.server.AddHook(w.front.URL+"/stop", "new-message")
	stop := func() { w.server.SetMode(bluebubblestest.LosesRequests) }
	once := sync.OnceFunc(stop)
	w.front.Config.Handler = intercept(w.front.Config.Handler, once)
	_, err := w.adapter.Send(ctx, out)
	require.Error(t, err)
	w.server.SetMode(bluebubblestest.Working)
	_, _, err = w.adapter.Lookup(t.Context(), out)
	require.Error(t, err, "the first attachment may be on its way")
	w.endAcceptWindow(t)
	_, found, err := w.adapter.Lookup(t.Context(), out)
	require.NoError(t, err)
	require.False(t, found, "the whole is not there")

	first := w.send(t, out)
	sent := w.server.MessagesTo(contact)[1:]
	require.Len(t, sent, 3)
	require.Equal(t, out.Body, sent[0].Text)
	require.Equal(t, first, sent[0].GUID)
	require.Equal(t, "a.png", sent[1].Attachments[0].Name)
	require.Equal(t, "content of /a.png", string(sent[1].Attachments[0].Bytes))
	require.Equal(t, "menu.png", sent[2].Attachments[0].Name)
	accepted, found, err := w.adapter.Lookup(t.Context(), out)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, first, accepted.CarrierID)

	w.server.Deliver(contact)
	w.read(t)
	receipts := w.inbox.Receipts("msg_1")
	require.Len(t, receipts, 1, "the receipt of the last part counts for the message")
	require.Equal(t, first, receipts[0].CarrierID)
}

// intercept calls a function when the first webhook about a new message passes.
func intercept(next http.Handler, do func()) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stop" {
			do()
			return
		}
		next.ServeHTTP(w, r)
	})
}

func TestNothingIsSentWhenAnAttachmentCannotBeFetched(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *bluebubbles.Config) { c.MaxMedia = 64 })
	address, answer := files(t)
	out := message("msg_1")
	out.Media = []events.Media{{URL: address + "/private.png"}}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	for name, c := range map[string]struct {
		answer    http.HandlerFunc
		transient bool
	}{
		"there is none":     {status(http.StatusNotFound), false},
		"it is empty":       {status(http.StatusOK), false},
		"it is too large":   {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 65)) }, false},
		"it is not there":   {status(http.StatusBadGateway), true},
		"it breaks off":     {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true},
		"it leads in loops": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) }, true},
	} {
		answer(c.answer)
		_, err := w.adapter.Send(t.Context(), out)
		var rejected *carrier.Rejected
		if c.transient {
			require.ErrorIs(t, err, carrier.ErrTransient, name)
		} else {
			require.ErrorAs(t, err, &rejected, name)
		}
		require.NotContains(t, err.Error(), "private", name)
	}
	require.Empty(t, w.server.MessagesTo(contact))

	strict := newWorld(t, func(c *bluebubbles.Config) { c.InsideMedia = false })
	_, err := strict.adapter.Send(t.Context(), out)
	var rejected *carrier.Rejected
	require.ErrorAs(t, err, &rejected, "an address of the inside is not fetched")
}

func TestOnlyMessagesFromContactsAreReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.server.AddUnreported(bluebubblestest.Message{Address: contact, Text: "of an earlier life", Created: time.Now().Add(-time.Hour)})
	w.read(t)
	for _, m := range []bluebubblestest.Message{
		{Address: contact, Text: "to many", Group: true},
		{Address: contact, Text: "Liked “Hello”", ReactionTo: "A-B"},
		{Address: contact, Text: "joined", ItemType: 1},
		{Address: "somebody@example.com", Text: "no number"},
		{Address: contact, Text: "typed at the Mac", FromMe: true},
		{Address: contact, Text: ""},
	} {
		w.server.AddMessage(m)
	}
	w.read(t)
	require.Empty(t, w.inbox.From(contact))
	require.Empty(t, w.inbox.From("somebody@example.com"))
	w.server.AddMessage(bluebubblestest.Message{Address: contact, Text: "  by text message\r\n", Service: "SMS"})
	w.server.AddUnreported(bluebubblestest.Message{Address: contact, Text: "unheard"})
	w.read(t)
	heard := w.inbox.From(contact)
	require.Len(t, heard, 2)
	require.Equal(t, "sms", heard[0].Channel)
	require.Equal(t, "by text message", heard[0].Body)
	require.Equal(t, "unheard", heard[1].Body)
}

func TestAnAttachmentFromAContactIsServedAtItsAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read(t)
	w.server.AddMessage(bluebubblestest.Message{Address: contact, Text: "look", Attachments: []bluebubblestest.Attachment{
		{Name: "photo.heic", MIME: "image/heic", Bytes: []byte("a photo")}, {Name: "page.html", MIME: "text/html", Bytes: []byte("<script>")},
	}})
	in := w.inbox.From(contact)[0]
	require.Equal(t, "look", in.Body)
	require.Len(t, in.Media, 2)
	require.Equal(t, "photo.heic", *in.Media[0].Filename)
	require.EqualValues(t, 7, *in.Media[0].Size)
	get := func(path string) (*http.Response, string) {
		response, err := http.Get(w.front.URL + path) //nolint:noctx // a test
		require.NoError(t, err)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response, string(text)
	}
	response, text := get(in.Media[0].URL)
	require.Equal(t, "a photo", text)
	require.Equal(t, "image/heic", response.Header.Get("Content-Type"))
	response, text = get(in.Media[1].URL)
	require.Equal(t, "<script>", text)
	require.Equal(t, "application/octet-stream", response.Header.Get("Content-Type"), "it is no page of ours")
	require.Equal(t, "attachment", response.Header.Get("Content-Disposition"))
	for _, wrong := range []string{in.Media[0].URL + "A", strings.Replace(in.Media[0].URL, lineID, "ln_2", 1), bluebubbles.MediaPath(lineID, "AAAA")} {
		response, _ = get(wrong)
		require.Equal(t, http.StatusNotFound, response.StatusCode)
	}
}

func TestAWebhookIsAcceptedOnlyWithTheSecretOfItsLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	post := func(path, body string) int {
		response, err := http.Post(w.front.URL+path, "application/json", strings.NewReader(body)) //nolint:noctx // a test
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	report := `{"type":"new-message","data":{"guid":"A","text":"hi","isFromMe":false,"handle":{"address":"` + contact + `","service":"iMessage"}}}`
	right := bluebubbles.ReportPath(lineID, secret)
	for _, path := range []string{bluebubbles.ReportPath(lineID, "x"), bluebubbles.ReportPath("ln_2", secret), bluebubbles.ReportPath("x", "x")} {
		require.Equal(t, http.StatusNotFound, post(path, report))
	}
	require.Empty(t, w.inbox.From(contact))
	require.Equal(t, http.StatusOK, post(right, report))
	require.Len(t, w.inbox.From(contact), 1)
	require.Equal(t, http.StatusOK, post(right, `{"type":"hello-world","data":"Hello"}`))
	require.Equal(t, http.StatusBadRequest, post(right, `{"type":"new-message","data":"Hello"}`))
	require.Equal(t, http.StatusBadRequest, post(right, `{`))
	require.Equal(t, http.StatusRequestEntityTooLarge, post(right, `{"type":"`+strings.Repeat("x", 1<<20)+`"}`))
	w.inbox.Refuse(1)
	require.Equal(t, http.StatusServiceUnavailable, post(right, strings.Replace(report, `"A"`, `"B"`, 1)))

	w.lines.account.Secret = ""
	require.Equal(t, http.StatusNotFound, post(bluebubbles.ReportPath(lineID, ""), report))
}

func TestTheWebhookIsSubscribedAndOldSubscriptionsAreRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	theirs := "https://elsewhere.example.com/hook"
	w.server.AddHook(theirs, "*")
	w.server.AddHook(w.front.URL+bluebubbles.ReportPath(lineID, "old"), "new-message")
	for range 2 {
		w.read(t)
	}
	require.Equal(t, []string{theirs, w.front.URL + bluebubbles.ReportPath(lineID, secret)}, w.server.Hooks())
}

func TestAServerIsPolledByOneNodeAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *bluebubbles.Config) { c.Poll = time.Hour })
	for range 3 {
		w.read(t)
	}
	reads := slices.DeleteFunc(w.server.Requests(), func(asked string) bool { return asked != "POST /api/v1/message/query" })
	require.Len(t, reads, 1)
}
