package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// silenceLimit is how long a connection of processes and projections to the database may be silent while an answer is
// due. No statement takes longer: statement_timeout ends it before. So a connection that is silent for longer is
// lost, even if everything below it still acknowledges packets, as a proxy or a frozen server does.
const silenceLimit = 10 * time.Second

// errSilent is the error of a connection that was silent for too long. It is no timeout of the caller's.
var errSilent = fmt.Errorf("the database is silent: %w", net.ErrClosed)

// dialer connects to the database over connections that end when the database is gone: when it acknowledges nothing
// (deadAfter), does not answer probes while idle (keepAlive), or is silent while an answer is due (limit).
func dialer(limit time.Duration) func(context.Context, string, string) (net.Conn, error) {
	tcp := &net.Dialer{KeepAliveConfig: keepAlive, Control: setUserTimeout}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := tcp.DialContext(ctx, network, address)
		if err != nil || limit <= 0 {
			return conn, err
		}
		return &bounded{Conn: conn, limit: limit}, nil
	}
}

// bounded is a connection whose reads and writes fail with errSilent after limit. A deadline that the user of the
// connection sets has priority.
type bounded struct {
	net.Conn
	limit time.Duration

	mu       sync.Mutex
	deadline time.Time // set by the user of the connection; zero: none
}

// extend moves the own deadline.
func (b *bounded) extend() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.deadline.IsZero() {
		_ = b.Conn.SetDeadline(time.Now().Add(b.limit))
	}
}

// result turns the own deadline into errSilent.
func (b *bounded) result(err error) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.deadline.IsZero() {
		return errSilent
	}
	return err
}

// Read implements net.Conn.
func (b *bounded) Read(p []byte) (int, error) {
	b.extend()
	n, err := b.Conn.Read(p)
	return n, b.result(err)
}

// Write implements net.Conn.
func (b *bounded) Write(p []byte) (int, error) {
	b.extend()
	n, err := b.Conn.Write(p)
	return n, b.result(err)
}

// SetDeadline implements net.Conn.
func (b *bounded) SetDeadline(t time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deadline = t
	if t.IsZero() {
		t = time.Now().Add(b.limit)
	}
	return b.Conn.SetDeadline(t)
}
