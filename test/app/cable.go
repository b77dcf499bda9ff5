package app

import (
	"io"
	"net"
	"net/url"
	"sync"

	"github.com/stretchr/testify/require"
)

// cable is all that lies between a node and its database, so that it can be cut: what the node was doing then stays as
// it is, with its leases, and nothing that it does later reaches anything. To the others that is a process that was
// killed.
type proxy struct {
	listener net.Listener
	target   string

	mu          sync.Mutex
	cut         bool
	connections []net.Conn
}

// lay gives the address of the database at the near end of a new cable.
func (a *App) newProxy() (*proxy, string) {
	a.t.Helper()
	address, err := url.Parse(a.DSN)
	require.NoError(a.t, err)
	c := &proxy{target: address.Host}
	c.listener, err = (&net.ListenConfig{}).Listen(a.t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(a.t, err)
	address.Host = c.listener.Addr().String()
	go c.serve()
	return c, address.String()
}

func (c *proxy) serve() {
	for {
		near, err := c.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", c.target) //nolint:noctx // as long as the cable
		if err != nil {
			_ = near.Close()
			continue
		}
		if !c.keep(near, far) {
			return
		}
		go copyBytes(near, far)
		go copyBytes(far, near)
	}
}

func copyBytes(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
	_ = from.Close()
}

// hold keeps both ends for the cut; false when that was made already.
func (c *proxy) keep(ends ...net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		for _, end := range ends {
			_ = end.Close()
		}
		return false
	}
	c.connections = append(c.connections, ends...)
	return true
}

// sever cuts the cable for good.
func (c *proxy) cutAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
	_ = c.listener.Close()
	for _, end := range c.connections {
		_ = end.Close()
	}
}
