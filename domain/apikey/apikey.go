// Package apikey holds API keys: the form of a secret, what a call with the key may do, and who may give scopes away
// (rules ACC-2 to ACC-6, ACC-14 and ACC-22 to ACC-24).
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

// Env is whether a key acts on live contacts or on sandbox numbers (rule ACC-3).
type Env string

// The environments.
const (
	Live Env = "live"
	Test Env = "test"
)

// Scope is what a key may do (rule ACC-14).
type Scope string

// The scopes.
const (
	Read  Scope = "read"
	Send  Scope = "send"
	Admin Scope = "admin"
)

// The parts of a secret (rule ACC-2): ll_live_ or ll_test_, prefixChars public characters, 32 random ones, and
// checkChars that prove that this installation made it.
const (
	RandomBytes  = 25 // random bytes of a secret
	prefixChars  = 8
	checkChars   = 8
	secretChars  = 8 + prefixChars + 32 + checkChars
	maxAddresses = 50
	maxName      = 80
)

var alphabet = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// NewSecret makes a secret from fresh randomness. checkKey is the installation's own key.
func NewSecret(env Env, random [RandomBytes]byte, checkKey []byte) (secret string) {
	stem := "ll_" + string(env) + "_" + alphabet.EncodeToString(random[:])
	return stem + check(stem, checkKey)
}

// check returns the characters that prove that the installation made a secret with this stem.
func check(stem string, key []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(stem))
	return alphabet.EncodeToString(mac.Sum(nil))[:checkChars]
}

// IsGenuine reports whether this installation made the secret. Its key may be revoked or unknown all the same.
func IsGenuine(secret string, checkKey []byte) bool {
	if len(secret) != secretChars || !(strings.HasPrefix(secret, "ll_live_") || strings.HasPrefix(secret, "ll_test_")) {
		return false
	}
	stem := secret[:secretChars-checkChars]
	return subtle.ConstantTimeCompare([]byte(check(stem, checkKey)), []byte(secret[secretChars-checkChars:])) == 1
}

// Prefix returns the public part of a secret.
func Prefix(secret string) string { return secret[8 : 8+prefixChars] }

// Hash returns what is stored of a secret: its SHA-256, in hex.
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
	IPAllowlist  []string // addresses and CIDR blocks; empty: every address
	ExpiresAt    *time.Time
	Revoked      bool
	Identity     uuid.UUID // the identity whose token the key is; uuid.Nil for any other key
	CreatedAt    time.Time
}

// Apply returns the state after one event of the key's stream.
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

// Create creates a key. Bad name, environment, scopes, addresses and expiry are refused together, with
// validation_failed. Scopes that the maker by does not have, and wider limits than those of the maker's own key, are
// refused with forbidden (rules ACC-22 and ACC-35).
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
	if len(e.IPAllowlist) > maxAddresses {
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
	var err error
	if e.IPAllowlist, e.ExpiresAt, err = by.Limit(e.IPAllowlist, e.ExpiresAt); err != nil {
		return nil, err
	}
	e.Scopes = ScopeNames(scopes)
	return []events.Event{&e}, nil
}

// NameIssues returns what is wrong with the name of a credential.
func NameIssues(name string) []fault.Issue {
	switch {
	case strings.TrimSpace(name) == "":
		return []fault.Issue{{Location: "body", Path: "/name", Code: "required", Message: "A name is needed."}}
	case utf8.RuneCountInString(name) > maxName:
		return []fault.Issue{{Location: "body", Path: "/name", Code: "too_long", Message: "Expected at most 80 characters."}}
	}
	return nil
}

// ParseScopes reads a list of scopes, drops repetitions and sorts them. issues states what is wrong with the list.
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

// ScopeNames returns the names of scopes.
func ScopeNames(scopes []Scope) []string {
	names := make([]string, len(scopes))
	for i, s := range scopes {
		names[i] = string(s)
	}
	return names
}

// AddressIssues returns an issue for each entry of a list that is neither an IP address nor a CIDR block.
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

// Rotate gives the key another secret (rule ACC-6). The caller by learns the secret, so it must have all scopes of
// the key (rule ACC-23), else it is refused with forbidden. A revoked or expired key is refused with conflict.
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

// Revoke ends the key for good; revoking again is no event (rule ACC-6). A caller by that may not revoke it is refused
// with forbidden.
func (k Key) Revoke(by *Grantor) ([]events.Event, error) {
	if err := by.MayRevoke(k); err != nil || k.Revoked {
		return nil, err
	}
	return []events.Event{&events.APIKeyRevoked{KeyID: k.ID}}, nil
}

// MatchesSecret compares a secret with the key's, in constant time.
func (k Key) MatchesSecret(secret string) bool {
	return subtle.ConstantTimeCompare([]byte(Hash(secret)), []byte(k.SecretHash)) == 1
}

// Usable reports whether the key exists and is neither revoked nor expired.
func (k Key) Usable(now time.Time) bool {
	return k.ID != "" && !k.Revoked && (k.ExpiresAt == nil || now.Before(*k.ExpiresAt))
}

// HasScope reports whether the key has a scope. No scope includes another (rule ACC-14).
func (k Key) HasScope(s Scope) bool { return slices.Contains(k.Scopes, s) }

// AllowsIP reports whether a call may come from an address (rule ACC-5). An address that cannot be parsed is allowed
// only if the list is empty.
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
