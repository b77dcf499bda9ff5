package processes

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"ledgerline/clock"
	"ledgerline/commands"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/processes/peers"
	"ledgerline/processes/tasks"
	"ledgerline/projections"
)

// Process follows the feed as a consumer, which schedules tasks, and runs those tasks. To start one: make it, call
// Prepare once with its name, run it with Run, and give it to the feed as a consumer.
type Process interface {
	feed.Consumer
	// Run runs the due tasks until ctx ends.
	Run(ctx context.Context) error
}

// Config is what processes need.
type Config struct {
	App    *commands.App
	Ledger *eventstore.Ledger
	Store  *projections.Store
	Clock  clock.Clock
	Lease  time.Duration // of tasks, see tasks.RunnerConfig
	Logger *slog.Logger
	// Metrics are shared by all processes of a node; nil: none.
	Metrics *Metrics
}

// RunnerConfig returns the configuration of a runner of the process: own, with what all runners have in common.
func (c *Config) RunnerConfig(own tasks.RunnerConfig) tasks.RunnerConfig {
	own.Pool, own.Clock, own.Lease, own.Logger = c.Ledger.Pool(), c.Clock, c.Lease, c.Logger
	if c.Metrics != nil {
		own.Metrics = c.Metrics.Tasks
	}
	return own
}

const (
	registerSQL   = `insert into feed_consumers (name, revision, program, changed_at) values ($1, 1, 1, now()) on conflict do nothing`
	checkpointSQL = `insert into feed_checkpoints (name, revision, shard, position)
		select $1, 1, s, 0 from generate_series(0, $2 - 1) s on conflict do nothing`
)

// Metrics are the metrics of all processes of a node.
type Metrics struct {
	Tasks *tasks.Metrics
	Peers *peers.Metrics
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	return &Metrics{Tasks: tasks.NewMetrics(reg), Peers: peers.NewMetrics(reg)}
}

// NewPeers makes the peers that a process calls.
func (c *Config) NewPeers(own peers.Config) *peers.Peers {
	own.Logger = c.Logger
	if c.Metrics != nil {
		own.Metrics = c.Metrics.Peers
	}
	return peers.New(own)
}

// Prepare creates the checkpoints of a process, unless it has some. A process has one revision: a replay of projections
// does not touch it, so it never handles an event again.
func Prepare(ctx context.Context, ledger *eventstore.Ledger, name string) error {
	err := pgx.BeginFunc(ctx, ledger.Pool(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, registerSQL, name); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, checkpointSQL, name, ledger.Shards())
		return err
	})
	if err != nil {
		return fmt.Errorf("processes: prepare %s: %w", name, err)
	}
	return nil
}

// schedule is what a process does with a batch of events: it schedules tasks.
type schedule struct{ tasks []tasks.Task }

// add schedules a task for an event.
func (s *schedule) add(process, key string, due time.Time, r *eventstore.Recorded) {
	s.tasks = append(s.tasks, TaskOf(process, key, due, r))
}

// TaskOf is the task that an event schedules. Its owner is the organisation of the event.
func TaskOf(process, key string, due time.Time, r *eventstore.Recorded) tasks.Task {
	return tasks.Task{Process: process, Key: key, Owner: r.OrganisationID.String(), Shard: r.Shard, DueAt: due, Position: r.Position}
}

// scheduler is embedded by processes that do nothing with events but schedule tasks. It has the runners of the tasks.
type scheduler struct {
	handlers *feed.Handlers[*schedule]
	runners  []*tasks.Runner
	wakeups  *tasks.Wakeups
}

func newScheduler(cfg *Config, handlers *feed.Handlers[*schedule], runners ...tasks.RunnerConfig) (scheduler, error) {
	s := scheduler{handlers: handlers}
	var err error
	s.runners, s.wakeups, err = cfg.NewRunners(runners...)
	return s, err
}

// NewRunners makes the runners of a process, and the wake-ups that reach all of them.
func (c *Config) NewRunners(own ...tasks.RunnerConfig) ([]*tasks.Runner, *tasks.Wakeups, error) {
	runners := make([]*tasks.Runner, len(own))
	for i, cfg := range own {
		var err error
		if runners[i], err = tasks.NewRunner(c.RunnerConfig(cfg)); err != nil {
			return nil, nil, err
		}
	}
	return runners, tasks.NewWakeups(runners...), nil
}

// Write implements feed.Consumer.
func (s *scheduler) Write(b *pgx.Batch, _ int, recorded []eventstore.Recorded) error {
	var todo schedule
	s.handlers.Handle(&todo, recorded)
	s.wakeups.Schedule(b, todo.tasks...)
	return nil
}

// Committed implements feed.Consumer.
func (s *scheduler) Committed(b *feed.Batch) { s.wakeups.Send(b.Shard) }

// Run implements Process.
func (s *scheduler) Run(ctx context.Context) error { return tasks.RunAll(ctx, s.runners...) }
