package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"ledgerline/clock"
	"ledgerline/domain/fault"
)

// MaxSession is the longest time that a session token may be valid (rule ACC-9).
const MaxSession = 24 * time.Hour

const (
	minSecret  = 32 // bytes, the size of an HS256 signature
	minRSABits = 2048
)

// SessionConfig configures which session tokens are valid. Secret, JWKSURL and JWKSFile may be combined: the algorithm
// and the key id of a token decide which one verifies it.
type SessionConfig struct {
	Issuer   string
	Audience string
	Secret   []byte       // for HS256; at least 32 bytes
	JWKSURL  string       // for EdDSA, ES256, RS256
	JWKSFile string       // for EdDSA, ES256, RS256
	Client   *http.Client // fetches JWKSURL; one with a timeout of 5 s when nil
	Clock    clock.Clock
	// LongLivedTokenID is the id (jti) of tokens that may be valid longer than MaxSession; "" for none. The dev command
	// needs them: it issues its tokens once, and its clock may be moved by days.
	LongLivedTokenID string
}

// SessionVerifier verifies the session tokens of signed-in users. A token says who the user is; what the user may do is
// read from the ledger. It is safe for concurrent use.
type SessionVerifier struct {
	secret      []byte
	keys        *keySet // nil when no JWKS is configured
	parser      *jwt.Parser
	clock       clock.Clock
	longLivedID string
}

// NewSessionVerifier makes a verifier and returns an error for an incomplete configuration. A JWKS URL is fetched when
// the first token needs it, so that the service starts while its identity provider is down. A JWKS file is read at
// once.
func NewSessionVerifier(cfg SessionConfig) (*SessionVerifier, error) {
	if cfg.Issuer == "" || cfg.Audience == "" || cfg.Clock == nil {
		return nil, errors.New("session tokens need an issuer, an audience and a clock")
	}
	if len(cfg.Secret) > 0 && len(cfg.Secret) < minSecret {
		return nil, fmt.Errorf("the session secret has %d bytes, it needs %d", len(cfg.Secret), minSecret)
	}
	keys, err := newKeySet(cfg)
	if err != nil {
		return nil, err
	}
	if keys == nil && len(cfg.Secret) == 0 {
		return nil, errors.New("session tokens need a secret or a JWKS")
	}
	return &SessionVerifier{
		secret: cfg.Secret, keys: keys, clock: cfg.Clock, longLivedID: cfg.LongLivedTokenID,
		parser: jwt.NewParser(
			jwt.WithValidMethods([]string{"EdDSA", "ES256", "RS256", "HS256"}), jwt.WithIssuer(cfg.Issuer), jwt.WithAudience(cfg.Audience),
			jwt.WithExpirationRequired(), jwt.WithTimeFunc(cfg.Clock.Now), jwt.WithStrictDecoding()),
	}, nil
}

// Session is what a valid token says. IssuedAt is zero when the token does not say it.
type Session struct {
	User     uuid.UUID
	IssuedAt time.Time
}

// Verify returns the session of a valid token, else fault unauthorized. When the token needs a JWKS that has never been
// fetched, it returns fault service_unavailable: the token may be valid.
func (v *SessionVerifier) Verify(ctx context.Context, token string) (Session, error) {
	var claims jwt.RegisteredClaims
	_, err := v.parser.ParseWithClaims(token, &claims, func(t *jwt.Token) (any, error) { return v.key(ctx, t) })
	if err != nil {
		if fault.Is(err, fault.Unavailable) {
			return Session{}, err
		}
		return Session{}, unauthorized(err)
	}
	expires := claims.ExpiresAt.Time
	longLived := v.longLivedID != "" && claims.ID == v.longLivedID
	if !longLived && (expires.Sub(v.clock.Now()) > MaxSession || claims.IssuedAt != nil && expires.Sub(claims.IssuedAt.Time) > MaxSession) {
		return Session{}, unauthorized(errors.New("the token lives longer than 24 hours"))
	}
	user, err := uuid.Parse(claims.Subject)
	if err != nil || len(claims.Subject) != 36 || user == uuid.Nil {
		return Session{}, unauthorized(errors.New("the subject is no user id"))
	}
	session := Session{User: user}
	if claims.IssuedAt != nil {
		session.IssuedAt = claims.IssuedAt.Time
	}
	return session, nil
}

func unauthorized(cause error) error {
	return &fault.Fault{Code: fault.Unauthorized, Message: "The token is not valid.", Cause: cause}
}

// key returns the keys that may verify a token. The algorithm decides which kind of key is used, so that a public key
// can never serve as an HS256 secret.
func (v *SessionVerifier) key(ctx context.Context, token *jwt.Token) (any, error) {
	if _, sent := token.Header["crit"]; sent { // RFC 7515: no extension is understood here
		return nil, errors.New("the header has critical extensions")
	}
	algorithm := token.Method.Alg()
	if algorithm == jwt.SigningMethodHS256.Alg() {
		if len(v.secret) == 0 {
			return nil, errors.New("no secret for HS256")
		}
		return v.secret, nil
	}
	if v.keys == nil {
		return nil, errors.New("no JWKS for " + algorithm)
	}
	id, _ := token.Header["kid"].(string)
	found, err := v.keys.find(ctx, id, algorithm)
	if err != nil {
		return nil, err
	}
	var candidates jwt.VerificationKeySet
	for _, key := range found {
		candidates.Keys = append(candidates.Keys, key)
	}
	if len(candidates.Keys) == 0 {
		return nil, errors.New("no key of the JWKS fits the token")
	}
	return candidates, nil
}

// fits reports whether a public key may verify signatures of an algorithm.
func fits(key any, algorithm string) bool {
	switch k := key.(type) {
	case ed25519.PublicKey:
		return algorithm == "EdDSA"
	case *ecdsa.PublicKey:
		return algorithm == "ES256" && k.Curve == elliptic.P256()
	case *rsa.PublicKey:
		return algorithm == "RS256" && k.N.BitLen() >= minRSABits
	}
	return false
}

// SignSession issues a token for a user with the configured secret: for the operator, dev mode and tests. ttl is at
// most MaxSession, unless LongLivedTokenID is set.
func SignSession(cfg SessionConfig, user uuid.UUID, ttl time.Duration) (string, error) {
	if len(cfg.Secret) < minSecret {
		return "", errors.New("no session secret is configured")
	}
	if ttl <= 0 || ttl > MaxSession && cfg.LongLivedTokenID == "" {
		return "", errors.New("a session lives at most 24 hours")
	}
	now := cfg.Clock.Now()
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.RegisteredClaims{
		ID: cfg.LongLivedTokenID, Issuer: cfg.Issuer, Audience: jwt.ClaimStrings{cfg.Audience}, Subject: user.String(),
		IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(ttl)),
	})
	signed, err := token.SignedString(cfg.Secret)
	if err != nil {
		return "", fmt.Errorf("sign a session: %w", err)
	}
	return signed, nil
}
