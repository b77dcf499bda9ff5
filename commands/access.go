package commands

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/domain/apikey"
	"ledgerline/domain/fault"
	"ledgerline/domain/identity"
	"ledgerline/domain/organisation"
	"ledgerline/domain/workflow"
	"ledgerline/eventstore"
)

// Access is what a credential allows its bearer, as read from the ledger. A write that carries Guards is refused with
// ErrCredentialChanged when anything in Access has changed since (rule ACC-7).
type Access struct {
	Organisation organisation.Organisation
	Key          *apikey.Key        // of an API key; nil for a session
	Identity     *identity.Identity // the service identity that the key is the token of; nil for a plain key
	User         *organisation.User // of a session; nil for an API key
	Workflow     *workflow.Workflow // of the token of a webhook trigger; nil for every other credential
	Guards       []eventstore.Guard
}

// CheckSecret refuses the secret of an API key that this installation did not make with unauthorized. It asks no
// database (rule ACC-2).
func (a *App) CheckSecret(secret string) error {
	if !apikey.IsGenuine(secret, a.apiKeyCheck) {
		return fault.New(fault.Unauthorized, "The API key is not known.")
	}
	return nil
}

// FindKeyAccess finds the API key with a secret. Unknown, revoked and expired secrets, and tokens of disabled
// identities, are refused with unauthorized. A secret that this installation did not make is refused without a query
// (rule ACC-2). The scopes of an identity's token are those of the identity.
//
// With fresh the key is read from the ledger. Without it the result may be old, which is safe for writes that carry the
// guards, and for nothing else.
//
// The caller checks scopes, IP addresses and whether the organisation is paused.
func (a *App) FindKeyAccess(ctx context.Context, secret string, fresh bool) (Access, error) {
	unknown := fault.New(fault.Unauthorized, "The API key is not known.")
	if err := a.CheckSecret(secret); err != nil {
		return Access{}, err
	}
	id, found, err := a.engine.Owner(ctx, secretClaimScope, apikey.Hash(secret))
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
		if !i.State.Exists() {
			return Access{}, unknown
		}
		if i.State.Disabled {
			return Access{}, fault.New(fault.Unauthorized, "The service identity of this token is disabled.")
		}
		access.Identity, access.Guards = &i.State, append(access.Guards, i.Guard())
		access.Key.Scopes = i.State.Scopes
	}
	return access, nil
}

// FindUserAccess finds a user with its roles. fresh is as in FindKeyAccess. A user that does not exist is refused with
// unauthorized.
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

// CheckTriggerToken returns the workflow of a webhook trigger's token; not_found for a token that this installation did
// not make. It asks no database (rule WFL-32).
func (a *App) CheckTriggerToken(token string) (uuid.UUID, error) {
	id, genuine := workflow.ParseToken(token, a.triggerTokens)
	if !genuine {
		return uuid.Nil, unknownTrigger()
	}
	return id, nil
}

// FindTriggerAccess finds the workflow that a token belongs to. A workflow whose live version has another trigger, and
// an archived one, is refused with not_found (rule WFL-32). fresh is as in FindKeyAccess.
func (a *App) FindTriggerAccess(ctx context.Context, id uuid.UUID, fresh bool) (Access, error) {
	w, err := a.engine.Workflows.Read(ctx, workflow.Stream(id), fresh)
	if err != nil {
		return Access{}, err
	}
	if !w.State.TakesPosts() {
		return Access{}, unknownTrigger()
	}
	org, err := a.engine.Organisations.Read(ctx, organisation.Stream(w.State.Organisation), fresh)
	if err != nil {
		return Access{}, err
	}
	return Access{Organisation: org.State, Workflow: &w.State, Guards: []eventstore.Guard{w.Guard(), org.Guard()}}, nil
}

func unknownTrigger() error { return fault.New(fault.NotFound, "There is no trigger with this token.") }
