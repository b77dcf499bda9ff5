package apikey_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/apikey"
	"ledgerline/domain/fault"
	"ledgerline/events"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestSecretHasItsFormAndProvesWhichInstallationMadeIt(t *testing.T) {
	t.Parallel()
	random := [apikey.RandomBytes]byte{1, 2, 3}
	secret := apikey.NewSecret(apikey.Live, random, []byte("ours"))
	require.Regexp(t, `^ll_live_[a-z2-7]{8}[a-z2-7]{32}[a-z2-7]{8}$`, secret)
	require.Equal(t, secret[8:16], apikey.Prefix(secret))
	require.True(t, apikey.IsGenuine(secret, []byte("ours")))
	require.False(t, apikey.IsGenuine(secret, []byte("theirs")))
	for i := range secret {
		changed := []byte(secret)
		changed[i] ^= 1
		require.False(t, apikey.IsGenuine(string(changed), []byte("ours")), i)
		require.False(t, apikey.IsGenuine(secret[:i], []byte("ours")), i)
	}
	require.True(t, apikey.Key{SecretHash: apikey.Hash(secret)}.MatchesSecret(secret))
	require.False(t, apikey.Key{SecretHash: apikey.Hash(secret)}.MatchesSecret(secret+"a"))
}

func TestKeyProblemsAreReportedTogether(t *testing.T) {
	t.Parallel()
	_, err := apikey.Create(events.APIKeyCreated{Scopes: []string{"root"}, IPAllowlist: []string{"10.0.0.1", "10.0.0.0/33", "x"}, ExpiresAt: &noon}, nil, noon)
	var paths []string
	for _, i := range fault.Of(err).Issues {
		paths = append(paths, i.Path)
	}
	require.Equal(t, []string{"/name", "/env", "/scopes/0", "/ip_allowlist/1", "/ip_allowlist/2", "/expires_at"}, paths)
	made, err := apikey.Create(events.APIKeyCreated{KeyID: "key_1", Name: "k", Env: "live", Scopes: []string{"send", "read", "send"}}, nil, noon)
	require.NoError(t, err)
	require.Equal(t, []apikey.Scope{apikey.Read, apikey.Send}, apikey.Key{}.Apply(made[0], events.Envelope{}).Scopes)
}

func TestAllowlistCoversAddressesAndCIDRBlocks(t *testing.T) {
	t.Parallel()
	k := apikey.Key{IPAllowlist: []string{"192.0.2.7", "10.0.0.0/8", "2001:db8::/32", "::ffff:198.51.100.0/120"}}
	for ip, want := range map[string]bool{
		"192.0.2.7": true, "::ffff:192.0.2.7": true, "192.0.2.8": false, "10.200.1.1": true, "11.0.0.1": false,
		"2001:db8::1": true, "2001:db9::1": false, "198.51.100.9": true, "198.51.101.9": false, "": false, "x": false, "fe80::1%eth0": false,
	} {
		require.Equal(t, want, k.AllowsIP(ip), ip)
	}
	require.True(t, apikey.Key{}.AllowsIP("anything"))
}

func TestKeyIsUsableUntilItExpiresOrIsRevoked(t *testing.T) {
	t.Parallel()
	k := apikey.Key{ID: "key_1", ExpiresAt: &noon}
	require.True(t, k.Usable(noon.Add(-1)))
	require.False(t, k.Usable(noon))
	k.ExpiresAt = nil
	require.True(t, k.Usable(noon))
	revoked := k.Revoke()
	require.Len(t, revoked, 1)
	k = k.Apply(revoked[0], events.Envelope{})
	require.False(t, k.Usable(noon))
	require.Empty(t, k.Revoke())
	require.False(t, apikey.Key{}.Usable(noon))
}

func TestScopeAdminDoesNotIncludeRead(t *testing.T) {
	t.Parallel()
	require.False(t, apikey.Key{Scopes: []apikey.Scope{apikey.Admin}}.HasScope(apikey.Read))
}
