package readapi

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/httpapi"
	"ledgerline/httpapi/auth"
	"ledgerline/projections"
)

// teams answers GET /v1/teams.
func (a *API) teams(ctx context.Context, c *httpapi.Call, _ *struct{}) (httpapi.List[projections.Team], error) {
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.Directory); err != nil {
		return httpapi.List[projections.Team]{}, err
	}
	found, err := a.store.Teams(ctx, v)
	if c.Kind != auth.KindSession { // API keys may see the names of teams only
		for i := range found {
			found[i].MemberIDs = nil
		}
	}
	return httpapi.List[projections.Team]{Data: found}, err
}

// Me is the caller of a request, and what the caller may do.
type Me struct {
	Type string `json:"type" enum:"user,key,identity"`
	ID   string `json:"id" doc:"The id of the user, the key or the identity"`
	projections.CallerWorkspace

	Env    string              `json:"env" enum:"live,test"`
	Scopes []string            `json:"scopes" doc:"Of an API key"`
	Role   *string             `json:"role" enum:"owner,admin,billing,manager,agent,developer,analyst" doc:"Of a signed-in user, in this workspace; null while none is chosen"`
	User   *projections.Person `json:"user" doc:"null for API keys"`
}

// me answers GET /v1/me.
func (a *API) me(ctx context.Context, c *httpapi.Call, _ *struct{}) (Me, error) {
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.Directory); err != nil {
		return Me{}, err
	}
	workspace, found, err := a.store.CallerWorkspace(ctx, c.OrganisationID, c.WorkspaceID)
	if err == nil && !found {
		err = fault.New(fault.NotFound, "There is no such organisation.")
	}
	if err != nil {
		return Me{}, err
	}
	me := Me{Type: string(c.Kind), ID: c.ID, CallerWorkspace: workspace, Env: "live"}
	if c.Test {
		me.Env = "test"
	}
	for _, scope := range c.Scopes {
		me.Scopes = append(me.Scopes, string(scope))
	}
	if c.Kind != auth.KindSession {
		return me, nil
	}
	me.Type = "user"
	if role := string(c.Role); role != "" {
		me.Role = &role
	}
	person, found, err := a.store.Person(ctx, v, uuid.MustParse(c.ID))
	if found {
		me.User = &person
	}
	return me, err
}
