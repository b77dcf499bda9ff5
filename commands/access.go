package commands

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/domain/apikey"
	"ledgerline/domain/fault"
	"ledgerline/domain/identity"
	"ledgerline/domain/organisation"
	"ledgerline/eventstore"
)

// claimSecret is the scope of the secrets of keys, known by their SHA-256.
const claimSecret = "api_key"

// Access is what a credential lets its bearer do, read from the ledger itself. Guards hold it to that: a write that
// carries them is refused with ErrCredentialChanged when anything here has changed since.
type Access struct {
	Organisation organisation.Organisation
	Key          *apikey.Key        // of an API key
	Identity     *identity.Identity // whose token the key is; nil for a plain key
	User         *organisation.User // of a session
	Guards       []eventstore.Guard
}

// FindKeyAccess finds the key of a secret. Without fresh it answers from memory where it can, which is safe for writes that
// carry the guards; reads must ask with fresh. A secret that is unknown, revoked or expired, or whose identity is disabled,
// is refused with unauthorized; one that was not made here is so without a question to the database. The scopes of an
// identity's token are the identity's.
//
// Whether scopes and addresses cover the call is the caller's to check, and whether the organisation is paused.
func (a *App) FindKeyAccess(ctx context.Context, secret string, fresh bool) (Access, error) {
	unknown := fault.New(fault.Unauthorized, "The API key is not known.")
	if !apikey.IsGenuine(secret, a.apiKeyCheck) {
		return Access{}, unknown
	}
	id, found, err := a.engine.Owner(ctx, claimSecret, apikey.Hash(secret))
	if err != nil {
		return Access{}, err
	}
	if !found {
		return Access{}, unknown
	}
	key, err := a.engine.Keys.Read(ctx, id, fresh)
	if err != nil {
		return Access{}, err
	}
	if !key.State.MatchesSecret(secret) || !key.State.Usable(a.engine.Ledger.Now()) {
		return Access{}, unknown
	}
	org, err := a.engine.Organisations.Read(ctx, organisation.Stream(key.State.Organisation), fresh)
	if err != nil {
		return Access{}, err
	}
	access := Access{Organisation: org.State, Key: &key.State, Guards: []eventstore.Guard{key.Guard(), org.Guard()}}
	if key.State.Identity != uuid.Nil {
		i, err := a.engine.Identities.Read(ctx, identity.Stream(key.State.Identity), fresh)
		if err != nil {
			return Access{}, err
		}
		if !i.State.Exists() || i.State.Disabled {
			return Access{}, unknown
		}
		access.Identity, access.Guards = &i.State, append(access.Guards, i.Guard())
		access.Key.Scopes = i.State.Scopes
	}
	return access, nil
}

// FindUserAccess finds a user with the roles it has, under the same rules as FindKey. A user that does not exist is refused
// with unauthorized.
func (a *App) FindUserAccess(ctx context.Context, id uuid.UUID, fresh bool) (Access, error) {
	user, err := a.engine.Users.Read(ctx, organisation.UserStream(id), fresh)
	if err != nil {
		return Access{}, err
	}
	if !user.State.Exists() {
		return Access{}, fault.New(fault.Unauthorized, "The user is not known.")
	}
	org, err := a.engine.Organisations.Read(ctx, organisation.Stream(user.State.Organisation), fresh)
	if err != nil {
		return Access{}, err
	}
	return Access{Organisation: org.State, User: &user.State, Guards: []eventstore.Guard{user.Guard(), org.Guard()}}, nil
}
