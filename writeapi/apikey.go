package writeapi

import (
	"context"
	"time"

	"github.com/google/uuid"

	"ledgerline/commands"
	"ledgerline/domain/apikey"
	"ledgerline/domain/fault"
	"ledgerline/httpapi"
	"ledgerline/httpapi/auth"
	"ledgerline/projections"
)

// CreateAPIKey is the request of POST /v1/api-keys.
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

// grantor describes the caller as the one who makes or changes a credential.
func grantor(c *httpapi.Call) *apikey.Grantor {
	g := &apikey.Grantor{Test: c.Test, Allowlist: c.IPAllowlist, ExpiresAt: c.ExpiresAt}
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
	body := func(k commands.IssuedAPIKey) projections.APIKeyWithSecret {
		return projections.NewAPIKey(&k.Key, k.Secret, nil)
	}
	made, err := a.app.CreateAPIKey(ctx, request(c), commands.CreateAPIKey{
		Name: b.Name, Env: apikey.Env(b.Env), Scopes: b.Scopes, ExpiresAt: b.ExpiresAt, IPAllowlist: b.IPAllowlist,
		Grantor: grantor(c), Answer: recordedBody(c, body),
	})
	return resultWithBody(c, made.Result, made, body, err)
}

func (a *API) rotateAPIKey(ctx context.Context, c *httpapi.Call, in *httpapi.IDParam) (httpapi.WriteResult, error) {
	used, err := a.store.LastUse(ctx, in.ID)
	if err != nil {
		return httpapi.WriteResult{}, err
	}
	body := func(k commands.IssuedAPIKey) projections.APIKeyWithSecret {
		return projections.NewAPIKey(&k.Key, k.Secret, used)
	}
	made, err := a.app.RotateAPIKey(ctx, request(c), in.ID, grantor(c), recordedBody(c, body))
	return resultWithBody(c, made.Result, made, body, err)
}

func (a *API) revokeAPIKey(ctx context.Context, c *httpapi.Call, in *httpapi.IDParam) (httpapi.WriteResult, error) {
	return result(a.app.RevokeAPIKey(ctx, request(c), in.ID, grantor(c)))
}

func (a *API) apiKeys() resource[projections.APIKey] {
	return resource[projections.APIKey]{a.store, "API key", a.store.APIKey, consumers(projections.Credentials)}
}
