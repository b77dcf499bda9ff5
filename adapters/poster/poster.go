// Package poster posts webhook deliveries to addresses that users name, and trusts none of them: the address is checked
// when it is dialled, after the name was resolved, and little of the answer is read.
package poster

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"ledgerline/adapters/outward"
	"ledgerline/processes/webhooks"
)

// Config configures a Poster. A zero value is replaced by the default where one is stated.
type Config struct {
	// Inside allows private, loopback and link-local addresses.
	Inside bool
	// TLS is for tests; nil: the configuration of the system.
	TLS *tls.Config
	// Resolver is for tests; nil: the system's.
	Resolver *net.Resolver
	// Timeout bounds an attempt from its start to the header of the answer, in real time; default 15 s.
	Timeout   time.Duration
	UserAgent string // default: Ledgerline-Webhooks/1
}

// Poster implements webhooks.Poster. It keeps a few connections to each receiver open.
type Poster struct {
	transport *http.Transport
	timeout   time.Duration
	agent     []string
}

const (
	// maxHeader bounds the header of an answer, in bytes.
	maxHeader = 64 << 10
	// maxDrain is how many bytes of a body are read so that the connection can be used again. The connection of a longer
	// body is closed.
	maxDrain = 16 << 10
	// drainFor bounds that reading in time: the header is the answer, the body must not delay other attempts.
	drainFor = time.Second

	idlePerHost = 64
	idleTotal   = 4096
	idleFor     = 90 * time.Second
	dialFor     = 10 * time.Second
)

// New makes a poster.
func New(cfg Config) *Poster {
	if cfg.Timeout <= 0 {
		cfg.Timeout = webhooks.PostTimeout
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = "Ledgerline-Webhooks/1"
	}
	dialer := &net.Dialer{Timeout: dialFor, KeepAlive: 30 * time.Second, Resolver: cfg.Resolver}
	return &Poster{
		timeout: cfg.Timeout, agent: []string{cfg.UserAgent},
		transport: &http.Transport{
			// No proxy: the addresses that it dials could not be checked.
			DialContext: outward.Dial(dialer, cfg.Inside), TLSClientConfig: cfg.TLS, TLSHandshakeTimeout: dialFor, ForceAttemptHTTP2: true, DisableCompression: true,
			MaxIdleConns: idleTotal, MaxIdleConnsPerHost: idlePerHost, IdleConnTimeout: idleFor, MaxResponseHeaderBytes: maxHeader,
		},
	}
}

// Close closes idle connections.
func (p *Poster) Close() { p.transport.CloseIdleConnections() }

// Post implements webhooks.Poster. Redirects are answers like any other.
func (p *Poster) Post(ctx context.Context, post webhooks.Post) webhooks.PostResult {
	bounded, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(bounded, http.MethodPost, post.URL, bytes.NewReader(post.Body))
	if err != nil {
		return webhooks.PostResult{Error: "the address is not valid"}
	}
	request.Header = http.Header{
		"Content-Type": {"application/json"}, "User-Agent": p.agent, "Webhook-Id": {post.ID},
		"Webhook-Timestamp": {strconv.FormatInt(post.At.Unix(), 10)}, "Webhook-Signature": {post.Signature},
	}
	began := time.Now()
	response, err := p.transport.RoundTrip(request)
	took := time.Since(began)
	if err != nil {
		posted := webhooks.PostResult{Latency: took, Error: p.describe(err), TimedOut: errors.Is(err, context.DeadlineExceeded) || timedOut(err)}
		posted.Canceled = ctx.Err() != nil
		return posted
	}
	drain(response, cancel)
	posted := webhooks.PostResult{Status: response.StatusCode, Latency: took, RetryAfter: response.Header.Get("Retry-After")}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		posted.Error = fmt.Sprintf("the receiver answered %d", response.StatusCode)
		if response.StatusCode >= 300 && response.StatusCode < 400 {
			posted.Error += ": redirects are not followed"
		}
	}
	return posted
}

// drain reads a short body to its end, and aborts a long or slow one.
func drain(response *http.Response, cancel context.CancelFunc) {
	late := time.AfterFunc(drainFor, cancel)
	defer late.Stop()
	if n, err := io.Copy(io.Discard, io.LimitReader(response.Body, maxDrain+1)); err != nil || n > maxDrain {
		cancel() // before Close, which would go on reading over HTTP/2
	}
	_ = response.Body.Close()
}
