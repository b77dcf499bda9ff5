package commands

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/apikey"
	"ledgerline/domain/fault"
	"ledgerline/events"
)

// CreateAPIKey is what an API key is made of (administration 4.1).
type CreateAPIKey struct {
	Name        string
	Env         apikey.Env
	Scopes      []string
	ExpiresAt   *time.Time
	IPAllowlist []string
	// Grantor is who makes it, and limits what it may do; nil for the operator.
	Grantor *apikey.Grantor
	// Answer, when not nil, renders the answer so that it commits with the receipt.
	Answer func(IssuedAPIKey) ([]byte, error)
}

// IssuedAPIKey is a key that was just made or renewed. Secret is known here and nowhere else.
type IssuedAPIKey struct {
	Result
	ID     string
	Secret string
	Prefix string
	Key    apikey.Key
}

// CreateAPIKey makes a key of the request's workspace. Refusals: validation_failed with all that is wrong, forbidden for a
// scope or an environment that its maker does not have.
func (a *App) CreateAPIKey(ctx context.Context, req Request, in CreateAPIKey) (IssuedAPIKey, error) {
	k, err := a.secret(in.Env)
	if err != nil {
		return IssuedAPIKey{}, err
	}
	k.ID = a.engine.IDs.TypeID("key")
	k.Result, err = a.run(ctx, req, func(ctx context.Context, u *unit) error {
		if _, err := u.Workspace(ctx, req.Workspace); err != nil {
			return err
		}
		made, err := apikey.Create(events.APIKeyCreated{
			KeyID: k.ID, Name: in.Name, Env: string(in.Env), Scopes: in.Scopes, Prefix: k.Prefix,
			SecretHash: apikey.Hash(k.Secret), IPAllowlist: in.IPAllowlist, ExpiresAt: in.ExpiresAt,
		}, in.Grantor, u.Now)
		if err != nil {
			return err
		}
		u.newKey(&k, made)
		u.Ref = k.ID
		return answer(u, k, in.Answer)
	})
	if err != nil {
		return IssuedAPIKey{}, err
	}
	return k, nil
}

// secret makes up a secret.
func (a *App) secret(env apikey.Env) (IssuedAPIKey, error) {
	var random [apikey.RandomBytes]byte
	if _, err := io.ReadFull(a.engine.Random, random[:]); err != nil {
		return IssuedAPIKey{}, fmt.Errorf("commands: randomness: %w", err)
	}
	secret := apikey.NewSecret(env, random, a.apiKeyCheck)
	return IssuedAPIKey{Secret: secret, Prefix: apikey.Prefix(secret)}, nil
}

// newKey records a key that was made, and has its secret find it.
func (u *unit) newKey(k *IssuedAPIKey, made []events.Event) {
	key := engine.Begin(u.Unit, u.Engine.Keys, k.ID)
	key.Record(made...)
	k.Key = key.State
	u.claimSecret(k)
}

func (u *unit) claimSecret(k *IssuedAPIKey) {
	u.Claim(claimSecret, apikey.Hash(k.Secret), k.ID, func(string) error { return fault.New(fault.Internal, "The secret was made before.") })
}

// answer renders the answer of a command that shows a secret: it cannot be built again from a view.
func answer[T any](u *unit, made T, render func(T) ([]byte, error)) (err error) {
	if render == nil {
		return nil
	}
	if u.Body, err = render(made); err != nil {
		return fmt.Errorf("commands: render answer: %w", err)
	}
	return nil
}

// key loads a key of the request's workspace.
func (u *unit) key(ctx context.Context, id string) (*engine.Aggregate[apikey.Key], error) {
	key, err := engine.Load(ctx, u.Unit, u.Engine.Keys, id)
	if err == nil && (key.State.ID == "" || key.State.Workspace != u.Request.Workspace) {
		err = engine.NotFound("API key")
	}
	return key, err
}

// RotateAPIKey gives a key of the request's workspace another secret; the one before it stops at once, on every node. by
// says who asks, answer is as in CreateAPIKey. Refusals: not_found, forbidden, conflict for a key that has ended or that is
// an agent's.
func (a *App) RotateAPIKey(ctx context.Context, req Request, keyID string, by *apikey.Grantor, render func(IssuedAPIKey) ([]byte, error)) (IssuedAPIKey, error) {
	var k IssuedAPIKey
	result, err := a.run(ctx, req, func(ctx context.Context, u *unit) error {
		key, err := u.key(ctx, keyID)
		if err != nil {
			return err
		}
		if key.State.Identity != uuid.Nil {
			i, err := u.identity(ctx, key.State.Identity)
			if err != nil {
				return err
			}
			key.State.Scopes = i.State.Scopes
			if err := i.State.MayChangeToken(); err != nil {
				return err
			}
		}
		if k, err = a.secret(key.State.Env); err != nil {
			return err
		}
		rotated, err := key.State.Rotate(k.Prefix, apikey.Hash(k.Secret), by, u.Now)
		if err != nil {
			return err
		}
		key.Record(rotated...)
		k.ID, k.Key = keyID, key.State
		u.claimSecret(&k)
		u.Ref = keyID
		return answer(u, k, render)
	})
	if err != nil {
		return IssuedAPIKey{}, err
	}
	k.Result = result
	return k, nil
}

// RevokeAPIKey ends a key of the request's workspace at once and for good; again is no event. The key of an agent is
// refused with conflict.
func (a *App) RevokeAPIKey(ctx context.Context, req Request, keyID string) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		key, err := u.key(ctx, keyID)
		if err != nil {
			return err
		}
		if key.State.Identity != uuid.Nil {
			i, err := u.identity(ctx, key.State.Identity)
			if err != nil {
				return err
			}
			if err := i.State.MayChangeToken(); err != nil {
				return err
			}
		}
		key.Record(key.State.Revoke()...)
		u.Ref = keyID
		return nil
	})
}
