package app

import (
	"io"
	"net"
	"net/url"
	"sync"

	"github.com/stretchr/testify/require"
)

// proxy forwards TCP connections between a node and its database. After cutAll, the node's leases and unfinished work
// stay in the database as they are, and the node can no longer change anything: for the other nodes, its process was
// killed.
type proxy struct {
	listener net.Listener
	target   string

	mu          sync.Mutex
	cut         bool
	connections []net.Conn
}

// newProxy starts a proxy to the database and returns it with the database address that leads through it.
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
		far, err := net.Dial("tcp", c.target) //nolint:noctx // open until the proxy is cut
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

// keep registers both connections for cutAll. It closes them and returns false if cutAll was called already.
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

// cutAll closes all connections and accepts no more.
func (c *proxy) cutAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
	_ = c.listener.Close()
	for _, end := range c.connections {
		_ = end.Close()
	}
}
