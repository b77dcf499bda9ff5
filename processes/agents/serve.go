package agents

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/commands"
	"ledgerline/domain/agent"
	"ledgerline/domain/fault"
	"ledgerline/processes/tasks"
	"ledgerline/projections"
)

// retryAfter are the pauses, by the service's clock, after which a failed call is tried again (rule AGT-14).
var retryAfter = []time.Duration{2 * time.Second, 10 * time.Second, 30 * time.Second}

// question is a conversation in which an agent has something to answer.
type question struct {
	ConversationID string
	Position       int64   // of the event that asks
	MessageID      *string // nil: the agent was given the conversation
	Failures       int     // calls that failed in a row
}

const (
	dueSQL = `select conversation_id, asked_position, question_id, failures from agent_conversations
		where agent_id = $1 and asked_position is not null and due_at <= $2 and not conversation_id = any($3) order by due_at, asked_position limit $4`
	nextDueSQL  = `select min(due_at) from agent_conversations where agent_id = $1 and asked_position is not null`
	clearSQL    = `update agent_conversations set asked_position = null, question_id = null, due_at = null, failures = 0 where conversation_id = $1 and asked_position = $2`
	postponeSQL = `update agent_conversations set due_at = case when asked_position = $2 then $3 else due_at end, failures = $4
		where conversation_id = $1 and asked_position is not null`
	handledSQL = `select conversation_id from agent_conversations where agent_id = $1 and hand_over order by conversation_id limit $2`
)

// handOverPage is how many conversations of a paused agent are handed over before the table is read again.
const handOverPage = 200

// lookAgain is how often, in real time, a run with calls under way looks for questions that the consumer of another
// node has recorded.
const lookAgain = time.Second

// serve answers what is due for an agent, and hands over the conversations that it handled when it was paused.
func (p *Process) serve(ctx context.Context, task tasks.Leased) (tasks.Result, error) {
	id, err := uuid.Parse(task.Key)
	if err != nil {
		return tasks.Finished, fmt.Errorf("agents: the key of an agent: %w", err)
	}
	run := &agentRun{Process: p, agentID: id, answering: map[string]bool{}, ended: make(chan struct{}, 1)}
	if err := run.answerDue(ctx); err != nil {
		return tasks.Finished, err
	}
	var next *time.Time
	if err := p.ledger.Pool().QueryRow(ctx, nextDueSQL, id).Scan(&next); err != nil {
		return tasks.Finished, fmt.Errorf("agents: read questions: %w", err)
	}
	if next == nil {
		return tasks.Finished, nil
	}
	return tasks.RunAgain(*next), nil
}

// handOverAll hands over the conversations that an agent handled when it was paused (rule AGT-13). It may be live
// again.
func (p *Process) handOverAll(ctx context.Context, id uuid.UUID) error {
	for {
		rows, err := p.ledger.Pool().Query(ctx, handledSQL, id, handOverPage)
		if err != nil {
			return fmt.Errorf("agents: read conversations: %w", err)
		}
		page, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("agents: read conversations: %w", err)
		}
		for _, conversationID := range page {
			if err := p.handOff(ctx, conversationID, id, agent.ReasonPaused); err != nil {
				return err
			}
			if _, err := p.ledger.Pool().Exec(ctx, releaseSQL, conversationID); err != nil {
				return fmt.Errorf("agents: release a conversation: %w", err)
			}
		}
		if len(page) < handOverPage {
			return nil
		}
	}
}

func (p *Process) handOff(ctx context.Context, conversationID string, id uuid.UUID, reason string) error {
	err := p.app.HandOffByAgent(ctx, conversationID, id, reason)
	if fault.Is(err, fault.NotFound) { // its contact was erased
		return nil
	}
	return err
}

// agentRun is one run of an agent's task.
type agentRun struct {
	*Process
	agentID uuid.UUID
	ended   chan struct{} // signals that a question was dealt with
	running sync.WaitGroup

	mu        sync.Mutex
	answering map[string]bool // conversations with a question that is being dealt with
	err       error           // the first error
}

// answerDue deals with everything that is due, maxAgentCalls questions at the same time, and returns when all is done.
func (r *agentRun) answerDue(ctx context.Context) error {
	woken := make(chan struct{}, 1)
	r.Process.mu.Lock()
	r.serving[woken] = struct{}{}
	r.Process.mu.Unlock()
	defer func() {
		r.Process.mu.Lock()
		delete(r.serving, woken)
		r.Process.mu.Unlock()
	}()
	defer r.running.Wait()
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for ctx.Err() == nil {
		busy, err := r.state()
		if err != nil {
			return err
		}
		if err := r.handOverAll(ctx, r.agentID); err != nil { // calls under way end without an effect
			return err
		}
		var page []question
		if len(busy) < maxAgentCalls {
			if page, err = r.due(ctx, busy); err != nil {
				return err
			}
		}
		for _, q := range page {
			r.start(ctx, q)
		}
		if len(page) == 0 && len(busy) == 0 {
			return nil
		}
		select {
		case <-woken:
		case <-r.ended:
		case <-again.C:
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}

// state returns the conversations that are being dealt with, and the first error.
func (r *agentRun) state() (busy []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	busy = make([]string, 0, len(r.answering))
	for id := range r.answering {
		busy = append(busy, id)
	}
	return busy, r.err
}

func (r *agentRun) due(ctx context.Context, busy []string) ([]question, error) {
	rows, err := r.ledger.Pool().Query(ctx, dueSQL, r.agentID, r.clock.Now(), busy, maxAgentCalls-len(busy))
	if err != nil {
		return nil, fmt.Errorf("agents: read questions: %w", err)
	}
	page, err := pgx.CollectRows(rows, pgx.RowToStructByPos[question])
	if err != nil {
		return nil, fmt.Errorf("agents: read questions: %w", err)
	}
	return page, nil
}

func (r *agentRun) start(ctx context.Context, q question) {
	r.mu.Lock()
	r.answering[q.ConversationID] = true
	r.mu.Unlock()
	r.running.Go(func() {
		err := r.answer(ctx, &q)
		r.mu.Lock()
		delete(r.answering, q.ConversationID)
		if r.err == nil {
			r.err = err
		}
		r.mu.Unlock()
		select {
		case r.ended <- struct{}{}:
		default:
		}
	})
}

// answer deals with one question: it asks the model and records what the model answered.
func (r *agentRun) answer(ctx context.Context, q *question) error {
	found, err := r.app.FindAgentConversation(ctx, q.ConversationID)
	if err != nil {
		return err
	}
	conv := &found.Conversation
	if handler, ok := conv.Agent(); !ok || handler != r.agentID || found.OptedOut || found.Agent.Status != agent.Live {
		return r.clear(ctx, q)
	}
	messages, err := r.messages(ctx, &found)
	if err != nil {
		return err
	}
	questionID := conv.Question
	if questionID == "" && q.MessageID == nil {
		questionID = unanswered(messages, found.OptedOut, found.StopWords)
	}
	switch {
	case questionID == "": // it is answered, or there was nothing to answer
		return r.clear(ctx, q)
	case found.LimitReached:
		return r.handOff(ctx, q.ConversationID, r.agentID, agent.ReasonDailyLimit)
	}
	answer, err := r.call(ctx, newPrompt(&found, messages))
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return r.failed(ctx, q, err)
	}
	answer.ConversationID, answer.AgentID, answer.QuestionID = q.ConversationID, r.agentID, questionID
	outcome, err := r.app.AnswerAsAgent(context.WithoutCancel(ctx), answer)
	if err != nil || outcome == commands.AgentOvertaken { // the consumer asks anew
		return err
	}
	return r.clear(ctx, q)
}

// messages returns the newest messages of a conversation, the newest first, as of the head of the ledger.
func (r *agentRun) messages(ctx context.Context, found *commands.AgentConversation) ([]projections.Message, error) {
	shard := r.ledger.ShardOf(found.Conversation.Organisation)
	if err := r.store.WaitForHead(ctx, shard, projections.Messages); err != nil {
		return nil, err
	}
	v := projections.Viewer{Workspace: found.Conversation.Workspace, Shard: shard}
	page, err := r.store.Messages(ctx, v, projections.MessageFilter{ContactID: found.Conversation.ContactID}, nil, maxTurns)
	return page.Rows, err
}

// call asks the model, when the agent and the node may make another call.
func (r *agentRun) call(ctx context.Context, prompt *Prompt) (commands.AgentAnswer, error) {
	if r.model == nil {
		return commands.AgentAnswer{}, fmt.Errorf("%w: there is no endpoint", ErrRefused)
	}
	leave, err := r.calls.Enter(ctx, r.agentID, 1)
	if err != nil {
		return commands.AgentAnswer{}, fmt.Errorf("agents: %w", err)
	}
	defer leave()
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	completion, err := r.model.Complete(bounded, prompt)
	if err != nil {
		return commands.AgentAnswer{}, err
	}
	return completion.read()
}

// failed plans the next call after one that failed, or hands the conversation over (rule AGT-14).
func (r *agentRun) failed(ctx context.Context, q *question, err error) error {
	r.log.Warn("agents: a call of the model failed", "agent", r.agentID, "conversation", q.ConversationID, "failures", q.Failures+1, "error", err)
	if errors.Is(err, ErrRefused) || q.Failures >= len(retryAfter) {
		return r.handOff(ctx, q.ConversationID, r.agentID, agent.ReasonUnavailable)
	}
	_, err = r.ledger.Pool().Exec(ctx, postponeSQL, q.ConversationID, q.Position, r.clock.Now().Add(retryAfter[q.Failures]), q.Failures+1)
	if err != nil {
		return fmt.Errorf("agents: postpone a question: %w", err)
	}
	return nil
}

// clear removes a question that needs no answer any more, unless another one has taken its place.
func (r *agentRun) clear(ctx context.Context, q *question) error {
	if _, err := r.ledger.Pool().Exec(ctx, clearSQL, q.ConversationID, q.Position); err != nil {
		return fmt.Errorf("agents: clear a question: %w", err)
	}
	return nil
}
