package commands

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/agent"
	"ledgerline/domain/apikey"
	"ledgerline/domain/identity"
	"ledgerline/events"
)

var agents = named[uuid.UUID, agent.Agent]{
	noun: "agent", nameField: "name", most: maxAgents,
	kind:      func(e *engine.Engine) engine.Kind[agent.Agent] { return e.Agents },
	stream:    agent.Stream,
	exists:    agent.Agent.Exists,
	workspace: func(a agent.Agent) uuid.UUID { return a.Workspace },
	claim:     func(a agent.Agent) (scope, key string) { return agent.Claim(a.Workspace, a.Name) },
}

// agentScopes are the scopes of the service identity of an agent (rule AGT-4).
var agentScopes = []string{string(apikey.Read), string(apikey.Send)}

// CreateAgent creates an agent of the request's workspace as a draft, with its service identity; Ref is its id.
// Refusals: validation_failed with all that is wrong, conflict for a name that exists.
func (a *App) CreateAgent(ctx context.Context, req Request, in agent.Properties) (Result, error) {
	id, identityID := a.engine.IDs.UUID(), a.engine.IDs.UUID()
	return agents.create(ctx, a, req, id, func(ctx context.Context, u *unit) ([]events.Event, error) {
		if _, err := u.Workspace(ctx, req.Workspace); err != nil {
			return nil, err
		}
		created, err := agent.Create(id, identityID, in)
		var issues issueList
		if err := issues.collect(u.checkLines(ctx, in.AllowedLineIDs), err); err != nil {
			return nil, err
		}
		if err := issues.fault(); err != nil {
			return nil, err
		}
		acting, err := identity.Create(events.IdentityCreated{
			IdentityID: identityID, Name: in.IdentityName(), Kind: string(identity.AIAgent), Scopes: agentScopes, AllowedLineIDs: in.AllowedLineIDs,
			DailyLimit: in.DailyLimit,
		}, nil)
		if err != nil {
			return nil, err
		}
		engine.Begin(u.Unit, a.engine.Identities, identity.Stream(identityID)).Record(acting...)
		return created, nil
	})
}

// UpdateAgent changes an agent of the request's workspace, and its service identity with it. Refusals: not_found,
// validation_failed, conflict for a name that another agent has and for a move that is not possible (rules AGT-2 and
// AGT-3).
func (a *App) UpdateAgent(ctx context.Context, req Request, id uuid.UUID, change agent.Change) (Result, error) {
	return agents.update(ctx, a, req, id, func(ctx context.Context, u *unit, s agent.Agent) ([]events.Event, error) {
		changed, err := s.Update(change, a.hasModel)
		var issues issueList
		if change.AllowedLineIDs != nil {
			if err := issues.collect(u.checkLines(ctx, *change.AllowedLineIDs)); err != nil {
				return nil, err
			}
		}
		if err := issues.collect(err); err != nil {
			return nil, err
		}
		if err := issues.fault(); err != nil {
			return nil, err
		}
		for _, e := range changed {
			s = s.Apply(e, events.Envelope{})
		}
		return changed, u.followAgent(ctx, &s)
	})
}

// followAgent makes the service identity of an agent have the agent's name, lines and limit (rule AGT-4).
func (u *unit) followAgent(ctx context.Context, s *agent.Agent) error {
	i, err := engine.Load(ctx, u.Unit, u.Engine.Identities, identity.Stream(s.IdentityID))
	if err != nil {
		return err
	}
	name, lines := s.IdentityName(), s.AllowedLineIDs
	changed, err := i.State.UpdateAnyKind(identity.Change{Name: &name, AllowedLineIDs: &lines, DailyLimit: s.DailyLimit, SetDailyLimit: true}, nil)
	if err == nil {
		i.Record(changed...)
	}
	return err
}
