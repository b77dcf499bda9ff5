// Package poster posts webhooks to addresses that users name. It trusts none of them: where a connection goes is checked
// when it is dialled, after the name was resolved, and an answer is read only as far as it is of use.
package poster

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"ledgerline/adapters/outward"
	"ledgerline/processes/webhooks"
)

// Config says how to post. Zero values are filled in where a default is stated.
type Config struct {
	// Inside lets connections go to private, loopback and link-local addresses too.
	Inside bool
	// TLS is for tests; nil: what the system trusts.
	TLS *tls.Config
	// Resolver is for tests; nil: the system's.
	Resolver *net.Resolver
	// Timeout is how long an attempt may take from its beginning to the answer's header; default 15 s. It is real time.
	Timeout   time.Duration
	UserAgent string // default: Ledgerline-Webhooks/1
}

// Poster implements webhooks.Poster. Connections are kept and used again, a few for each receiver.
type Poster struct {
	transport *http.Transport
	timeout   time.Duration
	agent     []string
}

const (
	// maxHeader bounds the header of an answer, in bytes.
	maxHeader = 64 << 10
	// maxDrain is how much of a body is read away so that the connection can be used again. Of a longer one nothing more is
	// read, and the connection is closed.
	maxDrain = 16 << 10
	// drainFor bounds that reading: a receiver has answered with its header, and may not hold us up with its body.
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
	if !cfg.Inside {
		dialer.Control = outward.Outside
	}
	return &Poster{
		timeout: cfg.Timeout, agent: []string{cfg.UserAgent},
		transport: &http.Transport{
			// No proxy: it would dial in our place, and not be guarded.
			DialContext: dialer.DialContext, TLSClientConfig: cfg.TLS, TLSHandshakeTimeout: dialFor, ForceAttemptHTTP2: true, DisableCompression: true,
			MaxIdleConns: idleTotal, MaxIdleConnsPerHost: idlePerHost, IdleConnTimeout: idleFor, MaxResponseHeaderBytes: maxHeader,
		},
	}
}

// Close gives up the connections that wait to be used again.
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
		posted := webhooks.PostResult{Latency: took, Error: p.describe(err)}
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

// drain reads a short body away and breaks a long or slow one off.
func drain(response *http.Response, cancel context.CancelFunc) {
	late := time.AfterFunc(drainFor, cancel)
	defer late.Stop()
	if n, err := io.Copy(io.Discard, io.LimitReader(response.Body, maxDrain+1)); err != nil || n > maxDrain {
		cancel() // before Close, which would otherwise read on over HTTP/2
	}
	_ = response.Body.Close()
}
