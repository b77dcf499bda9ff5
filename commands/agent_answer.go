package commands

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"unicode/utf8"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/agent"
	"ledgerline/domain/consent"
	"ledgerline/domain/contact"
	"ledgerline/domain/conversation"
	"ledgerline/domain/fault"
	"ledgerline/domain/line"
	"ledgerline/events"
	"ledgerline/eventstore"
)

// AgentConversation is what decides whether an agent has something to answer in a conversation.
type AgentConversation struct {
	Conversation conversation.Conversation
	Agent        agent.Agent // the zero value when no agent handles the conversation
	FirstName    string      // of the contact; "" when it is not known
	OptedOut     bool        // the contact may not be messaged
	LimitReached bool        // the agent's answers of this usage day are used up
	StopWords    []string    // of the organisation
}

// FindAgentConversation reads a conversation from the ledger together with the agent that handles it. The zero value
// stands for a conversation that does not exist, or whose contact was erased.
func (a *App) FindAgentConversation(ctx context.Context, id string) (AgentConversation, error) {
	var found AgentConversation
	conv, err := a.engine.Conversations.Find(ctx, id, true)
	if err != nil || !conv.Exists() {
		return found, err
	}
	req := Request{Organisation: conv.Organisation, Workspace: conv.Workspace, Actor: events.Actor{Type: "system", ID: AgentsActor}}
	u := a.unit(&req)
	c, err := u.loadContact(ctx, conv.ContactID)
	if fault.Is(err, fault.NotFound) {
		return found, nil
	}
	if err != nil {
		return found, err
	}
	num, err := u.NumberByHash(ctx, c.State.NumberHash)
	if err != nil {
		return found, err
	}
	org, err := u.Organisation(ctx)
	if err != nil {
		return found, err
	}
	found = AgentConversation{
		Conversation: conv, OptedOut: isOptedOut(c, num), StopWords: org.State.Settings.StopWords,
	}
	if c.State.FirstName != nil {
		found.FirstName = *c.State.FirstName
	}
	agentID, ok := conv.Agent()
	if !ok {
		return found, nil
	}
	if found.Agent, err = a.engine.Agents.Find(ctx, agent.Stream(agentID), true); err != nil || found.Agent.DailyLimit == nil {
		return found, err
	}
	q := answersQuota(&found.Agent, line.DayOf(u.Now))
	used, err := a.engine.Ledger.QuotaUsage(ctx, []eventstore.QuotaWindow{{Key: q.Key, From: q.From}})
	if err != nil {
		return found, engine.Unreadable(err)
	}
	var answers int64
	for _, b := range used[0] {
		answers += b.Used
	}
	found.LimitReached = answers >= q.Limit
	return found, nil
}

func isOptedOut(c *engine.Aggregate[contact.Contact], num engine.Number) bool {
	return c.State.Consent == consent.OptedOut || num.State.OptedOut
}

// AgentsActor is the actor of what the service does for agents without one of them acting.
const AgentsActor = "agents"

// answersQuota counts the answers of an agent in a usage day, when it has a limit.
func answersQuota(a *agent.Agent, day line.Day) eventstore.Quota {
	q := eventstore.Quota{Key: "agent_answers:" + a.ID.String(), Bucket: day.Start, From: day.Start, Add: 1}
	if a.DailyLimit != nil {
		q.Limit = *a.DailyLimit
	}
	return q
}

// AgentAnswer is what a model answered in a conversation.
type AgentAnswer struct {
	ConversationID string
	AgentID        uuid.UUID
	QuestionID     string  // the newest message that the model saw from the contact
	Text           string  // "" when the model only used a tool
	Handoff        *string // reason, when it hands the conversation to people
	Finish         bool    // it has nothing more to do
}

// AgentOutcome is what became of an answer.
type AgentOutcome int

// The outcomes.
const (
	AgentDone      AgentOutcome = iota // it was recorded
	AgentOvertaken                     // the contact has written again: the answer is thrown away
	AgentStopped                       // the agent does not handle the conversation any more, or is not live
	AgentOptedOut                      // the contact may not be messaged
)

// maxAnswer is the longest answer, in characters; longer ones are cut (rule AGT-10).
const maxAnswer = 2000

// AnswerAsAgent accepts the answer of an agent as a message, and lets its tools act, in one append (rules AGT-8 to
// AGT-12). If the message is refused, for another reason than an opt-out, the conversation is handed over with the code
// of the refusal; if the answers of the usage day are used up, with agent_daily_limit.
func (a *App) AnswerAsAgent(ctx context.Context, in AgentAnswer) (AgentOutcome, error) {
	outcome := AgentDone
	err := a.asAgent(ctx, in.ConversationID, in.AgentID, func(ctx context.Context, u *unit, acting *agent.Agent, conv *engine.Aggregate[conversation.Conversation]) error {
		outcome = AgentDone
		switch {
		case conv == nil || acting.Status != agent.Live:
			outcome = AgentStopped
			return nil
		case conv.State.IsOvertaken(in.QuestionID):
			outcome = AgentOvertaken
			return nil
		}
		return u.recordAgentAnswer(ctx, &in, acting, conv)
	})
	if exists := (*IdempotencyRecordExists)(nil); errors.As(err, &exists) { // the message was answered before
		return AgentDone, nil
	}
	switch refused := fault.Of(err); {
	case refused == nil || refused.Code == fault.Unavailable:
		return outcome, err
	case refused.Code == fault.ContactOptedOut:
		return AgentOptedOut, nil
	case refused.Code == fault.RateLimited:
		return AgentDone, a.HandOffByAgent(ctx, in.ConversationID, in.AgentID, agent.ReasonDailyLimit)
	default:
		return AgentDone, a.HandOffByAgent(ctx, in.ConversationID, in.AgentID, string(refused.Code))
	}
}

// asAgent runs a command in the name of the service identity of an agent, on a conversation that it handles. conv is
// nil when it does not handle the conversation any more.
func (a *App) asAgent(
	ctx context.Context, conversationID string, agentID uuid.UUID,
	do func(context.Context, *unit, *agent.Agent, *engine.Aggregate[conversation.Conversation]) error,
) error {
	_, err := a.run(ctx, Request{}, func(ctx context.Context, u *unit) error {
		acting, err := engine.Load(ctx, u.Unit, u.Engine.Agents, agent.Stream(agentID))
		if err != nil {
			return err
		}
		s := &acting.State
		u.Request.Organisation, u.Request.Workspace = s.Organisation, s.Workspace
		u.Request.Actor, u.Request.Idempotency = events.Actor{Type: "identity", ID: s.IdentityID.String()}, nil
		conv, err := u.loadConversation(ctx, conversationID, uuid.Nil)
		if found, err := foundUnless(err); err != nil || !found {
			conv = nil
			if err != nil {
				return err
			}
		}
		if conv != nil {
			if handler, ok := conv.State.Agent(); !ok || handler != agentID {
				conv = nil
			}
		}
		return do(ctx, u, s, conv)
	})
	return err
}

func (u *unit) recordAgentAnswer(ctx context.Context, in *AgentAnswer, acting *agent.Agent, conv *engine.Aggregate[conversation.Conversation]) error {
	var answerID *string
	if in.Text != "" {
		queued, err := u.acceptMessage(ctx, &AcceptMessage{
			Reply: &ReplyTo{ConversationID: in.ConversationID}, Body: cut(in.Text, maxAnswer), Source: "agent",
		})
		if err != nil {
			return err
		}
		answerID = &queued.MessageID
		if acting.DailyLimit != nil {
			u.Quota(answersQuota(acting, line.DayOf(u.Now)), fault.New(fault.RateLimited, "The answers of the agent are used up for today."))
		}
		key := conversation.AgentPrefix + in.QuestionID
		fingerprint := sha256.Sum256([]byte(key))
		u.Request.Idempotency = &IdempotencyRecord{Workspace: u.Request.Workspace, Key: key, Fingerprint: fingerprint[:], Status: http.StatusCreated}
		u.Ref, u.Subject = queued.MessageID, conv.State.ContactID
	}
	conv.Record(conv.State.RecordAnswer(in.AgentID, in.QuestionID, answerID)...)
	switch {
	case in.Handoff != nil:
		return u.handOffWithNote(conv, *in.Handoff)
	case in.Finish:
		conv.Record(conv.State.FinishByAgent()...)
	}
	return nil
}

// handOffWithNote gives a conversation to the team and adds the reason as a note.
func (u *unit) handOffWithNote(conv *engine.Aggregate[conversation.Conversation], reason string) error {
	reason = cut(reason, conversation.MaxReason)
	handed, _ := conv.State.Handoff(reason)
	conv.Record(handed...)
	return u.addNote(conv, u.Engine.IDs.UUID(), reason)
}

// HandOffByAgent gives a conversation that an agent handles to the team, with the reason as a note (rules AGT-13 to
// AGT-15). If the agent does not handle it any more, nothing happens.
func (a *App) HandOffByAgent(ctx context.Context, conversationID string, agentID uuid.UUID, reason string) error {
	return a.asAgent(ctx, conversationID, agentID, func(_ context.Context, u *unit, _ *agent.Agent, conv *engine.Aggregate[conversation.Conversation]) error {
		if conv == nil {
			return nil
		}
		return u.handOffWithNote(conv, reason)
	})
}

// cut returns the first characters of a text.
func cut(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most])
}
