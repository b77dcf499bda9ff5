package bluebubbles_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"ledgerline/adapters/bluebubbles"
	"ledgerline/adapters/bluebubbles/bluebubblestest"
	"ledgerline/eventstore"
	"ledgerline/processes/carrier"
	"ledgerline/processes/carrier/carriertest"
	"ledgerline/test/testpg"
)

const (
	lineID  = "ln_1"
	phone   = "+12025550000"
	contact = "+14155552671"
	android = "+14155552672"
	secret  = "the-secret-of-the-address"
)

// lines implements bluebubbles.Lines with one line.
type lines struct{ account bluebubbles.Account }

func (l *lines) Account(_ context.Context, id string) (bluebubbles.Account, error) {
	if id != l.account.LineID {
		return bluebubbles.Account{}, bluebubbles.ErrNoAccount
	}
	return l.account, nil
}

func (l *lines) Lines(context.Context) ([]string, error) { return []string{l.account.LineID}, nil }

// world is an adapter between a server and an inbox.
type world struct {
	pool    *pgxpool.Pool
	server  *bluebubblestest.Server
	inbox   *carriertest.Inbox
	lines   *lines
	adapter *bluebubbles.Adapter
	front   *httptest.Server // where the adapter is reached
	log     *logged
}

func newWorld(t testing.TB, change ...func(*bluebubbles.Config)) *world {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), testpg.Database(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	keyring, _, err := eventstore.NewKeyring()
	require.NoError(t, err)
	w := &world{pool: pool, server: bluebubblestest.Start(t), inbox: carriertest.NewInbox(), log: &logged{}}
	w.lines = &lines{bluebubbles.Account{
		LineID: lineID, Phone: phone, URL: w.server.URL(), Password: w.server.Password, Secret: secret, PrivateAPI: true,
	}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /carriers/bluebubbles/{line}/{secret}", func(rw http.ResponseWriter, r *http.Request) {
		if !w.adapter.ServeReport(rw, r, r.PathValue("line"), r.PathValue("secret")) {
			http.NotFound(rw, r)
		}
	})
	mux.HandleFunc("GET /carriers/bluebubbles/{line}/media/{token}", func(rw http.ResponseWriter, r *http.Request) {
		if !w.adapter.ServeMedia(rw, r, r.PathValue("line"), r.PathValue("token")) {
			http.NotFound(rw, r)
		}
	})
	w.front = httptest.NewServer(mux)
	t.Cleanup(w.front.Close)
	cfg := bluebubbles.Config{
		Pool: pool, Lines: w.lines, AEAD: keyring.AEAD(), Inbox: w.inbox, BaseURL: w.front.URL, InsideMedia: true,
		Logger: slog.New(slog.NewTextHandler(w.log, nil)), Poll: time.Nanosecond,
	}
	for _, c := range change {
		c(&cfg)
	}
	w.adapter, err = bluebubbles.New(cfg)
	require.NoError(t, err)
	return w
}

// read polls the server once.
func (w *world) read(t *testing.T) {
	t.Helper()
	require.NoError(t, w.adapter.Poll(t.Context(), lineID))
}

// age makes all attempts older.
func (w *world) age(t *testing.T, by time.Duration) {
	t.Helper()
	_, err := w.pool.Exec(t.Context(), `update bluebubbles.parts set begun_at = begun_at - make_interval(secs => $1)`, by.Seconds())
	require.NoError(t, err)
}

func (w *world) endAcceptWindow(t *testing.T) {
	t.Helper()
	w.age(t, 11*time.Minute)
}

func (w *world) arrived(t *testing.T, number, text string) int {
	t.Helper()
	n := 0
	for _, m := range w.server.MessagesTo(number) {
		if m.Text == text {
			n++
		}
	}
	return n
}

// TestBlueBubblesPassesTheCarrierSuite runs the suite twice: with a server that posts webhooks, and with one whose
// webhooks all get lost.
func TestBlueBubblesPassesTheCarrierSuite(t *testing.T) {
	t.Parallel()
	for name, reports := range map[string]bool{"by reports": true, "by reading alone": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			carriertest.Run(t, func(t *testing.T) *carriertest.World {
				t.Helper()
				w := newWorld(t, func(c *bluebubbles.Config) {
					c.Poll = 5 * time.Millisecond
					if !reports {
						c.BaseURL = ""
					}
				})
				w.server.SetOffIMessage(android)
				w.read(t)
				run, stop := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- w.adapter.Run(run) }()
				t.Cleanup(func() { stop(); <-done })
				cw := &carriertest.World{
					Carrier: w.adapter, Inbox: w.inbox, Line: carrier.Line{ID: lineID, Phone: phone}, OnChat: contact, OffChat: android,
					Arrived: w.arrived, EndUncertainty: w.endAcceptWindow,
				}
				is := func(mode bluebubblestest.Mode) func(*testing.T) { return func(*testing.T) { w.server.SetMode(mode) } }
				cw.Busy = func(t *testing.T) string { is(bluebubblestest.Busy)(t); return contact }
				cw.Ready, cw.Restore = is(bluebubblestest.Working), is(bluebubblestest.Working)
				cw.LoseAnswers, cw.LoseRequests = is(bluebubblestest.LosesAnswers), is(bluebubblestest.LosesRequests)
				cw.Deliver = func(_ *testing.T, number string) { w.server.Deliver(number) }
				cw.Read = func(_ *testing.T, number string) { w.server.Read(number) }
				cw.Reply = func(_ *testing.T, text string) string {
					w.server.AddMessage(bluebubblestest.Message{Address: contact, Text: text})
					return contact
				}
				cw.RepeatReports = func(*testing.T) { w.server.ReportAll() }
				return cw
			})
		})
	}
}
