package apikey

import (
	"slices"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
)

// Grantor is who makes, renews or changes a credential. Nobody gives away what it does not have (decisions section 2). The
// nil Grantor is the operator, who may all.
type Grantor struct {
	Scopes   []Scope   // of a key or an identity; of a session those that its role covers
	Test     bool      // a test key
	Identity uuid.UUID // of a service identity; uuid.Nil for others
}

// MayGrant refuses, with forbidden, a credential that could do more than its maker. A service identity makes none at all:
// what it made would be free of its own lines and its daily limit.
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

// MayRotate refuses, with forbidden, whoever would learn a secret that opens more than its own. An identity may renew its
// own token.
func (g *Grantor) MayRotate(k Key) error {
	if g != nil && g.Identity != uuid.Nil && g.Identity == k.Identity {
		return nil
	}
	return g.MayGrant(k.Env, k.Scopes)
}

// Grant gives the part of the wanted scopes that may be given: those of the grantor, and those that the credential has
// already. None left is forbidden.
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
