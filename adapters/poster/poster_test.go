package poster_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/adapters/poster"
	"ledgerline/processes/webhooks"
)

func post(t *testing.T, cfg poster.Config, url string) webhooks.PostResult {
	t.Helper()
	p := poster.New(cfg)
	t.Cleanup(p.Close)
	return p.Post(t.Context(), webhooks.Post{URL: url, ID: "evt_1", At: time.Unix(1772371200, 0), Signature: "v1,abc", Body: []byte(`{"a":1}`)})
}

// open allows all addresses and has a short timeout.
var open = poster.Config{Inside: true, Timeout: 300 * time.Millisecond}

func serve(t *testing.T, handle http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // only then does the server see that the client has gone
		r.Body = io.NopCloser(bytes.NewReader(body))
		handle(w, r)
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}

func TestARequestFollowsStandardWebhooks(t *testing.T) {
	t.Parallel()
	seen := make(chan *http.Request, 1)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if string(body) != `{"a":1}` {
			t.Errorf("body: %s", body)
		}
		seen <- r
		w.WriteHeader(http.StatusAccepted)
	})
	posted := post(t, open, url+"/a?b=c")
	require.Equal(t, 202, posted.Status)
	require.Empty(t, posted.Error)
	r := <-seen
	require.Equal(t, "POST /a?b=c", r.Method+" "+r.RequestURI)
	for name, want := range map[string]string{
		"webhook-id": "evt_1", "webhook-timestamp": "1772371200", "webhook-signature": "v1,abc", "content-type": "application/json", "content-length": "7",
	} {
		require.Equal(t, want, r.Header.Get(name), name)
	}
}

func TestAnErrorAnswerIsReportedWithItsStatus(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 307, 400, 404, 410, 429, 500, 503} {
		followed := false
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			followed = followed || r.URL.Path == "/elsewhere"
			w.Header().Set("Location", "/elsewhere")
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
		})
		posted := post(t, open, url)
		require.Equal(t, status, posted.Status)
		require.Equal(t, "7", posted.RetryAfter)
		require.Contains(t, posted.Error, fmt.Sprintf("the receiver answered %d", status))
		require.False(t, followed, "redirects are not followed")
	}
}

func TestAReceiverThatDoesNotAnswerTimesOut(t *testing.T) {
	t.Parallel()
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	posted := post(t, open, url)
	require.Zero(t, posted.Status)
	require.Equal(t, "timed out: no answer within 300ms", posted.Error)
	require.GreaterOrEqual(t, posted.Latency, 300*time.Millisecond)
}

// raw is a receiver that reads a request and then handles the connection itself.
func raw(t *testing.T, then func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // in a test
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				in := bufio.NewReader(conn)
				if r, err := http.ReadRequest(in); err == nil {
					_, _ = io.Copy(io.Discard, r.Body)
				}
				then(conn)
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

func TestFailuresOfTheConnectionAreDescribedInWords(t *testing.T) {
	t.Parallel()
	slow := func(conn net.Conn) {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n")
		drip := time.NewTicker(20 * time.Millisecond)
		defer drip.Stop()
		for i := range 100 {
			if _, err := fmt.Fprintf(conn, "X-%d: slow\r\n", i); err != nil {
				return
			}
			<-drip.C
		}
	}
	for name, c := range map[string]struct {
		then func(net.Conn)
		want string
	}{
		"reset": {func(conn net.Conn) {
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
		}, "the receiver reset the connection"},
		"closed":       {func(net.Conn) {}, "the receiver closed the connection without an answer"},
		"slow headers": {slow, "timed out: no answer within 300ms"},
		"huge headers": {func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("a", 1<<20)+"\r\n\r\n")
		}, "the header of the answer is longer than 64 KiB"},
		"no HTTP": {func(conn net.Conn) { _, _ = io.WriteString(conn, "220 mail.example.com ESMTP\r\n") }, "the answer is not HTTP"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			posted := post(t, open, raw(t, c.then))
			require.Equal(t, c.want, posted.Error)
			require.Zero(t, posted.Status)
		})
	}
}

func TestALongOrSlowBodyIsNotReadToItsEnd(t *testing.T) {
	t.Parallel()
	var written atomic.Int64
	ended := make(chan struct{})
	long := serve(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		chunk := make([]byte, 1<<20)
		for range 10 << 10 { // 10 GB
			n, err := w.Write(chunk)
			written.Add(int64(n))
			if err != nil || r.Context().Err() != nil {
				return
			}
		}
	})
	posted := post(t, open, long)
	require.Equal(t, 200, posted.Status)
	require.Empty(t, posted.Error)
	<-ended
	require.Less(t, written.Load(), int64(64<<20))

	slow := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	require.Empty(t, post(t, open, slow).Error, "the answer counts, not its body")
}

func TestConnectionsAreReused(t *testing.T) {
	t.Parallel()
	var connections atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "thanks") }))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	p := poster.New(open)
	t.Cleanup(p.Close)
	for range 20 {
		require.Empty(t, p.Post(t.Context(), webhooks.Post{URL: s.URL}).Error)
	}
	require.EqualValues(t, 1, connections.Load())
}

func TestTLSThatIsNotTrustedIsRefused(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ErrorLog = nil
	t.Cleanup(s.Close)
	trust := x509.NewCertPool()
	trust.AddCert(s.Certificate())
	trusting := open
	trusting.TLS = &tls.Config{RootCAs: trust} //nolint:gosec // the default versions
	require.Empty(t, post(t, trusting, s.URL).Error)
	require.Equal(t, "TLS: the certificate is of an unknown authority", post(t, open, s.URL).Error)
	other := strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	require.Equal(t, "TLS: the certificate is for another host", post(t, trusting, other).Error)
	require.Equal(t, "TLS: the receiver does not speak TLS", post(t, open, strings.Replace(serve(t, func(http.ResponseWriter, *http.Request) {}), "http:", "https:", 1)).Error)
}

func TestARefusedConnectionIsReported(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // in a test
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.Equal(t, "connection refused", post(t, open, "http://"+l.Addr().String()).Error)
}

// resolver answers queries with the addresses of a list, one after the other, and then always with the last one.
// Without addresses it answers that there is no such host.
func resolver(t *testing.T, answers ...string) *net.Resolver {
	t.Helper()
	var asked atomic.Int64
	conn, err := net.ListenPacket("udp", "127.0.0.1:0") //nolint:noctx // in a test
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buffer := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(dnsAnswer(buffer[:n], &asked, answers), from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// dnsAnswer answers a query of type A, and no other.
func dnsAnswer(question []byte, asked *atomic.Int64, answers []string) []byte {
	end := 12
	for question[end] != 0 {
		end += int(question[end]) + 1
	}
	kind := question[end+2]
	reply := append([]byte{}, question[:end+5]...)
	reply[2], reply[3] = 0x81, 0x80
	reply[6], reply[7], reply[8], reply[9], reply[10], reply[11] = 0, 0, 0, 0, 0, 0
	if len(answers) == 0 {
		reply[3] = 0x83 // no such name
		return reply
	}
	if kind != 1 {
		return reply
	}
	i := min(int(asked.Add(1)), len(answers)) - 1
	reply[7] = 1
	reply = append(reply, 0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
	return append(reply, net.ParseIP(answers[i]).To4()...)
}

func TestNameThatNowResolvesToAPrivateAddressIsRefused(t *testing.T) {
	t.Parallel()
	reached := false
	url := serve(t, func(http.ResponseWriter, *http.Request) { reached = true })
	_, port, err := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	guarded := poster.Config{Timeout: 300 * time.Millisecond}
	for _, address := range []string{url, "http://localhost:" + port, "http://[::ffff:127.0.0.1]:" + port, "http://0.0.0.0:" + port, "http://2130706433:" + port} {
		posted := post(t, guarded, address)
		require.NotEmpty(t, posted.Error, address)
		require.Zero(t, posted.Status)
	}
	require.Equal(t, "refused: the host has no address on the public internet", post(t, guarded, url).Error)

	// A public address first (nobody answers there), the inside afterwards.
	rebinding := guarded
	rebinding.Resolver = resolver(t, "192.0.2.1", "127.0.0.1")
	p := poster.New(rebinding)
	t.Cleanup(p.Close)
	for range 3 {
		posted := p.Post(t.Context(), webhooks.Post{URL: "http://rebind.example.com:" + port})
		require.Equal(t, "refused: the host has no address on the public internet", posted.Error)
	}
	require.False(t, reached)

	// The same name reaches it where the operator allows that: the refusal is the guard's doing.
	allowed := rebinding
	allowed.Inside, allowed.Resolver = true, resolver(t, "127.0.0.1")
	require.Empty(t, post(t, allowed, "http://rebind.example.com:"+port).Error)
	require.True(t, reached)
}

func TestAnUnknownHostIsReported(t *testing.T) {
	t.Parallel()
	nowhere := open
	nowhere.Timeout, nowhere.Resolver = 5*time.Second, resolver(t)
	require.Equal(t, "DNS: there is no such host", post(t, nowhere, "http://nowhere.example.com").Error)
	// The guard gives one answer for names that do not exist and for names of the internal network.
	nowhere.Inside = false
	private := poster.Config{Timeout: 5 * time.Second, Resolver: resolver(t, "10.1.2.3")}
	require.Equal(t, post(t, private, "http://db.example.com").Error, post(t, nowhere, "http://nowhere.example.com").Error)
}

func TestACanceledAttemptIsReportedAsCanceled(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { close(arrived); <-r.Context().Done() })
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	p := poster.New(poster.Config{Inside: true})
	t.Cleanup(p.Close)
	require.True(t, p.Post(ctx, webhooks.Post{URL: url}).Canceled)
}
