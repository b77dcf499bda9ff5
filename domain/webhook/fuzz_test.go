package webhook_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/webhook"
)

// FuzzURLs checks that an address that is accepted can be requested, by https only, and carries no credentials.
func FuzzURLs(f *testing.F) {
	for _, seed := range []string{
		"https://example.com/hook", "https://u:p@example.com", "https://[::1]:8443/x?y#z", "https:example.com", "https:///x", "http://example.com", "https://a b/",
		"https://example.com:99999/", "//example.com", "https://exa\tmple.com/", "https://[fe80::1%25eth0]/", "HTTPS://EXAMPLE.COM", "https://\u2024.com/%zz",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, address string) {
		if len(webhook.CheckURL(address, false)) > 0 {
			t.Skip()
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, http.NoBody)
		require.NoError(t, err)
		require.Equal(t, "https", request.URL.Scheme)
		require.NotEmpty(t, request.URL.Hostname())
		require.Nil(t, request.URL.User)
		again, err := url.Parse(request.URL.String())
		require.NoError(t, err)
		require.Equal(t, request.URL.Host, again.Host)
	})
}
