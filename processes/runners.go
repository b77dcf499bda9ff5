package processes

import (
	"context"
	"errors"
	"sync"

	"ledgerline/eventstore/feed"
	"ledgerline/processes/tasks"
)

// single is embedded by a process with one runner.
type single struct {
	runner  *tasks.Runner
	wakeups *tasks.Wakeups
}

func newSingle(cfg tasks.RunnerConfig) (single, error) {
	r, err := tasks.NewRunner(cfg)
	if err != nil {
		return single{}, err
	}
	return single{r, tasks.NewWakeups(r)}, nil
}

// Run runs tasks until ctx ends.
func (s *single) Run(ctx context.Context) error { return s.runner.Run(ctx) }

// Committed implements feed.Consumer.
func (s *single) Committed(b *feed.Batch) { s.wakeups.Send(b.Shard) }

// runAll runs several runners until ctx ends.
func runAll(ctx context.Context, runners ...*tasks.Runner) error {
	errs := make([]error, len(runners))
	var running sync.WaitGroup
	for i, r := range runners {
		running.Go(func() { errs[i] = r.Run(ctx) })
	}
	running.Wait()
	return errors.Join(errs...)
}
