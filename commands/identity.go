package commands

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/apikey"
	"ledgerline/domain/identity"
	"ledgerline/events"
)

// CreateIdentity has the properties of a service identity (rules ACC-24 to ACC-26).
type CreateIdentity struct {
	Name           string
	Kind           identity.Kind
	Env            apikey.Env
	Scopes         []string
	AllowedLineIDs []string
	DailyLimit     *int64
	// Grantor creates the identity and limits what it may do (rule ACC-22); nil for the operator.
	Grantor *apikey.Grantor
	// Answer, when not nil, renders the answer so that it commits with the idempotency record.
	Answer func(CreatedIdentity) ([]byte, error)
}

// CreatedIdentity is a new service identity with its token. The secret of the token is not stored and cannot be read
// again.
type CreatedIdentity struct {
	Result
	Identity identity.Identity
	Token    IssuedAPIKey
}

// CreateIdentity creates a service identity of the request's workspace together with its token. The identity gets those
// of the requested scopes that the grantor has. Refusals: validation_failed with all that is wrong, forbidden when no
// scope is left.
func (a *App) CreateIdentity(ctx context.Context, req Request, in CreateIdentity) (CreatedIdentity, error) {
	id := a.engine.IDs.UUID()
	token, err := a.newSecret(in.Env)
	if err != nil {
		return CreatedIdentity{}, err
	}
	token.ID = a.engine.IDs.TypeID("key")
	created := CreatedIdentity{Token: token}
	created.Result, err = a.run(ctx, req, func(ctx context.Context, u *unit) error {
		if _, err := u.Workspace(ctx, req.Workspace); err != nil {
			return err
		}
		list, err := identity.Create(events.IdentityCreated{
			IdentityID: id, Name: in.Name, Kind: string(in.Kind), Env: string(in.Env), Scopes: in.Scopes, KeyID: token.ID,
			AllowedLineIDs: in.AllowedLineIDs, DailyLimit: in.DailyLimit,
		}, in.Grantor)
		var issues issueList
		if err := issues.collect(u.checkLines(ctx, in.AllowedLineIDs), err); err != nil {
			return err
		}
		if err := issues.fault(); err != nil {
			return err
		}
		allowlist, expires, err := in.Grantor.Limit(nil, nil)
		if err != nil {
			return err
		}
		i := engine.Begin(u.Unit, a.engine.Identities, identity.Stream(id))
		i.Record(list...)
		created.Identity = i.State
		u.recordNewAPIKey(&created.Token, []events.Event{&events.APIKeyCreated{
			KeyID: token.ID, Name: in.Name, Env: string(in.Env), Scopes: apikey.ScopeNames(i.State.Scopes), Prefix: token.Prefix,
			SecretHash: apikey.Hash(token.Secret), IdentityID: &id, IPAllowlist: allowlist, ExpiresAt: expires,
		}})
		u.Ref = id.String()
		return renderAnswer(u, created, in.Answer)
	})
	if err != nil {
		return CreatedIdentity{}, err
	}
	return created, nil
}

// loadIdentity loads a service identity of the request's workspace; not_found when there is none.
func (u *unit) loadIdentity(ctx context.Context, id uuid.UUID) (*engine.Aggregate[identity.Identity], error) {
	i, err := engine.Load(ctx, u.Unit, u.Engine.Identities, identity.Stream(id))
	if err == nil && (!i.State.Exists() || i.State.Workspace != u.Request.Workspace) {
		err = engine.NotFound("service identity")
	}
	return i, err
}

// UpdateIdentity changes a service identity of the request's workspace, and with it what its token may do. grantor is
// as in CreateIdentity. Refusals: not_found, validation_failed, forbidden, conflict for the identity of an AI agent
// (rule ACC-27).
func (a *App) UpdateIdentity(ctx context.Context, req Request, id uuid.UUID, change identity.Change, grantor *apikey.Grantor) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		i, err := u.loadIdentity(ctx, id)
		if err != nil {
			return err
		}
		var issues issueList
		if change.AllowedLineIDs != nil {
			if err := issues.collect(u.checkLines(ctx, *change.AllowedLineIDs)); err != nil {
				return err
			}
		}
		if grantor.Limited() && i.State.KeyID != "" && !change.OnlyDisables() {
			key, err := u.loadAPIKey(ctx, i.State.KeyID)
			if err != nil {
				return err
			}
			if err := grantor.MayWiden(key.State); err != nil {
				return err
			}
		}
		changed, err := i.State.Update(change, grantor)
		if err := issues.collect(err); err != nil {
			return err
		}
		if err := issues.fault(); err != nil {
			return err
		}
		i.Record(changed...)
		u.Ref = id.String()
		return nil
	})
}
