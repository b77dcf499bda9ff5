// Package outward makes HTTP clients for addresses that customers name. A name can resolve to any address, so the
// address is checked when it is dialled: private machines cannot be reached.
package outward

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// ErrInside is the error of a host without an address on the public internet. It is the same for an address that is
// refused and for a name that does not exist: the difference would tell which names the internal network has.
var ErrInside = errors.New("outward: this host has no address on the public internet")

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
	return &http.Client{
		Timeout: cfg.Timeout,
		Transport: &http.Transport{
			DialContext: Dial(dialer, cfg.Inside), ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second,
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

// Dial returns the dialling function of dialer. Unless inside is true, it returns exactly ErrInside for a host that has
// no address on the public internet.
func Dial(dialer *net.Dialer, inside bool) func(ctx context.Context, network, address string) (net.Conn, error) {
	if inside {
		return dialer.DialContext
	}
	guarded := *dialer
	guarded.Control = outside
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := guarded.DialContext(ctx, network, address)
		unknown := (*net.DNSError)(nil)
		if errors.Is(err, ErrInside) || errors.As(err, &unknown) && unknown.IsNotFound {
			return nil, ErrInside
		}
		return conn, err //nolint:wrapcheck // callers look into it
	}
}

// outside returns ErrInside for an address that is not on the public internet. net.Dialer calls it with every address
// that is about to be dialled.
func outside(network, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp4" && network != "tcp6" || !Public(at.Addr()) {
		return ErrInside
	}
	return nil
}

// unicast6 are the IPv6 addresses that are assigned to the public internet. All others are inside: local ones,
// multicast, and those that hold an IPv4 address (::/96, 64:ff9b::/96).
var unicast6 = netip.MustParsePrefix("2000::/3")

// reserved are the networks that are not on the public internet and for which netip has no method. IPv6 networks
// outside of unicast6 need no entry.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),       // this network
	netip.MustParsePrefix("100.64.0.0/10"),   // shared by the customers of a network provider
	netip.MustParsePrefix("192.0.0.0/24"),    // protocol assignments
	netip.MustParsePrefix("192.0.2.0/24"),    // documentation
	netip.MustParsePrefix("192.88.99.0/24"),  // relays of 6to4
	netip.MustParsePrefix("198.18.0.0/15"),   // measurements
	netip.MustParsePrefix("198.51.100.0/24"), // documentation
	netip.MustParsePrefix("203.0.113.0/24"),  // documentation
	netip.MustParsePrefix("240.0.0.0/4"),     // reserved for future use, and broadcast
	netip.MustParsePrefix("2001::/23"),       // protocol assignments, Teredo among them
	netip.MustParsePrefix("2001:db8::/32"),   // documentation
	netip.MustParsePrefix("2002::/16"),       // 6to4: an IPv4 address within
	netip.MustParsePrefix("2620:4f:8000::/48"),
	netip.MustParsePrefix("3ffe::/16"), // the former 6bone
	netip.MustParsePrefix("3fff::/20"), // documentation
}

// Public reports whether an address is on the public internet: not private, loopback, link-local, multicast or
// reserved.
func Public(at netip.Addr) bool {
	at = at.Unmap().WithZone("")
	if !at.IsGlobalUnicast() || at.IsPrivate() || at.Is6() && (!unicast6.Contains(at) || isISATAP(at)) {
		return false
	}
	for _, network := range reserved {
		if network.Contains(at) {
			return false
		}
	}
	return true
}

// isISATAP reports whether an IPv6 address holds an IPv4 address in the form of RFC 5214: its interface identifier
// begins with 0:5efe or 200:5efe.
func isISATAP(at netip.Addr) bool {
	b := at.As16()
	return b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}
