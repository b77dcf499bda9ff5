// Package apikey is one API key: the form of its secret, and what a call with it may do (decisions section 2).
package apikey

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/events"
)

// Env is which world a key acts in (interface section 5 rule 2).
type Env string

// The environments.
const (
	Live Env = "live"
	Test Env = "test"
)

// Scope is what a key may do (interface section 5 rule 3).
type Scope string

// The scopes.
const (
	Read  Scope = "read"
	Send  Scope = "send"
	Admin Scope = "admin"
)

// A secret is ll_live_ or ll_test_, 8 public characters, 32 random ones, and 8 that prove that this installation
// made it, so that a made-up secret is refused without asking the database.
const (
	Randomness  = 25 // bytes that a secret is made of
	prefixChars = 8
	checkChars  = 8
	secretChars = 8 + prefixChars + 32 + checkChars
	allowlist   = 50
	nameChars   = 80
)

var alphabet = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Mint makes a secret from fresh randomness; checkKey is the installation's own.
func Mint(env Env, random [Randomness]byte, checkKey []byte) (secret string) {
	stem := "ll_" + string(env) + "_" + alphabet.EncodeToString(random[:])
	return stem + check(stem, checkKey)
}

func check(stem string, key []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(stem))
	return alphabet.EncodeToString(mac.Sum(nil))[:checkChars]
}

// Genuine tells whether this installation made the secret. The key may be revoked all the same.
func Genuine(secret string, checkKey []byte) bool {
	if len(secret) != secretChars || !(strings.HasPrefix(secret, "ll_live_") || strings.HasPrefix(secret, "ll_test_")) {
		return false
	}
	stem := secret[:secretChars-checkChars]
	return subtle.ConstantTimeCompare([]byte(check(stem, checkKey)), []byte(secret[secretChars-checkChars:])) == 1
}

// Prefix is the public part of a secret.
func Prefix(secret string) string { return secret[8 : 8+prefixChars] }

// Hash is all that is stored of a secret: its SHA-256, hex.
func Hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// Key is the state of one API key. The zero value does not exist.
type Key struct {
	ID           string
	Organisation uuid.UUID
	Workspace    uuid.UUID
	Name         string
	Env          Env
	Scopes       []Scope
	Prefix       string
	SecretHash   string
	IPAllowlist  []string // addresses and CIDR blocks; empty allows all
	ExpiresAt    *time.Time
	Revoked      bool
}

// Apply folds one event.
func (k Key) Apply(event events.Event, in events.Envelope) Key {
	switch e := event.(type) {
	case *events.APIKeyCreated:
		k = Key{
			ID: e.KeyID, Organisation: in.Organisation, Workspace: in.Workspace, Name: e.Name, Env: Env(e.Env),
			Prefix: e.Prefix, SecretHash: e.SecretHash, IPAllowlist: e.IPAllowlist, ExpiresAt: e.ExpiresAt,
		}
		for _, s := range e.Scopes {
			k.Scopes = append(k.Scopes, Scope(s))
		}
	case *events.APIKeyRevoked:
		k.Revoked = true
	}
	return k
}

// Create makes a key. Name, environment, scopes, addresses and expiry are checked together.
func Create(e events.APIKeyCreated, now time.Time) ([]events.Event, error) {
	var issues []fault.Issue
	add := func(pointer, code, message string) {
		issues = append(issues, fault.Issue{Location: "body", Path: pointer, Code: code, Message: message})
	}
	switch n := utf8.RuneCountInString(e.Name); {
	case strings.TrimSpace(e.Name) == "":
		add("/name", "required", "A name is needed.")
	case n > nameChars:
		add("/name", "too_long", "The name is too long.")
	}
	if Env(e.Env) != Live && Env(e.Env) != Test {
		add("/env", "invalid_value", "The environment is live or test.")
	}
	if len(e.Scopes) == 0 {
		add("/scopes", "required", "A key needs a scope.")
	}
	for _, s := range e.Scopes {
		if !slices.Contains([]Scope{Read, Send, Admin}, Scope(s)) {
			add("/scopes", "invalid_value", "The scopes are read, send and admin.")
			break
		}
	}
	if len(e.IPAllowlist) > allowlist {
		add("/ip_allowlist", "too_many", "There are too many addresses.")
	}
	for _, block := range e.IPAllowlist {
		if _, err := parseBlock(block); err != nil {
			add("/ip_allowlist", "invalid_value", "The list holds IP addresses and CIDR blocks.")
			break
		}
	}
	if e.ExpiresAt != nil && !e.ExpiresAt.After(now) {
		add("/expires_at", "invalid_value", "The expiry lies in the past.")
	}
	if len(issues) > 0 {
		return nil, fault.Invalids(issues...)
	}
	e.Scopes = slices.Compact(slices.Sorted(slices.Values(e.Scopes)))
	return []events.Event{&e}, nil
}

// Revoke ends the key; a revoked one is no event (administration 3.8).
func (k Key) Revoke() []events.Event {
	if k.Revoked {
		return nil
	}
	return []events.Event{&events.APIKeyRevoked{KeyID: k.ID}}
}

// Matches compares a secret with the key's, in constant time.
func (k Key) Matches(secret string) bool {
	return subtle.ConstantTimeCompare([]byte(Hash(secret)), []byte(k.SecretHash)) == 1
}

// Usable tells whether the key is neither revoked nor expired.
func (k Key) Usable(now time.Time) bool {
	return k.ID != "" && !k.Revoked && (k.ExpiresAt == nil || now.Before(*k.ExpiresAt))
}

// Has tells whether the key has a scope. admin does not include read.
func (k Key) Has(s Scope) bool { return slices.Contains(k.Scopes, s) }

// Allows tells whether a call may come from an address. One that cannot be read is allowed only by an empty list.
func (k Key) Allows(ip string) bool {
	if len(k.IPAllowlist) == 0 {
		return true
	}
	address, err := netip.ParseAddr(ip)
	if err != nil {
		return false
	}
	address = address.Unmap().WithZone("")
	return slices.ContainsFunc(k.IPAllowlist, func(listed string) bool {
		block, err := parseBlock(listed)
		return err == nil && block.Contains(address)
	})
}

func parseBlock(s string) (netip.Prefix, error) {
	if strings.Contains(s, "/") {
		block, err := netip.ParsePrefix(s)
		if err == nil && block.Addr().Is4In6() && block.Bits() >= 96 {
			block = netip.PrefixFrom(block.Addr().Unmap(), block.Bits()-96)
		}
		return block, err
	}
	address, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Prefix{}, err
	}
	address = address.Unmap().WithZone("")
	return netip.PrefixFrom(address, address.BitLen()), nil
}
