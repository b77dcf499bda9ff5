package writeapi

import (
	"context"

	"ledgerline/domain/agent"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// CreateAgent is the request of POST /v1/agents.
type CreateAgent struct {
	Body struct {
		Name           string                  `json:"name" maxLength:"120" doc:"Unique in the workspace"`
		Instructions   string                  `json:"instructions" maxLength:"20000" doc:"What the model is told in every conversation"`
		Model          string                  `json:"model,omitempty" maxLength:"100" doc:"Name of the model; left out: the one that the installation names"`
		AllowedLineIDs []string                `json:"allowed_line_ids,omitempty" maxItems:"500" nullable:"false" doc:"Lines that it sends from; without any, all lines of the workspace"`
		DailyLimit     httpapi.Nullable[int64] `json:"daily_limit,omitzero" minimum:"1" maximum:"100000" doc:"Answers a usage day; null: no limit"`
	}
}

func (a *API) createAgent(ctx context.Context, c *httpapi.Call, in *CreateAgent) (httpapi.WriteResult, error) {
	b := &in.Body
	return result(a.app.CreateAgent(ctx, request(c), agent.Properties{
		Name: b.Name, Instructions: b.Instructions, Model: b.Model, AllowedLineIDs: b.AllowedLineIDs, DailyLimit: b.DailyLimit.Ptr(),
	}))
}

// UpdateAgent is the request of PATCH /v1/agents/{id}. What is left out stays.
type UpdateAgent struct {
	httpapi.UUIDParam
	Body struct {
		Name           *string                 `json:"name,omitempty" maxLength:"120" doc:"Unique in the workspace"`
		Instructions   *string                 `json:"instructions,omitempty" maxLength:"20000" doc:"What the model is told in every conversation"`
		Model          *string                 `json:"model,omitempty" maxLength:"100" doc:"Name of the model; empty: the one that the installation names"`
		AllowedLineIDs *[]string               `json:"allowed_line_ids,omitempty" maxItems:"500" nullable:"false" doc:"In place of those it has; empty: all lines of the workspace"`
		DailyLimit     httpapi.Nullable[int64] `json:"daily_limit,omitzero" minimum:"1" maximum:"100000" doc:"Answers a usage day; null: no limit"`
		Status         *agent.Status           `json:"status,omitempty" enum:"draft,live,paused" doc:"A draft becomes live; live and paused change into one another"`
	}
}

func (a *API) updateAgent(ctx context.Context, c *httpapi.Call, in *UpdateAgent) (httpapi.WriteResult, error) {
	b := &in.Body
	return result(a.app.UpdateAgent(ctx, request(c), in.ID, agent.Change{
		Name: b.Name, Instructions: b.Instructions, Model: b.Model, AllowedLineIDs: b.AllowedLineIDs, DailyLimit: b.DailyLimit.Ptr(),
		SetDailyLimit: b.DailyLimit.Set, Status: b.Status,
	}))
}

func (a *API) agents() resource[projections.Agent] {
	return resource[projections.Agent]{a.store, "agent", byUUID(a.store.Agent), consumers(projections.Agents)}
}
