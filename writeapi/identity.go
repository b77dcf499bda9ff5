package writeapi

import (
	"context"

	"ledgerline/commands"
	"ledgerline/domain/apikey"
	"ledgerline/domain/fault"
	"ledgerline/domain/identity"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// CreateIdentity is the request of POST /v1/service-identities.
type CreateIdentity struct {
	Body struct {
		Name           string                  `json:"name" maxLength:"80"`
		Scopes         []string                `json:"scopes" enum:"read,send,admin" minItems:"1" maxItems:"3" nullable:"false" doc:"It gets those that you have yourself"`
		Kind           string                  `json:"kind,omitempty" enum:"mcp_client" default:"mcp_client"`
		Env            string                  `json:"env,omitempty" enum:"live,test" default:"live"`
		AllowedLineIDs []string                `json:"allowed_line_ids,omitempty" maxItems:"500" nullable:"false" doc:"Lines that it sends from; without any, all lines of the workspace"`
		DailyLimit     httpapi.Nullable[int64] `json:"daily_limit,omitzero" minimum:"1" maximum:"100000" doc:"Messages a usage day; null: no limit"`
	}
}

// Check implements httpapi.Checked.
func (in *CreateIdentity) Check() []fault.Issue { return apikey.NameIssues(in.Body.Name) }

func (a *API) createIdentity(ctx context.Context, c *httpapi.Call, in *CreateIdentity) (httpapi.WriteResult, error) {
	b := &in.Body
	body := func(i commands.CreatedIdentity) projections.IdentityWithToken {
		return projections.NewIdentity(&i.Identity, i.Token.Secret, i.Token.Key.CreatedAt)
	}
	made, err := a.app.CreateIdentity(ctx, request(c), commands.CreateIdentity{
		Name: b.Name, Kind: identity.Kind(b.Kind), Env: apikey.Env(b.Env), Scopes: b.Scopes, AllowedLineIDs: b.AllowedLineIDs,
		DailyLimit: b.DailyLimit.Ptr(), Grantor: grantor(c), Answer: recordedBody(c, body),
	})
	return resultWithBody(c, made.Result, made, body, err)
}

// ChangeIdentity is the request of PATCH /v1/service-identities/{id}. What is left out stays.
type ChangeIdentity struct {
	httpapi.UUIDParam
	Body struct {
		Name           *string                 `json:"name,omitempty" maxLength:"80"`
		Scopes         []string                `json:"scopes,omitempty" enum:"read,send,admin" minItems:"1" maxItems:"3" nullable:"false" doc:"In place of those it has; of new ones it gets those that you have yourself"`
		Status         *string                 `json:"status,omitempty" enum:"active,disabled" doc:"disabled stops the token at once"`
		AllowedLineIDs *[]string               `json:"allowed_line_ids,omitempty" maxItems:"500" nullable:"false" doc:"In place of those it has; empty: all lines of the workspace"`
		DailyLimit     httpapi.Nullable[int64] `json:"daily_limit,omitzero" minimum:"1" maximum:"100000" doc:"Messages a usage day; null: no limit"`
	}
}

// Check implements httpapi.Checked.
func (in *ChangeIdentity) Check() []fault.Issue {
	if in.Body.Name == nil {
		return nil
	}
	return apikey.NameIssues(*in.Body.Name)
}

func (a *API) changeIdentity(ctx context.Context, c *httpapi.Call, in *ChangeIdentity) (httpapi.WriteResult, error) {
	b := &in.Body
	change := identity.Change{
		Name: b.Name, Scopes: b.Scopes, AllowedLineIDs: b.AllowedLineIDs, DailyLimit: b.DailyLimit.Ptr(), SetDailyLimit: b.DailyLimit.Set,
	}
	if b.Status != nil {
		disabled := *b.Status == "disabled"
		change.Disabled = &disabled
	}
	return result(a.app.UpdateIdentity(ctx, request(c), in.ID, change, grantor(c)))
}

func (a *API) identities() resource[projections.Identity] {
	return resource[projections.Identity]{
		a.store, "service identity", a.store.Identity, consumers(projections.Credentials),
	}
}
