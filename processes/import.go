package processes

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/clock"
	"ledgerline/commands"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/processes/tasks"
)

// Importing carries out imports of contacts. A job is the key; it is worked on in turns, so that a long one neither holds up
// the others nor the end of the node.
type Importing struct {
	single
	app   *commands.App
	clock clock.Clock
}

const (
	importProcess = "import"
	// importsAtOnce is how many jobs a node works on. Each has its file in memory.
	importsAtOnce = 2
)

// ImportingConfig says what the process needs.
type ImportingConfig struct {
	App    *commands.App
	Ledger *eventstore.Ledger
	Clock  clock.Clock
	Lease  time.Duration // of a job that is worked on, see tasks.RunnerConfig
	Logger *slog.Logger
}

// NewImporting prepares the process. Run it beside a feed that carries it as a consumer.
func NewImporting(cfg ImportingConfig) (*Importing, error) {
	p := &Importing{app: cfg.App, clock: cfg.Clock}
	var err error
	p.single, err = newSingle(tasks.RunnerConfig{
		Pool: cfg.Ledger.Pool(), Clock: cfg.Clock, Process: importProcess, Work: p.work, Workers: importsAtOnce, Lease: cfg.Lease, Logger: cfg.Logger,
	})
	return p, err
}

// Name implements feed.Consumer.
func (*Importing) Name() string { return "process_import" }

// Types implements feed.Consumer.
func (*Importing) Types() []string { return events.NamesOf((*events.ImportRequested)(nil)) }

// Write implements feed.Consumer.
func (p *Importing) Write(b *pgx.Batch, _ int, recorded []eventstore.Recorded) error {
	var asks []tasks.Task
	for i := range recorded {
		r := &recorded[i]
		if e, ok := r.Event.(*events.ImportRequested); ok {
			asks = append(asks, tasks.Task{Process: importProcess, Key: e.JobID.String(), Shard: r.Shard, DueAt: r.OccurredAt, Position: r.Position})
		}
	}
	p.wakeups.Schedule(b, asks...)
	return nil
}

func (p *Importing) work(ctx context.Context, task tasks.Leased) (tasks.Result, error) {
	id, err := uuid.Parse(task.Key)
	if err != nil {
		return tasks.Finished, err
	}
	done, err := p.app.ContinueImport(ctx, id)
	if err != nil || done {
		return tasks.Finished, err
	}
	return tasks.RunAgain(p.clock.Now()), nil
}
