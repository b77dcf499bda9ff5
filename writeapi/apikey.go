package writeapi

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"ledgerline/commands"
	"ledgerline/domain/apikey"
	"ledgerline/domain/fault"
	"ledgerline/httpapi"
	"ledgerline/httpapi/auth"
	"ledgerline/projections"
)

// CreateAPIKey is the request of POST /v1/api-keys (administration 4.1).
type CreateAPIKey struct {
	Body struct {
		Name        string     `json:"name" maxLength:"80"`
		Scopes      []string   `json:"scopes" enum:"read,send,admin" minItems:"1" maxItems:"3" nullable:"false" doc:"Only scopes that you have yourself"`
		Env         string     `json:"env,omitempty" enum:"live,test" default:"live"`
		ExpiresAt   *time.Time `json:"expires_at,omitempty" doc:"Never, if it is left out"`
		IPAllowlist []string   `json:"ip_allowlist,omitempty" maxItems:"50" nullable:"false" doc:"IPv4 and IPv6 addresses and CIDR blocks; without any, the key may be used from everywhere"`
	}
}

// Check implements httpapi.Checked.
func (in *CreateAPIKey) Check() []fault.Issue {
	return append(apikey.NameIssues(in.Body.Name), apikey.AddressIssues(in.Body.IPAllowlist)...)
}

// grantor says in the domain's terms who makes or changes a credential.
func grantor(c *httpapi.Call) *apikey.Grantor {
	g := &apikey.Grantor{Test: c.Test}
	for _, scope := range c.Grants() {
		g.Scopes = append(g.Scopes, apikey.Scope(scope))
	}
	if c.Kind == auth.KindIdentity {
		g.Identity = uuid.MustParse(c.ID)
	}
	return g
}

func (a *API) createAPIKey(ctx context.Context, c *httpapi.Call, in *CreateAPIKey) (httpapi.WriteResult, error) {
	b := &in.Body
	show := func(k commands.APIKey) projections.APIKeyWithSecret {
		return projections.NewAPIKey(&k.Key, k.Secret, nil)
	}
	made, err := a.app.CreateAPIKey(ctx, request(c), commands.CreateAPIKey{
		Name: b.Name, Env: apikey.Env(b.Env), Scopes: b.Scopes, ExpiresAt: b.ExpiresAt, IPAllowlist: b.IPAllowlist, By: grantor(c),
		Answer: stored(c, show),
	})
	return shownOnce(c, made.Result, show(made), err)
}

func (a *API) rotateAPIKey(ctx context.Context, c *httpapi.Call, in *httpapi.IDParam) (httpapi.WriteResult, error) {
	used, err := a.store.LastUse(ctx, in.ID)
	if err != nil {
		return httpapi.WriteResult{}, err
	}
	show := func(k commands.APIKey) projections.APIKeyWithSecret {
		return projections.NewAPIKey(&k.Key, k.Secret, used)
	}
	made, err := a.app.RotateAPIKey(ctx, request(c), in.ID, grantor(c), stored(c, show))
	return shownOnce(c, made.Result, show(made), err)
}

// stored renders an answer into the receipt of a request with an idempotency key: it holds a secret, which no view knows.
func stored[Made, Out any](c *httpapi.Call, show func(Made) Out) func(Made) ([]byte, error) {
	if c.Idempotency == nil {
		return nil
	}
	return func(made Made) ([]byte, error) { return json.Marshal(show(made)) }
}

// shownOnce answers with what holds a secret.
func shownOnce(c *httpapi.Call, r commands.Result, out any, err error) (httpapi.WriteResult, error) {
	d, err := done(r, err)
	if err == nil {
		d.Body, d.BodyStored = out, c.Idempotency != nil
	}
	return d, err
}

func (a *API) revokeAPIKey(ctx context.Context, c *httpapi.Call, in *httpapi.IDParam) (httpapi.WriteResult, error) {
	return done(a.app.RevokeAPIKey(ctx, request(c), in.ID))
}

// apiKey is the view that answers a revocation.
func (a *API) apiKey(ctx context.Context, c *httpapi.Call, d httpapi.WriteResult) (projections.APIKey, error) {
	if err := a.reach(ctx, d, projections.Credentials); err != nil {
		return projections.APIKey{}, err
	}
	found, ok, err := a.store.APIKey(ctx, viewer(c, d.Shard), d.Ref)
	if err == nil && !ok {
		err = gone("API key")
	}
	return found, err
}
