package commands

import (
	"context"

	"ledgerline/commands/engine"
	"ledgerline/domain/agent"
	"ledgerline/domain/conversation"
	"ledgerline/domain/workflow"
)

// ai gives the conversation to an agent and waits until it has ended (rule WFL-15). An agent that is not live hands the
// conversation over at once.
func (r *runUnit) ai(ctx context.Context, s *workflow.Step) error {
	a, err := agents.load(ctx, r.unit, s.AI.AgentID)
	found, err := foundUnless(err)
	switch {
	case err != nil:
		return err
	case !found:
		r.fail(s, workflow.CodeReferenceMissing)
		return nil
	case a.State.Status != agent.Live:
		r.run.Record(r.run.State.EndAI(s, workflow.LabelHandoff))
		return nil
	}
	conv, err := engine.Load(ctx, r.Unit, r.Engine.Conversations, r.contact.State.ConversationID)
	if err != nil {
		return err
	}
	if !conv.State.Exists() {
		conv.Record(conv.State.EnsureOpen(r.contact.State.ConversationID, r.contact.State.ID, r.contact.State.IsTest)...)
	}
	conv.Record(conv.State.HandleByAgent(s.AI.AgentID)...)
	r.run.Record(r.run.State.BeginAI(s, r.Now))
	return nil
}

// endAI ends the wait for an agent: it has finished, handed over or lost the conversation, or its time is over. again
// is false while it still handles the conversation.
func (r *runUnit) endAI(ctx context.Context, s *workflow.Step) (again bool, err error) {
	conv, err := engine.Load(ctx, r.Unit, r.Engine.Conversations, r.contact.State.ConversationID)
	if err != nil {
		return false, err
	}
	last := conv.State.LastAgent
	handler, handles := conv.State.Agent()
	switch {
	case handles && handler == s.AI.AgentID:
		if r.run.State.ResumeAt == nil || r.Now.Before(*r.run.State.ResumeAt) {
			return false, nil
		}
		conv.Record(conv.State.HandleByTeam()...)
		r.run.Record(r.run.State.EndAI(s, workflow.LabelTimeout))
	case last.ID == s.AI.AgentID && last.Finished:
		r.run.Record(r.run.State.EndAI(s, workflow.LabelDone))
	case last.ID == s.AI.AgentID && last.Reason == agent.ReasonUnavailable && s.Next(workflow.LabelHandoff) == "":
		r.fail(s, workflow.CodeAgentUnavailable)
	default:
		r.run.Record(r.run.State.EndAI(s, workflow.LabelHandoff))
	}
	return true, nil
}

// agentHandler returns the handler that a run gave a conversation to when it was waiting for an agent before this unit;
// "" when it was not.
func (r *runUnit) agentHandler(ctx context.Context) (string, error) {
	before := r.run.Before()
	if before.Status != workflow.RunWaiting {
		return "", nil
	}
	v, err := r.loadVersion(ctx, before.VersionID)
	if err != nil {
		return "", err
	}
	if s := v.Plan.Steps[before.Node]; s != nil && s.Type == workflow.NodeAI {
		return conversation.AgentPrefix + s.AI.AgentID.String(), nil
	}
	return "", nil
}
