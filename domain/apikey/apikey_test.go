package apikey_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/apikey"
	"ledgerline/domain/fault"
	"ledgerline/events"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestOnlyTheInstallationThatIssuedASecretRecognisesIt(t *testing.T) {
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
	revoked, err := k.Revoke(nil)
	require.NoError(t, err)
	require.Len(t, revoked, 1)
	k = k.Apply(revoked[0], events.Envelope{})
	require.False(t, k.Usable(noon))
	again, err := k.Revoke(nil)
	require.NoError(t, err)
	require.Empty(t, again)
	require.False(t, apikey.Key{}.Usable(noon))
}

func TestScopeAdminDoesNotIncludeRead(t *testing.T) {
	t.Parallel()
	require.False(t, apikey.Key{Scopes: []apikey.Scope{apikey.Admin}}.HasScope(apikey.Read))
}

func TestNewCredentialHasTheLimitsOfItsCreatorOrNarrowerOnes(t *testing.T) {
	t.Parallel()
	later, sooner := noon.Add(2*time.Hour), noon.Add(time.Hour)
	all := []apikey.Scope{apikey.Read}
	limited := &apikey.Grantor{Scopes: all, Allowlist: []string{"192.0.2.0/24", "2001:db8::/32"}, ExpiresAt: &sooner}
	create := func(by *apikey.Grantor, allowlist []string, expires *time.Time) (apikey.Key, error) {
		made, err := apikey.Create(events.APIKeyCreated{
			KeyID: "key_1", Name: "k", Env: "live", Scopes: []string{"read"}, IPAllowlist: allowlist, ExpiresAt: expires,
		}, by, noon)
		if err != nil {
			return apikey.Key{}, err
		}
		return apikey.Key{}.Apply(made[0], events.Envelope{}), nil
	}
	inherited, err := create(limited, nil, nil)
	require.NoError(t, err)
	require.Equal(t, limited.Allowlist, inherited.IPAllowlist)
	require.Equal(t, &sooner, inherited.ExpiresAt)
	half := noon.Add(time.Minute)
	narrower, err := create(limited, []string{"192.0.2.7", "::ffff:192.0.2.128/121", "2001:db8:1::/48"}, &half)
	require.NoError(t, err)
	require.Equal(t, &half, narrower.ExpiresAt)
	for _, wider := range [][]string{{"192.0.2.0/23"}, {"0.0.0.0/0"}, {"::/0"}, {"192.0.2.1", "198.51.100.1"}, {"2001:db9::1"}} {
		_, err := create(limited, wider, nil)
		require.True(t, fault.Is(err, fault.Forbidden), wider)
	}
	_, err = create(limited, nil, &later)
	require.True(t, fault.Is(err, fault.Forbidden))
	free, err := create(&apikey.Grantor{Scopes: all}, nil, nil)
	require.NoError(t, err)
	require.Empty(t, free.IPAllowlist)

	for k, may := range map[*apikey.Key]bool{&inherited: true, &narrower: true, &free: false} {
		_, err := k.Rotate("p", "h", limited, noon)
		require.Equal(t, may, err == nil)
	}
}

func TestTestKeyRevokesNoLiveKeyAndAnIdentityRevokesOnlyItsOwnToken(t *testing.T) {
	t.Parallel()
	id := uuid.New()
	live, sandbox, token := apikey.Key{ID: "key_1", Env: apikey.Live}, apikey.Key{ID: "key_2", Env: apikey.Test}, apikey.Key{ID: "key_3", Env: apikey.Live, Identity: id}
	for _, c := range []struct {
		by  *apikey.Grantor
		key apikey.Key
		may bool
	}{
		{&apikey.Grantor{Test: true}, live, false}, {&apikey.Grantor{Test: true}, token, false}, {&apikey.Grantor{Test: true}, sandbox, true},
		{&apikey.Grantor{}, live, true}, {&apikey.Grantor{Identity: id}, token, true}, {&apikey.Grantor{Identity: id}, live, false}, {nil, live, true},
	} {
		_, err := c.key.Revoke(c.by)
		require.Equal(t, c.may, err == nil)
		if err != nil {
			require.True(t, fault.Is(err, fault.Forbidden))
		}
	}
}
