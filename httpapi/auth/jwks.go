package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/time/rate"

	"ledgerline/clock"
	"ledgerline/domain/fault"
)

const (
	keysMaxAge   = time.Hour        // a key that was removed from the set is trusted at most this long
	keysInterval = 10 * time.Second // between two loads, because anybody can invent tokens with unknown key ids
	keysTimeout  = 5 * time.Second
	keysMaxBytes = 1 << 20
)

// keySet is a cached JWKS from a URL, a file or both. It is loaded again when a token names an unknown key and when the
// set is older than keysMaxAge, at most every keysInterval. When loading fails, the known keys stay in use.
// docs/decisions/session-keys.md explains why no library does this.
type keySet struct {
	url, file string
	client    *http.Client
	clock     clock.Clock
	attempts  *rate.Limiter

	loading sync.Mutex // allows one load at a time; mu is not held during the load
	mu      sync.RWMutex
	keys    []jose.JSONWebKey
	loaded  time.Time // zero before the first success
}

// newKeySet returns nil when no JWKS is configured.
func newKeySet(cfg SessionConfig) (*keySet, error) {
	if cfg.JWKSURL == "" && cfg.JWKSFile == "" {
		return nil, nil //nolint:nilnil // documented
	}
	s := &keySet{url: cfg.JWKSURL, file: cfg.JWKSFile, client: cfg.Client, clock: cfg.Clock, attempts: rate.NewLimiter(rate.Every(keysInterval), 2)}
	if s.client == nil {
		s.client = &http.Client{Timeout: keysTimeout}
	}
	if s.file != "" {
		if _, err := s.fromFile(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// find returns the public keys that may have signed a token: those with its key id, or all that fit the algorithm when
// the token has no key id. It returns fault service_unavailable when the set has never been loaded.
func (s *keySet) find(ctx context.Context, id, algorithm string) ([]any, error) {
	found, known := s.lookup(id, algorithm)
	if known {
		return found, nil
	}
	err := s.load(ctx)
	found, _ = s.lookup(id, algorithm)
	s.mu.RLock()
	never := s.loaded.IsZero()
	s.mu.RUnlock()
	if never {
		return nil, &fault.Fault{
			Code: fault.Unavailable, Message: "Session tokens cannot be checked at the moment. Try again.",
			RetryAfter: keysInterval, Cause: err,
		}
	}
	return found, nil
}

// lookup finds keys in memory. known is false when the set must be loaded again: no key has the id, or the set is too
// old.
func (s *keySet) lookup(id, algorithm string) (found []any, known bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	idFound := false
	for _, key := range s.keys {
		if id != "" && key.KeyID != id {
			continue
		}
		idFound = true
		if (key.Algorithm == "" || key.Algorithm == algorithm) && (key.Use == "" || key.Use == "sig") && fits(key.Key, algorithm) {
			found = append(found, key.Key)
		}
	}
	return found, idFound && s.clock.Now().Sub(s.loaded) < keysMaxAge
}

// load replaces the set, or returns an error and leaves the old set in place.
func (s *keySet) load(ctx context.Context) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	if !s.attempts.Allow() {
		return errors.New("the JWKS was loaded less than 10 seconds ago")
	}
	var keys []jose.JSONWebKey
	if s.file != "" {
		set, err := s.fromFile()
		if err != nil {
			return err
		}
		keys = append(keys, set...)
	}
	if s.url != "" {
		set, err := s.fromURL(ctx)
		if err != nil {
			return err
		}
		keys = append(keys, set...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys, s.loaded = keys, s.clock.Now()
	return nil
}

func (s *keySet) fromFile() ([]jose.JSONWebKey, error) {
	raw, err := os.ReadFile(s.file)
	if err != nil {
		return nil, fmt.Errorf("read the JWKS: %w", err)
	}
	return publicKeys(raw)
}

func (s *keySet) fromURL(ctx context.Context) ([]jose.JSONWebKey, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keysTimeout) // other requests wait for this load too, so the end of one request must not cancel it
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, fmt.Errorf("fetch the JWKS: %w", err)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("fetch the JWKS: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetch the JWKS: status %d", response.StatusCode)
	}
	raw, err := io.ReadAll(io.LimitReader(response.Body, keysMaxBytes))
	if err != nil {
		return nil, fmt.Errorf("fetch the JWKS: %w", err)
	}
	return publicKeys(raw)
}

// publicKeys parses a set. It skips invalid keys, unknown kinds of keys and symmetric keys.
func publicKeys(raw []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(raw, &set); err != nil {
		return nil, fmt.Errorf("parse the JWKS: %w", err)
	}
	var keys []jose.JSONWebKey
	for _, one := range set.Keys {
		var key jose.JSONWebKey
		if err := json.Unmarshal(one, &key); err != nil || !key.Valid() {
			continue
		}
		if public := key.Public(); public.Key != nil {
			keys = append(keys, public)
		}
	}
	return keys, nil
}
