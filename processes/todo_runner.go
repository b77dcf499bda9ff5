package processes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"ledgerline/clock"
)

// Causes with which the context of running work is cancelled (context.Cause).
var (
	// ErrLeaseLost tells that the lease could not be renewed in time: somebody else may work on the key already.
	ErrLeaseLost = errors.New("processes: the lease on the key is lost")
	// ErrStopping tells that the runner is stopping and its grace is over.
	ErrStopping = errors.New("processes: the runner is stopping")
)

// RunnerConfig says what a Runner needs. Zero values are filled in where a default is stated.
type RunnerConfig struct {
	Pool    *pgxpool.Pool
	Clock   clock.Clock // decides what is due
	Process string      // whose keys are worked on

	// Work does what there is to do for a key. Nobody else works on the key meanwhile, unless the lease is lost: then
	// its context ends with the cause ErrLeaseLost. An error or a panic is logged, and the key comes back after Backoff.
	// Work may be called when there is nothing (left) to do, and again for something that it has done already.
	Work func(context.Context, Task) (Outcome, error)

	Workers int           // keys worked on at once; default 32
	Batch   int           // keys taken in one visit to the database, at most; default Workers
	Lease   time.Duration // real time; a dead worker's keys come back after it, plus up to Poll; default 15 s
	Poll    time.Duration // real time; the net under Wake and the deadlines that are known; default 5 s
	Grace   time.Duration // real time that running work gets to end by itself when the runner stops; default 10 s

	// Backoff is how long, in real time, a key rests after so many failures in a row (from 1); default 1 s to 1 min,
	// doubling, with jitter.
	Backoff func(failures int) time.Duration
	Logger  *slog.Logger // default: slog.Default()
}

// Runner works on the due keys of one process. Any number of them, on any number of nodes, share the work.
type Runner struct {
	cfg  RunnerConfig
	wake chan struct{}
	log  *slog.Logger

	mu       sync.Mutex
	expected *time.Time    // the earliest deadline told by Expect that Run has not heard of
	expect   chan struct{} // there is one
}

// NewRunner checks the configuration. Nothing happens before Run.
func NewRunner(cfg RunnerConfig) (*Runner, error) {
	if cfg.Pool == nil || cfg.Clock == nil || cfg.Process == "" || cfg.Work == nil {
		return nil, errors.New("processes: a runner needs a pool, a clock, a process name and its work")
	}
	if cfg.Workers <= 0 {
		cfg.Workers = 32
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
		cfg.Backoff = doubling
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Runner{cfg: cfg, wake: make(chan struct{}, 1), expect: make(chan struct{}, 1), log: cfg.Logger.With("process", cfg.Process)}, nil
}

// doubling is 1 s, 2 s, 4 s … up to 1 min, less up to half of it, so that keys that failed together do not come back
// together; never under 1 s.
func doubling(failures int) time.Duration {
	full := time.Minute
	if failures < 7 {
		full = time.Second << max(failures-1, 0)
	}
	return max(full-rand.N(full/2), time.Second) //nolint:gosec // jitter is no secret
}

// Wake makes the runner look for due keys now. Call it after the commit of a transaction that asked. It never blocks,
// and may be called before Run and from anywhere.
func (r *Runner) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Expect is Wake for a key that becomes due at a time by the service's clock: one in the future only sets the alarm.
func (r *Runner) Expect(due time.Time) {
	if !due.After(r.cfg.Clock.Now()) {
		r.Wake()
		return
	}
	r.mu.Lock()
	if r.expected == nil || due.Before(*r.expected) {
		r.expected = &due
	}
	r.mu.Unlock()
	select {
	case r.expect <- struct{}{}:
	default:
	}
}

// expectation takes what Expect has told.
func (r *Runner) expectation() *time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	due := r.expected
	r.expected = nil
	return due
}

// Held tells whether the task's lease still holds. It is for whoever is about to do what may be done only once; what is
// appended to the ledger should lean on stream versions as well, since a lease can be lost right after the answer.
func (r *Runner) Held(ctx context.Context, t Task) (bool, error) {
	var held bool
	if err := r.cfg.Pool.QueryRow(ctx, todoHeldSQL, t.Process, t.Key, t.Fence).Scan(&held); err != nil {
		return false, fmt.Errorf("processes: %s: look at lease: %w", t.Process, err)
	}
	return held, nil
}

// Run works until ctx ends. Then it takes no more keys, waits for running work up to Grace, cancels what is left, waits
// for it to return, and writes everything down: finished keys as finished, cancelled ones as free. It returns an error
// only when that last writing failed; the keys then come back when their leases end.
func (r *Runner) Run(ctx context.Context) error {
	l := newLoop(r)
	outlasting := context.WithoutCancel(ctx)
	defer l.close()
	for ctx.Err() == nil {
		if l.wants() {
			l.turn(outlasting)
			continue
		}
		select {
		case <-ctx.Done():
		case <-r.wake:
			l.look = true
		case <-r.expect:
			if due := r.expectation(); due != nil && (l.next == nil || due.Before(*l.next)) {
				l.alarm(due)
			}
		case <-l.due:
			l.look = true
		case <-l.poll.C:
			l.look = true
		case <-l.rested:
			l.rested = nil
		case <-l.renewal.C:
			l.renew = true
		case e := <-l.ended:
			l.put(e)
		}
	}
	return l.stop(outlasting)
}

// work calls Work and turns what it gives into how the task ended.
func (r *Runner) work(ctx context.Context, task Task) ended {
	outcome, err := r.protected(ctx, task)
	e := ended{task: task}
	switch {
	case err == nil:
		e.done, e.again = outcome.again == nil, outcome.again
	case ctx.Err() != nil: // cancelled: no failure of the work
		e.failures = task.Attempts
	default:
		e.failures = task.Attempts + 1
		pause := r.cfg.Backoff(e.failures)
		e.pause = &pause
		r.log.Error("work failed", "key", task.Key, "failures", e.failures, "retry_in", pause, "error", err)
	}
	return e
}

// protected makes an error of a panic. Its value may hold anything, personal data included, and is told only when it is
// the runtime's own.
func (r *Runner) protected(ctx context.Context, task Task) (outcome Outcome, err error) {
	defer func() {
		if v := recover(); v != nil {
			if own, ok := v.(runtime.Error); ok {
				err = fmt.Errorf("processes: panic: %w\n%s", own, debug.Stack())
			} else {
				err = fmt.Errorf("processes: panic with a %T\n%s", v, debug.Stack())
			}
		}
	}()
	return r.cfg.Work(ctx, task)
}
