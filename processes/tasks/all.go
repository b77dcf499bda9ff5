package tasks

import (
	"context"
	"errors"
	"sync"
)

// RunAll runs several runners until ctx ends.
func RunAll(ctx context.Context, runners ...*Runner) error {
	errs := make([]error, len(runners))
	var running sync.WaitGroup
	for i, r := range runners {
		running.Go(func() { errs[i] = r.Run(ctx) })
	}
	running.Wait()
	return errors.Join(errs...)
}
