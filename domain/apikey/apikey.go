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
	"strconv"
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
	RandomBytes = 25 // bytes that a secret is made of
	prefixChars = 8
	checkChars  = 8
	secretChars = 8 + prefixChars + 32 + checkChars
	allowlist   = 50
	nameChars   = 80
)

var alphabet = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// NewSecret makes a secret from fresh randomness; checkKey is the installation's own.
func NewSecret(env Env, random [RandomBytes]byte, checkKey []byte) (secret string) {
	stem := "ll_" + string(env) + "_" + alphabet.EncodeToString(random[:])
	return stem + check(stem, checkKey)
}

func check(stem string, key []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(stem))
	return alphabet.EncodeToString(mac.Sum(nil))[:checkChars]
}

// IsGenuine tells whether this installation made the secret. The key may be revoked all the same.
func IsGenuine(secret string, checkKey []byte) bool {
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
	Identity     uuid.UUID // whose token the key is; uuid.Nil for a plain key
	CreatedAt    time.Time
}

// Apply folds one event.
func (k Key) Apply(event events.Event, in events.Envelope) Key {
	switch e := event.(type) {
	case *events.APIKeyCreated:
		k = Key{
			ID: e.KeyID, Organisation: in.Organisation, Workspace: in.Workspace, Name: e.Name, Env: Env(e.Env),
			Prefix: e.Prefix, SecretHash: e.SecretHash, IPAllowlist: e.IPAllowlist, ExpiresAt: e.ExpiresAt,
			CreatedAt: in.At,
		}
		if e.IdentityID != nil {
			k.Identity = *e.IdentityID
		}
		for _, s := range e.Scopes {
			k.Scopes = append(k.Scopes, Scope(s))
		}
	case *events.APIKeyRotated:
		k.Prefix, k.SecretHash = e.Prefix, e.SecretHash
	case *events.APIKeyRevoked:
		k.Revoked = true
	}
	return k
}

// Create makes a key; by says who does. Name, environment, scopes, addresses and expiry are checked together, and then
// whether the maker could give them away.
func Create(e events.APIKeyCreated, by *Grantor, now time.Time) ([]events.Event, error) {
	var issues []fault.Issue
	add := func(pointer, code, message string) {
		issues = append(issues, fault.Issue{Location: "body", Path: pointer, Code: code, Message: message})
	}
	issues = append(issues, NameIssues(e.Name)...)
	if Env(e.Env) != Live && Env(e.Env) != Test {
		add("/env", "invalid_value", "The environment is live or test.")
	}
	scopes, wrong := ParseScopes(e.Scopes)
	issues = append(issues, wrong...)
	if len(e.IPAllowlist) > allowlist {
		add("/ip_allowlist", "too_many_items", "Expected at most 50 items.")
	} else {
		issues = append(issues, AddressIssues(e.IPAllowlist)...)
	}
	if e.ExpiresAt != nil && !e.ExpiresAt.After(now) {
		add("/expires_at", "invalid_value", "The expiry lies in the past.")
	}
	if len(issues) > 0 {
		return nil, fault.Invalids(issues...)
	}
	if err := by.MayGrant(Env(e.Env), scopes); err != nil {
		return nil, err
	}
	e.Scopes = ScopeNames(scopes)
	return []events.Event{&e}, nil
}

// NameIssues tells what is wrong with the name of a credential.
func NameIssues(name string) []fault.Issue {
	switch {
	case strings.TrimSpace(name) == "":
		return []fault.Issue{{Location: "body", Path: "/name", Code: "required", Message: "A name is needed."}}
	case utf8.RuneCountInString(name) > nameChars:
		return []fault.Issue{{Location: "body", Path: "/name", Code: "too_long", Message: "Expected at most 80 characters."}}
	}
	return nil
}

// ParseScopes reads a list of scopes: without repetitions, in alphabetical order.
func ParseScopes(names []string) ([]Scope, []fault.Issue) {
	if len(names) == 0 {
		return nil, []fault.Issue{{Location: "body", Path: "/scopes", Code: "required", Message: "A scope is needed."}}
	}
	for i, name := range names {
		if !slices.Contains(allScopes, Scope(name)) {
			return nil, []fault.Issue{{Location: "body", Path: "/scopes/" + strconv.Itoa(i), Code: "invalid_value", Message: "The scopes are read, send and admin."}}
		}
	}
	return slices.DeleteFunc(slices.Clone(allScopes), func(s Scope) bool { return !slices.Contains(names, string(s)) }), nil
}

var allScopes = []Scope{Admin, Read, Send}

// ScopeNames are the scopes as texts.
func ScopeNames(scopes []Scope) []string {
	names := make([]string, len(scopes))
	for i, s := range scopes {
		names[i] = string(s)
	}
	return names
}

// AddressIssues tells of each entry of an address list that is neither an IP address nor a CIDR block.
func AddressIssues(list []string) []fault.Issue {
	var issues []fault.Issue
	for i, block := range list {
		if _, err := parseBlock(block); err != nil {
			issues = append(issues, fault.Issue{
				Location: "body", Path: "/ip_allowlist/" + strconv.Itoa(i), Code: "invalid_address", Message: "Expected an IP address or a CIDR block.",
			})
		}
	}
	return issues
}

// Rotate gives the key another secret. by says who asks: whoever learns a secret can do all that it opens, so its scopes
// and its environment must be the asker's own too. What has ended cannot be renewed: conflict.
func (k Key) Rotate(prefix, hash string, by *Grantor, now time.Time) ([]events.Event, error) {
	if err := by.MayRotate(k); err != nil {
		return nil, err
	}
	switch {
	case k.Revoked:
		return nil, fault.New(fault.Conflict, "The key is revoked.")
	case !k.Usable(now):
		return nil, fault.New(fault.Conflict, "The key has expired.")
	}
	return []events.Event{&events.APIKeyRotated{KeyID: k.ID, Prefix: prefix, SecretHash: hash}}, nil
}

// Revoke ends the key; a revoked one is no event (administration 3.8).
func (k Key) Revoke() []events.Event {
	if k.Revoked {
		return nil
	}
	return []events.Event{&events.APIKeyRevoked{KeyID: k.ID}}
}

// MatchesSecret compares a secret with the key's, in constant time.
func (k Key) MatchesSecret(secret string) bool {
	return subtle.ConstantTimeCompare([]byte(Hash(secret)), []byte(k.SecretHash)) == 1
}

// Usable tells whether the key is neither revoked nor expired.
func (k Key) Usable(now time.Time) bool {
	return k.ID != "" && !k.Revoked && (k.ExpiresAt == nil || now.Before(*k.ExpiresAt))
}

// HasScope tells whether the key has a scope. admin does not include read.
func (k Key) HasScope(s Scope) bool { return slices.Contains(k.Scopes, s) }

// AllowsIP tells whether a call may come from an address. One that cannot be read is allowed only by an empty list.
func (k Key) AllowsIP(ip string) bool {
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
