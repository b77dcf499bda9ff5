// Package webhooks delivers events to the webhook endpoints of workspaces (rules WHK-1 to WHK-22).
//
// The consumer of the feed creates the deliveries, in the order of the ledger, in the transaction of its checkpoint. It
// keeps its own table of endpoints as of that checkpoint, and renders the bodies with package payload.
//
// A scheduled task for each endpoint attempts what is due, at most five deliveries at once, in no promised order. The
// start of an attempt is recorded in the table webhook_started_attempts before the request is made, so that an attempt
// which a crash interrupts is counted. The results of attempts are appended to the ledger, many in one append, and
// reach the deliveries through the consumer: nothing but the consumer changes a delivery.
package webhooks

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/jackc/pgx/v5"

	"ledgerline/clock"
	"ledgerline/commands"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/processes"
	"ledgerline/processes/peers"
	"ledgerline/processes/tasks"
	"ledgerline/projections"
)

// Process implements processes.Process.
type Process struct {
	app     *commands.App
	store   *projections.Store
	ledger  *eventstore.Ledger
	clock   clock.Clock
	poster  Poster
	log     *slog.Logger
	runner  *tasks.Runner
	wakeups *tasks.Wakeups
	hosts   *peers.Peers // of receivers

	starts  chan startRequest
	results chan attemptResult

	mu         sync.Mutex
	delivering map[chan struct{}]struct{} // signals to runs in progress that there may be more to deliver
}

var _ processes.Process = (*Process)(nil)

// processName is the name of the scheduled tasks. Their keys are endpoints, and cleanupKey.
const processName = "webhooks"

// callsPerHost is how many attempts at one host may be under way, of all its endpoints.
const callsPerHost = 64

// Config configures the process.
type Config struct {
	processes.Config
	// Workers is how many endpoints a node serves at the same time, without those that wait for their receivers; default
	// 512.
	Workers int
}

// New makes the process. The poster posts its deliveries.
func New(cfg Config, poster Poster) (*Process, error) {
	if cfg.Workers <= 0 {
		cfg.Workers = 512
	}
	p := &Process{
		app: cfg.App, store: cfg.Store, ledger: cfg.Ledger, clock: cfg.Clock, poster: poster, log: cfg.Logger,
		starts: make(chan startRequest, maxStarts), results: make(chan attemptResult, maxResults), delivering: map[chan struct{}]struct{}{},
	}
	p.hosts = cfg.NewPeers(peers.Config{Kind: "webhook", Waiting: callsPerHost})
	var err error
	p.runner, err = tasks.NewRunner(cfg.RunnerConfig(tasks.RunnerConfig{
		Process: processName, Work: p.runTask, Workers: cfg.Workers, Batch: 128,
	}))
	if err != nil {
		return nil, err
	}
	p.wakeups = tasks.NewWakeups(p.runner)
	return p, nil
}

// Run implements processes.Process. When it returns, the results of all attempts that were made are in the ledger,
// unless the database could not be reached.
func (p *Process) Run(ctx context.Context) error {
	if err := p.scheduleCleanup(ctx); err != nil {
		return err
	}
	outlasting, stop := context.WithCancel(context.WithoutCancel(ctx))
	var writers sync.WaitGroup
	for range startWriters {
		writers.Go(func() { p.writeStarts(outlasting) })
	}
	writers.Go(func() { p.writeResults(outlasting) })
	err := p.runner.Run(ctx)
	stop()
	writers.Wait()
	return err
}

// Wake makes the process look for endpoints to serve now.
func (p *Process) Wake() { p.runner.Wake() }

// Name implements feed.Consumer.
func (*Process) Name() string { return projections.DeliveriesConsumer }

// Write implements feed.Consumer. WriteContext is called in its place.
func (*Process) Write(*pgx.Batch, int, []eventstore.Recorded) error {
	return errors.New("webhooks: Write is not used, WriteContext is")
}

// Committed implements feed.Consumer.
func (p *Process) Committed(b *feed.Batch) {
	p.wakeups.Send(b.Shard)
	p.mu.Lock()
	defer p.mu.Unlock()
	for woken := range p.delivering {
		select {
		case woken <- struct{}{}:
		default:
		}
	}
}
