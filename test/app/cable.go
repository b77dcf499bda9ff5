package app

import (
	"io"
	"net"
	"net/url"
	"sync"

	"github.com/stretchr/testify/require"
)

// cable is all that lies between a node and its database, so that it can be cut: what the node was doing then stays as it
// is, with its leases, and nothing that it does later reaches anything. To the others that is a process that was killed.
type cable struct {
	listener net.Listener
	to       string

	mu   sync.Mutex
	cut  bool
	ends []net.Conn
}

// lay gives the address of the database at the near end of a new cable.
func (a *App) lay() (*cable, string) {
	a.t.Helper()
	address, err := url.Parse(a.DSN)
	require.NoError(a.t, err)
	c := &cable{to: address.Host}
	c.listener, err = (&net.ListenConfig{}).Listen(a.t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(a.t, err)
	address.Host = c.listener.Addr().String()
	go c.serve()
	return c, address.String()
}

func (c *cable) serve() {
	for {
		near, err := c.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", c.to) //nolint:noctx // as long as the cable
		if err != nil {
			_ = near.Close()
			continue
		}
		if !c.hold(near, far) {
			return
		}
		go pour(near, far)
		go pour(far, near)
	}
}

func pour(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
	_ = from.Close()
}

// hold keeps both ends for the cut; false when that was made already.
func (c *cable) hold(ends ...net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		for _, end := range ends {
			_ = end.Close()
		}
		return false
	}
	c.ends = append(c.ends, ends...)
	return true
}

// sever cuts the cable for good.
func (c *cable) sever() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
	_ = c.listener.Close()
	for _, end := range c.ends {
		_ = end.Close()
	}
}
