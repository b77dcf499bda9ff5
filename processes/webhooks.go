package processes

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
	"ledgerline/processes/tasks"
	"ledgerline/projections"
)

// Webhooks tells events to the endpoints that subscribe to them (decisions, section 10).
//
// Its consumer makes the deliveries: in the order of the ledger, with what the read models show, in the transaction of
// its checkpoint. A worker per endpoint attempts them, at most five at once, and in no promised order. What came of the
// attempts goes to the ledger, many in one append, and comes back through the consumer, which alone changes a delivery.
// An attempt is written down before it is made, so that one that was cut off is counted too.
type Webhooks struct {
	app     *commands.App
	store   *projections.Store
	ledger  *eventstore.Ledger
	clock   clock.Clock
	poster  Poster
	log     *slog.Logger
	runner  *tasks.Runner
	wakeups *tasks.Wakeups

	begins  chan beginning
	reports chan report

	mu       sync.Mutex
	draining map[chan struct{}]struct{} // to be woken when there may be more to deliver
}

// webhooksProcess is the name under which endpoints ask for work.
const webhooksProcess = "webhooks"

// webhookWorkers is how many endpoints one node serves at once. One that hangs keeps its worker, so there are many more
// than would be needed otherwise; they cost a goroutine each.
const webhookWorkers = 512

// NewWebhooks makes the process. The poster posts its deliveries.
func NewWebhooks(cfg Config, poster Poster) (*Webhooks, error) {
	w := &Webhooks{
		app: cfg.App, store: cfg.Store, ledger: cfg.Ledger, clock: cfg.Clock, poster: poster, log: cfg.Logger,
		begins: make(chan beginning, maxBegins), reports: make(chan report, maxReports), draining: map[chan struct{}]struct{}{},
	}
	var err error
	w.runner, err = tasks.NewRunner(cfg.RunnerConfig(tasks.RunnerConfig{
		Process: webhooksProcess, Work: w.serve, Workers: webhookWorkers, Batch: 128,
	}))
	if err != nil {
		return nil, err
	}
	w.wakeups = tasks.NewWakeups(w.runner)
	return w, nil
}

// Run works until ctx ends. What came of attempts that were made by then is written down before it returns.
func (w *Webhooks) Run(ctx context.Context) error {
	if err := w.askToTidy(ctx); err != nil {
		return err
	}
	outlasting, stop := context.WithCancel(context.WithoutCancel(ctx))
	var writers sync.WaitGroup
	for range scribes {
		writers.Go(func() { w.writeBegins(outlasting) })
	}
	writers.Go(func() { w.writeReports(outlasting) })
	err := w.runner.Run(ctx)
	stop()
	writers.Wait()
	return err
}

// Wake looks for endpoints to serve now.
func (w *Webhooks) Wake() { w.runner.Wake() }

// Name implements feed.Consumer.
func (w *Webhooks) Name() string { return projections.DeliveriesBy }

// Write implements feed.Consumer; WriteContext takes its place.
func (w *Webhooks) Write(*pgx.Batch, int, []eventstore.Recorded) error {
	return errors.New("processes: webhooks are composed")
}

// Committed implements feed.Consumer.
func (w *Webhooks) Committed(b *feed.Batch) {
	w.wakeups.Send(b.Shard)
	w.mu.Lock()
	defer w.mu.Unlock()
	for woken := range w.draining {
		select {
		case woken <- struct{}{}:
		default:
		}
	}
}
