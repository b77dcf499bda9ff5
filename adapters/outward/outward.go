// Package outward makes HTTP clients for addresses that customers name. A name can resolve to any address, so the
// address is checked when it is dialled: private machines cannot be reached.
package outward

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// ErrInside is the error of an address that is not on the public internet.
var ErrInside = errors.New("outward: this address is not on the public internet")

// Config configures a client. A zero value is replaced by the default where one is stated.
type Config struct {
	// Inside allows private, loopback and link-local addresses: for development, and where the operator wants it.
	Inside    bool
	Timeout   time.Duration // for the whole request, with the body; default 30 s
	Redirects int           // how many are followed; default none
}

// errRedirects ends a request that was redirected too often.
var errRedirects = errors.New("outward: too many redirects")

// Client makes a client. It uses no proxy: the addresses that a proxy dials could not be checked.
func Client(cfg Config) *http.Client {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 30 * time.Second
	}
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	if !cfg.Inside {
		dialer.Control = Outside
	}
	return &http.Client{
		Timeout: cfg.Timeout,
		Transport: &http.Transport{
			DialContext: dialer.DialContext, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second,
			ResponseHeaderTimeout: cfg.Timeout, MaxIdleConns: 100, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(_ *http.Request, via []*http.Request) error {
			switch {
			case cfg.Redirects == 0:
				return http.ErrUseLastResponse
			case len(via) > cfg.Redirects:
				return errRedirects
			}
			return nil
		},
	}
}

// Outside returns ErrInside for an address that is not on the public internet. It is a Control function of net.Dialer,
// which calls it with every address that is about to be dialled.
func Outside(network, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp4" && network != "tcp6" {
		return fmt.Errorf("%w", ErrInside)
	}
	if !Public(at.Addr()) {
		return ErrInside
	}
	return nil
}

// reserved are the networks that are not on the public internet and for which netip has no method.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),       // this network
	netip.MustParsePrefix("100.64.0.0/10"),   // shared by the customers of a network provider
	netip.MustParsePrefix("192.0.0.0/24"),    // protocol assignments
	netip.MustParsePrefix("192.0.2.0/24"),    // documentation
	netip.MustParsePrefix("198.18.0.0/15"),   // measurements
	netip.MustParsePrefix("198.51.100.0/24"), // documentation
	netip.MustParsePrefix("203.0.113.0/24"),  // documentation
	netip.MustParsePrefix("240.0.0.0/4"),     // kept, and broadcast
	netip.MustParsePrefix("64:ff9b::/96"),    // an IPv4 address within
	netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("100::/64"),
	netip.MustParsePrefix("2001::/23"), // Teredo among them
	netip.MustParsePrefix("2001:db8::/32"),
	netip.MustParsePrefix("2002::/16"), // an IPv4 address within
	netip.MustParsePrefix("fec0::/10"),
	netip.MustParsePrefix("::/96"), // an IPv4 address within
	netip.MustParsePrefix("3fff::/20"),
	netip.MustParsePrefix("5f00::/16"),
	netip.MustParsePrefix("192.88.99.0/24"),
}

// Public reports whether an address is on the public internet: not private, loopback, link-local, multicast or
// reserved.
func Public(at netip.Addr) bool {
	at = at.Unmap().WithZone("")
	if !at.IsGlobalUnicast() || at.IsPrivate() {
		return false
	}
	for _, network := range reserved {
		if network.Contains(at) {
			return false
		}
	}
	return true
}
