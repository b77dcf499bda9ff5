// Package agents lets agents answer in the conversations that they handle (rules AGT-7 to AGT-17).
//
// The consumer of the feed keeps a table of the conversations that agents handle, with what each agent has to answer.
// The key of a task is an agent: its task run answers the due questions, several at the same time, and hands over all
// conversations of an agent that was paused. So a slow model delays the other questions of its agent at most.
//
// A model is called outside of any transaction. What it answered is appended by a command that checks that the contact
// has not written again meanwhile.
package agents

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/clock"
	"ledgerline/commands"
	"ledgerline/domain/conversation"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/fairqueue"
	"ledgerline/processes"
	"ledgerline/processes/tasks"
	"ledgerline/projections"
)

// ProcessName is the name under which the process follows the feed.
const ProcessName = "process_agents"

const agentsProcess = "agents" // key: agent id

const (
	// maxAgents is how many agents a node serves at the same time. A slow model keeps its agent's worker busy, so there
	// are many more workers than would be needed otherwise. Each costs a goroutine.
	maxAgents = 512
	// maxCalls and maxAgentCalls bound the calls of models under way: of a node, and of an agent.
	maxCalls      = 64
	maxAgentCalls = 8
	// callTimeout bounds a call, in real time (rule AGT-14).
	callTimeout = 30 * time.Second
)

// Process implements processes.Process.
type Process struct {
	app     *commands.App
	store   *projections.Store
	ledger  *eventstore.Ledger
	clock   clock.Clock
	model   Model
	log     *slog.Logger
	calls   *fairqueue.Queue[uuid.UUID] // by agent
	runners []*tasks.Runner
	wakeups *tasks.Wakeups

	mu      sync.Mutex
	serving map[chan struct{}]struct{} // signals to task runs in progress that there may be more to answer
}

var _ processes.Process = (*Process)(nil)

// New makes the process. model is nil on an installation without a model endpoint: every call fails then.
func New(cfg processes.Config, model Model) (*Process, error) {
	p := &Process{
		app: cfg.App, store: cfg.Store, ledger: cfg.Ledger, clock: cfg.Clock, model: model, log: cfg.Logger, serving: map[chan struct{}]struct{}{},
		calls: fairqueue.New[uuid.UUID](fairqueue.Config{Total: maxCalls, PerOwner: maxAgentCalls, Waiting: maxAgentCalls, Wait: 24 * time.Hour}),
	}
	var err error
	p.runners, p.wakeups, err = cfg.NewRunners(tasks.RunnerConfig{Process: agentsProcess, Work: p.serve, Workers: maxAgents, Batch: 64})
	return p, err
}

// Name implements feed.Consumer.
func (*Process) Name() string { return ProcessName }

// Types implements feed.Consumer.
func (*Process) Types() []string { return handlers.Types() }

// Run implements processes.Process.
func (p *Process) Run(ctx context.Context) error { return tasks.RunAll(ctx, p.runners...) }

// Committed implements feed.Consumer.
func (p *Process) Committed(b *feed.Batch) {
	p.wakeups.Send(b.Shard)
	p.mu.Lock()
	defer p.mu.Unlock()
	for woken := range p.serving {
		select {
		case woken <- struct{}{}:
		default:
		}
	}
}

// changes is the effect of a batch of events, in their order: each statement depends on the rows before it.
type changes struct {
	statements []statement
	tasks      []tasks.Task
}

type statement struct {
	sql  string
	args []any
}

const (
	handleSQL = `insert into agent_conversations (conversation_id, contact_id, agent_id, shard, asked_position, due_at) values ($1, $2, $3, $4, $5, $6)
		on conflict (conversation_id) do update set agent_id = excluded.agent_id, hand_over = false, asked_position = excluded.asked_position, question_id = null,
			due_at = excluded.due_at, failures = 0`
	releaseSQL  = `delete from agent_conversations where conversation_id = $1`
	eraseSQL    = `delete from agent_conversations where contact_id = $1`
	pauseSQL    = `update agent_conversations set hand_over = true where agent_id = $1`
	askSQL      = `update agent_conversations set asked_position = $2, question_id = $3, due_at = $4 where conversation_id = $1`
	answeredSQL = `update agent_conversations set asked_position = null, question_id = null, due_at = null, failures = 0
		where conversation_id = $1 and (question_id is null or question_id = $2)`
)

// Write implements feed.Consumer.
func (p *Process) Write(b *pgx.Batch, _ int, recorded []eventstore.Recorded) error {
	var c changes
	handlers.Handle(&c, recorded)
	for _, s := range c.statements {
		b.Queue(s.sql, s.args...)
	}
	p.wakeups.Schedule(b, c.tasks...)
	return nil
}

var handlers = feed.NewHandlers(
	feed.On(func(c *changes, e *events.ConversationHandlerChanged, r *eventstore.Recorded) {
		to := conversation.Conversation{HandledBy: e.To}
		if id, ok := to.Agent(); ok {
			c.add(handleSQL, e.ConversationID, e.ContactID, id, int16(r.Shard), r.Position, r.OccurredAt) //nolint:gosec // at most 1,024 shards
			c.schedule(id, r)
			return
		}
		from := conversation.Conversation{HandledBy: e.From}
		if _, ok := from.Agent(); ok {
			c.add(releaseSQL, e.ConversationID)
		}
	}),
	feed.On(func(c *changes, e *events.AgentAsked, r *eventstore.Recorded) {
		c.add(askSQL, e.ConversationID, r.Position, e.MessageID, r.OccurredAt)
		c.schedule(e.AgentID, r)
	}),
	feed.On(func(c *changes, e *events.AgentAnswered, _ *eventstore.Recorded) {
		c.add(answeredSQL, e.ConversationID, e.QuestionID)
	}),
	feed.On(func(c *changes, e *events.AgentPaused, r *eventstore.Recorded) {
		c.add(pauseSQL, e.AgentID)
		c.schedule(e.AgentID, r)
	}),
	feed.On(func(c *changes, e *events.ContactDeleted, _ *eventstore.Recorded) { c.add(eraseSQL, e.ContactID) }),
)

func (c *changes) add(sql string, args ...any) {
	c.statements = append(c.statements, statement{sql, args})
}

func (c *changes) schedule(agentID uuid.UUID, r *eventstore.Recorded) {
	c.tasks = append(c.tasks, tasks.Task{Process: agentsProcess, Key: agentID.String(), Owner: r.OrganisationID.String(), Shard: r.Shard, DueAt: r.OccurredAt, Position: r.Position})
}
