package commands

import (
	"context"
	"time"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/apikey"
	"ledgerline/domain/fault"
	"ledgerline/events"
)

// secretClaimScope is the scope of the claims by which a key is found: the claimed key is the SHA-256 of the secret,
// the owner is the API key's id.
const secretClaimScope = "api_key"

// CreateAPIKey has the properties of an API key (rules ACC-2 to ACC-5).
type CreateAPIKey struct {
	Name        string
	Env         apikey.Env
	Scopes      []string
	ExpiresAt   *time.Time
	IPAllowlist []string
	// Grantor creates the key and limits what the key may do (rule ACC-22); nil for the operator.
	Grantor *apikey.Grantor
	// Answer, when not nil, renders the answer so that it commits with the idempotency record.
	Answer func(IssuedAPIKey) ([]byte, error)
}

// IssuedAPIKey is a key that was created or rotated. Secret is not stored and cannot be read again.
type IssuedAPIKey struct {
	Result
	ID     string
	Secret string
	Prefix string
	Key    apikey.Key
}

// CreateAPIKey creates an API key of the request's workspace. Refusals: validation_failed with all that is wrong,
// forbidden for a scope or an environment that the grantor does not have.
func (a *App) CreateAPIKey(ctx context.Context, req Request, in CreateAPIKey) (IssuedAPIKey, error) {
	issued, err := a.newSecret(in.Env)
	if err != nil {
		return IssuedAPIKey{}, err
	}
	issued.ID = a.engine.IDs.TypeID("key")
	issued.Result, err = a.run(ctx, req, func(ctx context.Context, u *unit) error {
		if _, err := u.Workspace(ctx, req.Workspace); err != nil {
			return err
		}
		created, err := apikey.Create(events.APIKeyCreated{
			KeyID: issued.ID, Name: in.Name, Env: string(in.Env), Scopes: in.Scopes, Prefix: issued.Prefix,
			SecretHash: apikey.Hash(issued.Secret), IPAllowlist: in.IPAllowlist, ExpiresAt: in.ExpiresAt,
		}, in.Grantor, u.Now)
		if err != nil {
			return err
		}
		u.recordNewAPIKey(&issued, created)
		u.Ref = issued.ID
		return renderAnswer(u, issued, in.Answer)
	})
	if err != nil {
		return IssuedAPIKey{}, err
	}
	return issued, nil
}

// newSecret makes a secret and its public prefix; the other fields are empty.
func (a *App) newSecret(env apikey.Env) (IssuedAPIKey, error) {
	var random [apikey.RandomBytes]byte
	if err := a.random(random[:]); err != nil {
		return IssuedAPIKey{}, err
	}
	secret := apikey.NewSecret(env, random, a.apiKeyCheck)
	return IssuedAPIKey{Secret: secret, Prefix: apikey.Prefix(secret)}, nil
}

// recordNewAPIKey records a new key, claims its secret, and sets issued.Key.
func (u *unit) recordNewAPIKey(issued *IssuedAPIKey, created []events.Event) {
	key := engine.Begin(u.Unit, u.Engine.Keys, issued.ID)
	key.Record(created...)
	issued.Key = key.State
	u.claimSecret(issued)
	u.countInWorkspace("API key", 1, maxAPIKeys)
}

func (u *unit) claimSecret(issued *IssuedAPIKey) {
	u.Claim(secretClaimScope, apikey.Hash(issued.Secret), issued.ID, func(string) error {
		return fault.New(fault.Internal, "The secret was made before.")
	})
}

// loadAPIKey loads an API key of the request's workspace; not_found when there is none.
func (u *unit) loadAPIKey(ctx context.Context, id string) (*engine.Aggregate[apikey.Key], error) {
	key, err := engine.Load(ctx, u.Unit, u.Engine.Keys, id)
	if err == nil && (key.State.ID == "" || key.State.Workspace != u.Request.Workspace) {
		err = engine.NotFound("API key")
	}
	return key, err
}

// RotateAPIKey gives a key of the request's workspace another secret; the old one stops at once, on every node (rule
// ACC-6). grantor and answer are as in CreateAPIKey. Refusals: not_found, forbidden, conflict for a key that is revoked
// or expired and for the token of an AI agent.
func (a *App) RotateAPIKey(ctx context.Context, req Request, keyID string, grantor *apikey.Grantor, answer func(IssuedAPIKey) ([]byte, error)) (IssuedAPIKey, error) {
	var issued IssuedAPIKey
	result, err := a.run(ctx, req, func(ctx context.Context, u *unit) error {
		key, err := u.loadAPIKey(ctx, keyID)
		if err != nil {
			return err
		}
		if key.State.Identity != uuid.Nil {
			i, err := u.loadIdentity(ctx, key.State.Identity)
			if err != nil {
				return err
			}
			key.State.Scopes = i.State.Scopes
			if err := i.State.MayChangeToken(); err != nil {
				return err
			}
		}
		if issued, err = a.newSecret(key.State.Env); err != nil {
			return err
		}
		rotated, err := key.State.Rotate(issued.Prefix, apikey.Hash(issued.Secret), grantor, u.Now)
		if err != nil {
			return err
		}
		key.Record(rotated...)
		issued.ID, issued.Key = keyID, key.State
		u.claimSecret(&issued)
		u.Ref = keyID
		return renderAnswer(u, issued, answer)
	})
	if err != nil {
		return IssuedAPIKey{}, err
	}
	issued.Result = result
	return issued, nil
}

// RevokeAPIKey revokes a key of the request's workspace at once and for good. Revoking it again records no event.
// grantor is as in CreateAPIKey. Refusals: not_found, forbidden, conflict for the token of an AI agent.
func (a *App) RevokeAPIKey(ctx context.Context, req Request, keyID string, grantor *apikey.Grantor) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		key, err := u.loadAPIKey(ctx, keyID)
		if err != nil {
			return err
		}
		if key.State.Identity != uuid.Nil {
			i, err := u.loadIdentity(ctx, key.State.Identity)
			if err != nil {
				return err
			}
			if err := i.State.MayChangeToken(); err != nil {
				return err
			}
		}
		revoked, err := key.State.Revoke(grantor)
		if err != nil {
			return err
		}
		if len(revoked) > 0 {
			key.Record(revoked...)
			u.countInWorkspace("API key", -1, maxAPIKeys)
		}
		u.Ref = keyID
		return nil
	})
}
