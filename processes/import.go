package processes

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/clock"
	"ledgerline/commands"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/processes/tasks"
)

// Importing imports the contacts of uploaded files. The key of a task is the import job. A task run handles a part of
// the rows, so that a long import delays neither other imports nor the stop of the node.
type Importing struct {
	scheduler
	app   *commands.App
	clock clock.Clock
}

const (
	importProcess = "import"
	// importWorkers is how many imports a node runs at the same time. Each has its file in memory.
	importWorkers = 2
)

// NewImporting makes the process.
func NewImporting(cfg Config) (*Importing, error) {
	p := &Importing{app: cfg.App, clock: cfg.Clock}
	var err error
	p.scheduler, err = newScheduler(&cfg, importHandlers, tasks.RunnerConfig{Process: importProcess, Work: p.importRows, Workers: importWorkers})
	return p, err
}

var importHandlers = feed.NewHandlers(
	feed.On(func(s *schedule, e *events.ImportRequested, r *eventstore.Recorded) {
		s.add(importProcess, e.JobID.String(), r.OccurredAt, r)
	}),
)

// Name implements feed.Consumer.
func (*Importing) Name() string { return "process_import" }

// Types implements feed.Consumer.
func (*Importing) Types() []string { return importHandlers.Types() }

func (p *Importing) importRows(ctx context.Context, task tasks.Leased) (tasks.Result, error) {
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
