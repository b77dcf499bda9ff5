package apikey

import (
	"slices"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
)

// Grantor is a caller that creates, rotates or changes a credential. It cannot give away a scope that it does not
// have (rule ACC-22). A nil Grantor is the operator, who may do everything.
type Grantor struct {
	Scopes   []Scope   // of a key or identity; of a session those that its role covers
	Test     bool      // the caller is a test key
	Identity uuid.UUID // the caller is this service identity; uuid.Nil for others
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

// MayRotate refuses with forbidden to rotate a key that can do more than the caller (rule ACC-23). An identity may
// rotate its own token.
func (g *Grantor) MayRotate(k Key) error {
	if g != nil && g.Identity != uuid.Nil && g.Identity == k.Identity {
		return nil
	}
	return g.MayGrant(k.Env, k.Scopes)
}

// Grant returns those of the wanted scopes that the grantor has, or that the credential holds already (rule ACC-24).
// If none is left it refuses with forbidden.
func (g *Grantor) Grant(env Env, wanted, held []Scope) ([]Scope, error) {
	if err := g.mayManage(env); err != nil || g == nil {
		return wanted, err
	}
	granted := slices.DeleteFunc(slices.Clone(wanted), func(s Scope) bool {
		return !slices.Contains(g.Scopes, s) && !slices.Contains(held, s)
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
