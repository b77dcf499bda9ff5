package apikey

import (
	"net/netip"
	"slices"
	"time"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
)

// Grantor is a caller that creates, rotates or changes a credential. It cannot give away a scope that it does not
// have (rule ACC-22). A nil Grantor is the operator, who may do everything.
type Grantor struct {
	Scopes   []Scope   // of a key or identity; of a session those that its role covers
	Test     bool      // the caller is a test key
	Identity uuid.UUID // the caller is this service identity; uuid.Nil for others
	// Allowlist and ExpiresAt are the limits of the caller's own key. What it makes or rotates has them too, or narrower
	// ones (rule ACC-35).
	Allowlist []string
	ExpiresAt *time.Time
}

// MayGrant refuses with forbidden a credential that could do more than its maker (rules ACC-22 and ACC-23). A service
// identity creates none at all (rule ACC-24): it would be free of the identity's lines and daily limit.
func (g *Grantor) MayGrant(env Env, scopes []Scope) error {
	if err := g.mayManage(env); err != nil || g == nil {
		return err
	}
	for _, s := range scopes {
		if !slices.Contains(g.Scopes, s) {
			return fault.New(fault.Forbidden, "You cannot give away the scope %s, because you do not have it.", s)
		}
	}
	return nil
}

// Limit returns the allowlist and the expiry of a new credential: what is not asked for is inherited from the grantor's
// own key. Wider ones than those of the grantor are refused with forbidden (rule ACC-35).
func (g *Grantor) Limit(allowlist []string, expires *time.Time) ([]string, *time.Time, error) {
	if g == nil {
		return allowlist, expires, nil
	}
	if len(allowlist) == 0 {
		allowlist = slices.Clone(g.Allowlist)
	}
	if expires == nil {
		expires = g.ExpiresAt
	}
	return allowlist, expires, g.covers(allowlist, expires)
}

// covers refuses with forbidden a credential that could be used from other addresses, or longer, than the grantor's own
// key.
func (g *Grantor) covers(allowlist []string, expires *time.Time) error {
	if g == nil {
		return nil
	}
	if len(g.Allowlist) > 0 && (len(allowlist) == 0 || slices.ContainsFunc(allowlist, g.isForeign)) {
		return fault.New(fault.Forbidden, "Your key may be used from some addresses only, and this credential from others too.")
	}
	if g.ExpiresAt != nil && (expires == nil || expires.After(*g.ExpiresAt)) {
		return fault.New(fault.Forbidden, "Your key expires, and this credential would outlive it.")
	}
	return nil
}

// Limited reports whether the grantor's own key has an allowlist or an expiry.
func (g *Grantor) Limited() bool { return g != nil && (len(g.Allowlist) > 0 || g.ExpiresAt != nil) }

// isForeign reports whether a block has addresses outside of every block of the grantor.
func (g *Grantor) isForeign(listed string) bool {
	block, err := parseBlock(listed)
	return err != nil || !slices.ContainsFunc(g.Allowlist, func(own string) bool {
		outer, err := parseBlock(own)
		return err == nil && contains(outer, block)
	})
}

func contains(outer, block netip.Prefix) bool {
	return outer.Bits() <= block.Bits() && outer.Contains(block.Addr())
}

// MayWiden refuses with forbidden to give a credential more rights when its key k could be used from other addresses,
// or longer, than the grantor's own key (rule ACC-35).
func (g *Grantor) MayWiden(k Key) error { return g.covers(k.IPAllowlist, k.ExpiresAt) }

// MayRevoke refuses with forbidden to end a live credential with a test key, or any but its own token with a service
// identity (rules ACC-23 and ACC-24).
func (g *Grantor) MayRevoke(k Key) error {
	if g.owns(k) {
		return nil
	}
	return g.mayManage(k.Env)
}

// owns reports whether the grantor is the service identity whose token the key is.
func (g *Grantor) owns(k Key) bool {
	return g != nil && g.Identity != uuid.Nil && g.Identity == k.Identity
}

// MayRotate refuses with forbidden to rotate a key that can do more than the caller (rules ACC-23 and ACC-35). An
// identity may rotate its own token.
func (g *Grantor) MayRotate(k Key) error {
	if g.owns(k) {
		return nil
	}
	if err := g.MayGrant(k.Env, k.Scopes); err != nil {
		return err
	}
	return g.covers(k.IPAllowlist, k.ExpiresAt)
}

// Grant returns those of the wanted scopes that the grantor has, or that the credential has already (rule ACC-24).
// If none is left it refuses with forbidden.
func (g *Grantor) Grant(env Env, wanted, present []Scope) ([]Scope, error) {
	if err := g.mayManage(env); err != nil || g == nil {
		return wanted, err
	}
	granted := slices.DeleteFunc(slices.Clone(wanted), func(s Scope) bool {
		return !slices.Contains(g.Scopes, s) && !slices.Contains(present, s)
	})
	if len(granted) == 0 {
		return nil, fault.New(fault.Forbidden, "You have none of these scopes, so you cannot give them away.")
	}
	return granted, nil
}

func (g *Grantor) mayManage(env Env) error {
	switch {
	case g == nil:
		return nil
	case g.Identity != uuid.Nil:
		return fault.New(fault.Forbidden, "A service identity does not manage credentials.")
	case g.Test && env != Test:
		return fault.New(fault.Forbidden, "A test key manages test credentials only.")
	}
	return nil
}
