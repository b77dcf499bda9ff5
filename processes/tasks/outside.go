package tasks

import (
	"context"
	"sync"
	"time"
)

// outsideAfter is how long a call to an outside system keeps the worker of its task run, in real time. A quick call
// costs nothing but a timer.
const outsideAfter = 100 * time.Millisecond

type runKey struct{}

// Outside makes a call that may wait for an outside system, for the task run that ctx belongs to. When the call takes
// longer than a moment, the run gives its worker to another task until the call returns, so that outside systems that
// do not answer cannot occupy all workers. RunnerConfig.Outside bounds such runs. With any other ctx it only calls.
func Outside(ctx context.Context, call func()) {
	r, _ := ctx.Value(runKey{}).(*running)
	if r == nil {
		call()
		return
	}
	var mu sync.Mutex
	ended, left := false, false
	late := time.AfterFunc(outsideAfter, func() {
		mu.Lock()
		defer mu.Unlock()
		if !ended {
			left = true
			r.leaveWorker()
		}
	})
	defer func() {
		late.Stop()
		mu.Lock()
		defer mu.Unlock()
		ended = true
		if left {
			r.takeWorker()
		}
	}()
	call()
}

// leaveWorker gives the worker of the run back. Each call needs a call of takeWorker.
func (r *running) leaveWorker() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.outside++; r.outside == 1 {
		r.runner.outside.Add(1)
		select {
		case r.runner.freed <- struct{}{}:
		default:
		}
	}
}

// takeWorker counts the run as working again, without waiting: what is left of it is short, and must not wait behind
// new work. Until another run ends, one more run than Workers may be working.
func (r *running) takeWorker() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.outside--; r.outside == 0 {
		r.runner.outside.Add(-1)
	}
}
