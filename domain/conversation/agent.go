package conversation

import (
	"strings"

	"github.com/google/uuid"

	"ledgerline/events"
)

// LastAgent is how the agent that handled a conversation last has ended (rule AGT-12). The zero value: none has.
type LastAgent struct {
	ID       uuid.UUID
	Finished bool   // it had nothing more to do; else it handed the conversation over, or somebody took it over
	Reason   string // of its handoff; "" for none
}

// Agent returns the agent that handles the conversation; ok is false when none does.
func (c Conversation) Agent() (id uuid.UUID, ok bool) { return agentOf(c.HandledBy) }

func agentOf(handler string) (id uuid.UUID, ok bool) {
	text, found := strings.CutPrefix(handler, AgentPrefix)
	if !found {
		return uuid.Nil, false
	}
	id, err := uuid.Parse(text)
	return id, err == nil
}

// AskAgent has the agent that handles the conversation answer a message of the contact (rule AGT-7). Without an agent
// it returns no event.
func (c Conversation) AskAgent(messageID string) []events.Event {
	id, ok := c.Agent()
	if !ok {
		return nil
	}
	return []events.Event{&events.AgentAsked{ConversationRef: c.ConversationRef, AgentID: id, MessageID: messageID}}
}

// IsOvertaken reports whether the contact has written again after a message that the agent is about to answer (rule
// AGT-8).
func (c Conversation) IsOvertaken(questionID string) bool {
	return c.Question != "" && c.Question != questionID
}

// RecordAnswer records that an agent has dealt with a message. answerID is nil when it wrote nothing.
func (c Conversation) RecordAnswer(agentID uuid.UUID, questionID string, answerID *string) []events.Event {
	return []events.Event{&events.AgentAnswered{ConversationRef: c.ConversationRef, AgentID: agentID, QuestionID: questionID, MessageID: answerID}}
}

// HandleByAgent makes an agent the handler of the conversation, whoever handled it.
func (c Conversation) HandleByAgent(id uuid.UUID) []events.Event {
	return c.setHandler(AgentPrefix + id.String())
}

// TakeFromAgent makes the team the handler of a conversation that an agent handles, without a handoff. Any other
// conversation keeps its handler.
func (c Conversation) TakeFromAgent() []events.Event {
	if _, ok := c.Agent(); !ok {
		return nil
	}
	return c.setHandler(HandledByTeam)
}

// FinishByAgent makes the team the handler because the agent has nothing more to do (rule AGT-12).
func (c Conversation) FinishByAgent() []events.Event {
	id, ok := c.Agent()
	if !ok {
		return nil
	}
	finished := &events.AgentFinished{ConversationRef: c.ConversationRef, AgentID: id}
	return append([]events.Event{finished}, c.setHandler(HandledByTeam)...)
}

// applyAgent returns the state after an event about agents.
func (c Conversation) applyAgent(event events.Event) Conversation {
	switch e := event.(type) {
	case *events.ConversationHandlerChanged:
		c.HandledBy, c.Question = e.To, ""
		before, wasAgent := agentOf(e.From)
		if wasAgent && (c.LastAgent.ID != before || !c.LastAgent.Finished) {
			c.LastAgent = LastAgent{ID: before}
		}
		if now, isAgent := agentOf(e.To); isAgent && c.LastAgent.ID == now {
			c.LastAgent = LastAgent{} // it handles the conversation anew
		}
	case *events.AgentHandoff:
		if id, ok := agentOf(e.From); ok {
			c.LastAgent = LastAgent{ID: id, Reason: e.Why.Reason}
		}
	case *events.AgentFinished:
		c.LastAgent = LastAgent{ID: e.AgentID, Finished: true}
	case *events.AgentAsked:
		c.Question = e.MessageID
	case *events.AgentAnswered:
		if c.Question == e.QuestionID {
			c.Question = ""
		}
	}
	return c
}
