package commands

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/apikey"
	"ledgerline/domain/identity"
	"ledgerline/events"
)

// CreateIdentity is what a service identity is made of (administration 4.2).
type CreateIdentity struct {
	Name           string
	Kind           identity.Kind
	Env            apikey.Env
	Scopes         []string
	AllowedLineIDs []string
	DailyLimit     *int64
	// Grantor is who makes it, and limits what it may do; nil for the operator.
	Grantor *apikey.Grantor
	// Answer, when not nil, renders the answer so that it commits with the receipt.
	Answer func(CreatedIdentity) ([]byte, error)
}

// CreatedIdentity is a service identity that was just made. Its token's secret is known here and nowhere else.
type CreatedIdentity struct {
	Result
	Identity identity.Identity
	Token    IssuedAPIKey
}

// CreateIdentity makes a service identity of the request's workspace together with its token. It gets those of the wanted
// scopes that its maker has. Refusals: validation_failed with all that is wrong, forbidden when no scope is left.
func (a *App) CreateIdentity(ctx context.Context, req Request, in CreateIdentity) (CreatedIdentity, error) {
	id := a.engine.IDs.UUID()
	token, err := a.secret(in.Env)
	if err != nil {
		return CreatedIdentity{}, err
	}
	token.ID = a.engine.IDs.TypeID("key")
	made := CreatedIdentity{Token: token}
	made.Result, err = a.run(ctx, req, func(ctx context.Context, u *unit) error {
		if _, err := u.Workspace(ctx, req.Workspace); err != nil {
			return err
		}
		var issues issueList
		if err := issues.collect(u.checkLines(ctx, in.AllowedLineIDs, "/allowed_line_ids")); err != nil {
			return err
		}
		created, err := identity.Create(events.IdentityCreated{
			IdentityID: id, Name: in.Name, Kind: string(in.Kind), Env: string(in.Env), Scopes: in.Scopes, KeyID: token.ID,
			AllowedLineIDs: in.AllowedLineIDs, DailyLimit: in.DailyLimit,
		}, in.Grantor)
		if err := issues.collect(err); err != nil {
			return err
		}
		if err := issues.fault(); err != nil {
			return err
		}
		i := engine.Begin(u.Unit, a.engine.Identities, identity.Stream(id))
		i.Record(created...)
		made.Identity = i.State
		u.newKey(&made.Token, []events.Event{&events.APIKeyCreated{
			KeyID: token.ID, Name: in.Name, Env: string(in.Env), Scopes: apikey.ScopeNames(i.State.Scopes), Prefix: token.Prefix,
			SecretHash: apikey.Hash(token.Secret), IdentityID: &id,
		}})
		u.Ref = id.String()
		return answer(u, made, in.Answer)
	})
	if err != nil {
		return CreatedIdentity{}, err
	}
	return made, nil
}

// identity loads a service identity of the request's workspace.
func (u *unit) identity(ctx context.Context, id uuid.UUID) (*engine.Aggregate[identity.Identity], error) {
	i, err := engine.Load(ctx, u.Unit, u.Engine.Identities, identity.Stream(id))
	if err == nil && (!i.State.Exists() || i.State.Workspace != u.Request.Workspace) {
		err = engine.NotFound("service identity")
	}
	return i, err
}

// UpdateIdentity changes a service identity of the request's workspace: what its token may do changes with the same append.
// Refusals: not_found, validation_failed, forbidden, conflict for the identity of an agent.
func (a *App) UpdateIdentity(ctx context.Context, req Request, id uuid.UUID, change identity.Change, by *apikey.Grantor) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		i, err := u.identity(ctx, id)
		if err != nil {
			return err
		}
		var issues issueList
		if change.AllowedLineIDs != nil {
			if err := issues.collect(u.checkLines(ctx, *change.AllowedLineIDs, "/allowed_line_ids")); err != nil {
				return err
			}
		}
		changed, err := i.State.Update(change, by)
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
