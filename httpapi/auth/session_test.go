package auth_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/clock"
	"ledgerline/domain/fault"
	"ledgerline/httpapi/auth"
)

var (
	someUser = uuid.MustParse("01920f6c-b6f1-7c40-a8b1-f7c9d3f0a2b7")
	today    = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	secret   = []byte("a session secret of 32 bytes or more")
)

func sessions(change func(*auth.SessionConfig)) auth.SessionConfig {
	cfg := auth.SessionConfig{Issuer: "https://id.example.com", Audience: "ledgerline", Secret: secret, Clock: clock.Frozen(today)}
	if change != nil {
		change(&cfg)
	}
	return cfg
}

func goodClaims() jwt.MapClaims {
	return jwt.MapClaims{
		"iss": "https://id.example.com", "aud": "ledgerline", "sub": someUser.String(),
		"iat": today.Unix(), "exp": today.Add(time.Hour).Unix(),
	}
}

func signed(t *testing.T, method jwt.SigningMethod, key any, kid string, change jwt.MapClaims) string {
	t.Helper()
	claims := goodClaims()
	for name, value := range change {
		if value == nil {
			delete(claims, name)
			continue
		}
		claims[name] = value
	}
	token := jwt.NewWithClaims(method, claims)
	if kid != "" {
		token.Header["kid"] = kid
	}
	text, err := token.SignedString(key)
	require.NoError(t, err)
	return text
}

func verifier(t *testing.T, cfg auth.SessionConfig) *auth.SessionVerifier {
	t.Helper()
	v, err := auth.NewSessionVerifier(cfg)
	require.NoError(t, err)
	return v
}

func accepted(t *testing.T, v *auth.SessionVerifier, token string) {
	t.Helper()
	session, err := v.Verify(t.Context(), token)
	require.NoError(t, err)
	require.Equal(t, someUser, session.User)
}

func notAccepted(t *testing.T, v *auth.SessionVerifier, token string) {
	t.Helper()
	_, err := v.Verify(t.Context(), token)
	require.True(t, fault.Is(err, fault.Unauthorized), "%v", err)
}

func TestSessionTokenNamesItsUser(t *testing.T) {
	t.Parallel()
	cfg := sessions(nil)
	token, err := auth.SignSession(cfg, someUser, time.Hour)
	require.NoError(t, err)
	accepted(t, verifier(t, cfg), token)
	_, err = auth.SignSession(cfg, someUser, 25*time.Hour)
	require.Error(t, err)
	longest, err := auth.SignSession(cfg, someUser, 24*time.Hour)
	require.NoError(t, err)
	accepted(t, verifier(t, cfg), longest)
}

func TestOnlyALongLivedTokenIsValidForMoreThanADay(t *testing.T) {
	t.Parallel()
	cfg := sessions(nil)
	longLived := cfg
	longLived.LongLivedTokenID = "dev.json"
	token, err := auth.SignSession(longLived, someUser, 1000*time.Hour)
	require.NoError(t, err)
	accepted(t, verifier(t, longLived), token)
	notAccepted(t, verifier(t, cfg), token)
	month := jwt.MapClaims{"exp": today.Add(1000 * time.Hour).Unix()}
	notAccepted(t, verifier(t, longLived), signed(t, jwt.SigningMethodHS256, secret, "", month))
}

func TestSessionTokenWithWrongClaimsIsRefused(t *testing.T) {
	t.Parallel()
	v := verifier(t, sessions(nil))
	hs := jwt.SigningMethodHS256
	accepted(t, v, signed(t, hs, secret, "", nil))
	accepted(t, v, signed(t, hs, secret, "any", jwt.MapClaims{"iat": nil, "aud": []string{"x", "ledgerline"}, "role": "owner"}))
	for name, change := range map[string]jwt.MapClaims{
		"another issuer": {"iss": "https://evil.example.com"}, "no issuer": {"iss": nil}, "another audience": {"aud": "other"}, "no audience": {"aud": nil},
		"no expiry": {"exp": nil}, "expired": {"exp": today.Unix()}, "too long from now": {"exp": today.Add(24*time.Hour + time.Second).Unix()},
		"valid for more than a day": {"iat": today.Add(-23 * time.Hour).Unix(), "exp": today.Add(2 * time.Hour).Unix()},
		"not valid yet":             {"nbf": today.Add(time.Minute).Unix()}, "no subject": {"sub": nil}, "a subject that is not a uuid": {"sub": "ann"},
		"nil uuid": {"sub": uuid.Nil.String()}, "an odd uuid": {"sub": "{" + someUser.String() + "}"}, "expiry as text": {"exp": "tomorrow"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			notAccepted(t, v, signed(t, hs, secret, "", change))
		})
	}
	for _, nonsense := range []string{"", "a", "a.b.c", "ll_live_abcdefgh", "....", "e30.e30."} {
		notAccepted(t, v, nonsense)
	}
}

type keyRing struct {
	ed  ed25519.PrivateKey
	ec  *ecdsa.PrivateKey
	rsa *rsa.PrivateKey
}

func newKeyRing(t *testing.T) keyRing {
	t.Helper()
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	return keyRing{ed, ec, rs}
}

func jwks(t *testing.T, keys ...jose.JSONWebKey) []byte {
	t.Helper()
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	require.NoError(t, err)
	return set
}

func (r keyRing) set() []jose.JSONWebKey {
	return []jose.JSONWebKey{
		{Key: r.ed.Public(), KeyID: "ed", Algorithm: "EdDSA", Use: "sig"}, {Key: r.ec.Public(), KeyID: "ec"}, {Key: r.rsa.Public(), KeyID: "rsa", Use: "sig"},
		{Key: []byte("a symmetric key has no place here"), KeyID: "oct"}, {Key: r.ec.Public(), KeyID: "enc", Use: "enc"},
	}
}

func TestAsymmetricTokensAreVerifiedWithTheJWKS(t *testing.T) {
	t.Parallel()
	r := newKeyRing(t)
	file := filepath.Join(t.TempDir(), "jwks.json")
	require.NoError(t, os.WriteFile(file, jwks(t, r.set()...), 0o600))
	v := verifier(t, sessions(func(c *auth.SessionConfig) { c.JWKSFile, c.Secret = file, nil }))
	accepted(t, v, signed(t, jwt.SigningMethodEdDSA, r.ed, "ed", nil))
	accepted(t, v, signed(t, jwt.SigningMethodES256, r.ec, "ec", nil))
	accepted(t, v, signed(t, jwt.SigningMethodRS256, r.rsa, "rsa", nil))
	accepted(t, v, signed(t, jwt.SigningMethodRS256, r.rsa, "", nil))

	notAccepted(t, v, signed(t, jwt.SigningMethodRS256, r.rsa, "ed", nil))
	notAccepted(t, v, signed(t, jwt.SigningMethodRS256, r.rsa, "unknown", nil))
	notAccepted(t, v, signed(t, jwt.SigningMethodES256, r.ec, "enc", nil))
	notAccepted(t, v, signed(t, jwt.SigningMethodRS512, r.rsa, "rsa", nil))
	notAccepted(t, v, signed(t, jwt.SigningMethodPS256, r.rsa, "rsa", nil))
	stranger := newKeyRing(t)
	notAccepted(t, v, signed(t, jwt.SigningMethodEdDSA, stranger.ed, "ed", nil))
}

func TestAlgorithmNoneAndMismatchOfKeyAndAlgorithmAreRefused(t *testing.T) {
	t.Parallel()
	r := newKeyRing(t)
	file := filepath.Join(t.TempDir(), "jwks.json")
	require.NoError(t, os.WriteFile(file, jwks(t, r.set()...), 0o600))
	both := verifier(t, sessions(func(c *auth.SessionConfig) { c.JWKSFile = file }))
	notAccepted(t, both, signed(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "rsa", nil))
	public, err := x509.MarshalPKIXPublicKey(r.rsa.Public())
	require.NoError(t, err)
	for _, confused := range [][]byte{public, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), []byte("a symmetric key has no place here")} {
		notAccepted(t, both, signed(t, jwt.SigningMethodHS256, confused, "rsa", nil))
		notAccepted(t, both, signed(t, jwt.SigningMethodHS256, confused, "oct", nil))
	}
	notAccepted(t, both, signed(t, jwt.SigningMethodHS512, secret, "", nil))
	accepted(t, both, signed(t, jwt.SigningMethodHS256, secret, "", nil))
	onlyKeys := verifier(t, sessions(func(c *auth.SessionConfig) { c.JWKSFile, c.Secret = file, nil }))
	notAccepted(t, onlyKeys, signed(t, jwt.SigningMethodHS256, secret, "", nil))
	onlySecret := verifier(t, sessions(nil))
	notAccepted(t, onlySecret, signed(t, jwt.SigningMethodEdDSA, r.ed, "ed", nil))
}

func TestJWKSIsCachedAndFetchedAgainForAnUnknownKey(t *testing.T) {
	t.Parallel()
	r := newKeyRing(t)
	var fetched atomic.Int64
	var set atomic.Pointer[[]byte]
	first := jwks(t, jose.JSONWebKey{Key: r.ed.Public(), KeyID: "ed"})
	set.Store(&first)
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetched.Add(1)
		_, _ = w.Write(*set.Load())
	}))
	t.Cleanup(provider.Close)
	moved := clock.Frozen(today)
	v := verifier(t, sessions(func(c *auth.SessionConfig) { c.JWKSURL, c.Clock = provider.URL, moved }))
	require.EqualValues(t, 0, fetched.Load(), "the service starts without its identity provider")
	for range 5 {
		accepted(t, v, signed(t, jwt.SigningMethodEdDSA, r.ed, "ed", nil))
	}
	require.EqualValues(t, 1, fetched.Load())
	second := jwks(t, jose.JSONWebKey{Key: r.ec.Public(), KeyID: "ec"})
	set.Store(&second)
	accepted(t, v, signed(t, jwt.SigningMethodES256, r.ec, "ec", nil))
	require.EqualValues(t, 2, fetched.Load())
	for range 20 {
		notAccepted(t, v, signed(t, jwt.SigningMethodES256, r.ec, "made up", nil))
	}
	require.EqualValues(t, 2, fetched.Load(), "unknown keys do not cause a fetch per token")
	notAccepted(t, v, signed(t, jwt.SigningMethodEdDSA, r.ed, "ed", nil))
}

func TestJWKSThatCannotBeFetchedIs503(t *testing.T) {
	t.Parallel()
	provider := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(provider.Close)
	v := verifier(t, sessions(func(c *auth.SessionConfig) { c.JWKSURL = provider.URL }))
	_, err := v.Verify(t.Context(), signed(t, jwt.SigningMethodEdDSA, newKeyRing(t).ed, "ed", nil))
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	require.Positive(t, fault.Of(err).RetryAfter)
}

func TestIncompleteSessionConfigurationIsRefused(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*auth.SessionConfig){
		func(c *auth.SessionConfig) { c.Issuer = "" }, func(c *auth.SessionConfig) { c.Audience = "" },
		func(c *auth.SessionConfig) { c.Clock = nil }, func(c *auth.SessionConfig) { c.Secret = nil },
		func(c *auth.SessionConfig) { c.Secret = []byte("short") }, func(c *auth.SessionConfig) { c.JWKSFile = "/nonexistent" },
	} {
		_, err := auth.NewSessionVerifier(sessions(change))
		require.Error(t, err)
	}
}

func TestTokenWithCriticalExtensionsIsRefused(t *testing.T) {
	t.Parallel()
	cfg := sessions(nil)
	v := verifier(t, cfg)
	for name, crit := range map[string]any{"unknown": []string{"exp-policy"}, "b64": []string{"b64"}, "empty": []string{}, "no list": "x", "null": nil} {
		token := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.RegisteredClaims{
			Issuer: cfg.Issuer, Audience: jwt.ClaimStrings{cfg.Audience}, Subject: someUser.String(), ExpiresAt: jwt.NewNumericDate(today.Add(time.Hour)),
		})
		plain, err := token.SignedString(secret)
		require.NoError(t, err)
		accepted(t, v, plain)
		token.Header["crit"] = crit
		text, err := token.SignedString(secret)
		require.NoError(t, err, name)
		notAccepted(t, v, text)
	}
}
