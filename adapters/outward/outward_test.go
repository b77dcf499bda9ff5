package outward_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/adapters/outward"
)

func TestPrivateAndReservedAddressesAreNotPublic(t *testing.T) {
	t.Parallel()
	for _, inside := range []string{
		"127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "255.255.255.255", "224.0.0.1",
		"::1", "::", "fe80::1", "fd00::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::1", "fe80::1%eth0", "192.0.2.1",
		"::7f00:1", "3fff::1", "3ffe::1", "4000::1", "1fff::1", "5f00::1", "fec0::1", "100::1", "64:ff9b:1::1", "2001:db8::1", "2001:10::1", "2001:20::1",
		"2606:4700::5efe:a00:1", "2606:4700::200:5efe:a00:1", "2620:4f:8000::1", "::ffff:0:10.0.0.1", "2001:0:a00:1::1", "192.88.99.1",
	} {
		require.False(t, outward.Public(netip.MustParseAddr(inside)), inside)
	}
	for _, public := range []string{"8.8.8.8", "172.32.0.1", "2606:4700::1111", "2a00:1450:4001::1", "2000::1", "2001:200::1", "3ffd::1", "::ffff:8.8.8.8"} {
		require.True(t, outward.Public(netip.MustParseAddr(public)), public)
	}
}

func TestAPrivateAddressIsRefusedWhenItIsDialled(t *testing.T) {
	t.Parallel()
	reached := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	require.NoError(t, err)
	port := at.Port()
	for _, address := range []string{server.URL, "http://localhost:" + port, "http://[::ffff:127.0.0.1]:" + port} {
		response, err := outward.Client(outward.Config{}).Get(address)
		if err == nil {
			_ = response.Body.Close()
		}
		require.ErrorIs(t, err, outward.ErrInside, address)
	}
	require.Zero(t, reached)
	response, err := outward.Client(outward.Config{Inside: true}).Get(server.URL)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, 1, reached)
}

func TestNoMoreRedirectsAreFollowedThanAllowed(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/c" {
			http.Redirect(w, r, string(r.URL.Path[0])+string(r.URL.Path[1]+1), http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, "there")
	}))
	t.Cleanup(server.Close)
	get := func(follow int) (int, error) {
		response, err := outward.Client(outward.Config{Inside: true, Redirects: follow}).Get(server.URL + "/a")
		if err != nil {
			return 0, err
		}
		return response.StatusCode, response.Body.Close()
	}
	status, err := get(0)
	require.NoError(t, err)
	require.Equal(t, http.StatusFound, status)
	_, err = get(1)
	require.Error(t, err)
	status, err = get(2)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
}

func TestEveryRefusedAddressHasTheSameError(t *testing.T) {
	t.Parallel()
	dial := outward.Dial(&net.Dialer{}, false)
	var refusals []error
	for _, address := range []string{"127.0.0.1:1", "10.0.0.1:443", "[fd00::1]:443", "[::ffff:169.254.169.254]:80"} {
		_, err := dial(t.Context(), "tcp", address)
		refusals = append(refusals, err)
	}
	for _, refusal := range refusals {
		require.Equal(t, outward.ErrInside, refusal)
	}
}
