package tasks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"ledgerline/clock"
)

// Causes with which the context of a task run is cancelled (context.Cause).
var (
	// ErrLeaseLost says that the lease was not renewed in time: another worker may run the task already.
	ErrLeaseLost = errors.New("tasks: the lease on the task is lost")
	// ErrStopping says that the runner is stopping and its grace period is over.
	ErrStopping = errors.New("tasks: the runner is stopping")
)

// RunnerConfig configures a Runner. A zero value is replaced by the default where one is stated.
type RunnerConfig struct {
	Pool    *pgxpool.Pool
	Clock   clock.Clock // decides what is due
	Process string      // whose tasks are run

	// Work runs a task. Nobody else runs the task of that key at the same time, unless the lease is lost: then the context
	// ends with the cause ErrLeaseLost. After an error or a panic, which is logged, the task is retried after Backoff.
	// Work may be called when nothing is left to do, and again for what it has done already.
	Work func(context.Context, Leased) (Result, error)

	Workers int           // tasks that are worked on at the same time; default 32
	Outside int           // further task runs that wait for outside systems (see Outside); default 8 for each worker
	Share   int           // task runs of one owner, of both kinds; default a quarter of all
	Batch   int           // tasks leased in one round trip to the database, at most; default Workers
	Lease   time.Duration // real time; a dead worker's tasks are run after it, plus up to Poll; default 15 s
	Poll    time.Duration // real time; finds tasks without a wake-up and without a known due time; default 5 s
	Grace   time.Duration // real time that running tasks get to end when the runner stops; default 10 s

	// Backoff is the pause, in real time, after the given number of failures in a row, from 1. By default it doubles from
	// 1 s to 1 min, with jitter.
	Backoff func(failures int) time.Duration
	Logger  *slog.Logger // default: slog.Default()
	Metrics *Metrics     // nil: none
}

// Runner runs the due tasks of one process. Any number of runners, on any number of nodes, share the tasks of a
// process.
type Runner struct {
	cfg  RunnerConfig
	wake chan struct{}
	log  *slog.Logger

	outside atomic.Int64  // task runs that have given their worker back while they wait
	freed   chan struct{} // signals that outside has grown

	mu      sync.Mutex
	nextDue *time.Time    // the earliest due time from WakeAt that Run has not seen
	wakeAt  chan struct{} // signals that nextDue is set
}

// NewRunner checks the configuration. Nothing happens before Run.
func NewRunner(cfg RunnerConfig) (*Runner, error) {
	if cfg.Pool == nil || cfg.Clock == nil || cfg.Process == "" || cfg.Work == nil {
		return nil, errors.New("tasks: a runner needs a pool, a clock, a process name and a work function")
	}
	if cfg.Workers <= 0 {
		cfg.Workers = 32
	}
	if cfg.Outside <= 0 {
		cfg.Outside = 8 * cfg.Workers
	}
	if cfg.Share <= 0 {
		cfg.Share = (cfg.Workers + cfg.Outside) / 4
	}
	if cfg.Batch <= 0 {
		cfg.Batch = cfg.Workers
	}
	if cfg.Lease <= 0 {
		cfg.Lease = 15 * time.Second
	}
	if cfg.Poll <= 0 {
		cfg.Poll = 5 * time.Second
	}
	if cfg.Grace <= 0 {
		cfg.Grace = 10 * time.Second
	}
	if cfg.Backoff == nil {
		cfg.Backoff = defaultBackoff
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Runner{
		cfg: cfg, wake: make(chan struct{}, 1), wakeAt: make(chan struct{}, 1), freed: make(chan struct{}, 1), log: cfg.Logger.With("process", cfg.Process),
	}, nil
}

// defaultBackoff is 1 s, 2 s, 4 s … up to 1 min, less up to half of it, so that tasks that failed together are not
// retried together; never under 1 s.
func defaultBackoff(failures int) time.Duration {
	full := time.Minute
	if failures < 7 {
		full = time.Second << max(failures-1, 0)
	}
	return max(full-rand.N(full/2), time.Second) //nolint:gosec // jitter is no secret
}

// Wake makes the runner look for due tasks now. Call it after the commit of a transaction that scheduled a task. It
// never blocks, and may be called before Run and from any goroutine.
func (r *Runner) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// WakeAt makes the runner look for due tasks at a time by the service's clock; at once if that time has come.
func (r *Runner) WakeAt(due time.Time) {
	if !due.After(r.cfg.Clock.Now()) {
		r.Wake()
		return
	}
	r.mu.Lock()
	if r.nextDue == nil || due.Before(*r.nextDue) {
		r.nextDue = &due
	}
	r.mu.Unlock()
	select {
	case r.wakeAt <- struct{}{}:
	default:
	}
}

// takeNextDue returns and clears the earliest due time from WakeAt; nil when there is none.
func (r *Runner) takeNextDue() *time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	due := r.nextDue
	r.nextDue = nil
	return due
}

// Run runs tasks until ctx ends. Then it leases no more of them, waits up to Grace for those that run, cancels the
// rest, waits for them to return, and writes all results: finished tasks are removed, cancelled ones lose their lease.
// It returns an error only if the results could not be written; those tasks are run again when their leases end.
func (r *Runner) Run(ctx context.Context) error {
	l := newLoop(r)
	outlasting := context.WithoutCancel(ctx)
	defer l.close()
	for ctx.Err() == nil {
		if l.needsRoundTrip() {
			l.step(outlasting)
			continue
		}
		select {
		case <-ctx.Done():
		case <-r.wake:
			l.mayBeDue = true
		case <-r.wakeAt:
			if due := r.takeNextDue(); due != nil && (l.nextDue == nil || due.Before(*l.nextDue)) {
				l.setDueTimer(due)
			}
		case <-r.freed:
		case <-l.dueTimer:
			l.mayBeDue = true
		case <-l.poll.C:
			l.mayBeDue = true
		case <-l.pauseEnds:
			l.pauseEnds = nil
		case <-l.renewal.C:
			l.renewNow = true
		case e := <-l.ended:
			l.collect(e)
		}
	}
	return l.stop(outlasting)
}

// runTask calls Work and turns its result into what is to be written.
func (r *Runner) runTask(ctx context.Context, task Leased) ended {
	result, err := r.workRecovered(ctx, task)
	e := ended{task: task}
	switch {
	case err == nil:
		e.finished, e.again, e.pause = result.again == nil && result.pause == nil, result.again, result.pause
		if result.pause != nil {
			e.failures = task.Failures
		}
	case ctx.Err() != nil: // cancelled: not a failure of the task
		e.failures = task.Failures
	default:
		e.failures = task.Failures + 1
		pause := r.cfg.Backoff(e.failures)
		e.pause = &pause
		r.log.Error("tasks: task run failed", "key", task.Key, "failures", e.failures, "retry_in", pause, "error", err)
	}
	return e
}

// workRecovered calls Work and converts a panic into an error. The value of a panic may contain personal data, so the
// error has it only if it is an error of the Go runtime.
func (r *Runner) workRecovered(ctx context.Context, task Leased) (result Result, err error) {
	defer func() {
		if v := recover(); v != nil {
			if own, ok := v.(runtime.Error); ok {
				err = fmt.Errorf("tasks: panic: %w\n%s", own, debug.Stack())
			} else {
				err = fmt.Errorf("tasks: panic with a %T\n%s", v, debug.Stack())
			}
		}
	}()
	return r.cfg.Work(ctx, task)
}
