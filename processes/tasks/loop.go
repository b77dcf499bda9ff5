package tasks

import (
	"context"
	"sync"
	"time"
)

// loop is the state of a running Runner. Only the goroutine of Runner.Run uses it; workers report through the channel
// ended. The context that its methods get, for the database and for task runs, outlives the end of Run's own context.
type loop struct {
	*Runner

	mayBeDue bool               // there may be due tasks that have not been leased
	renewNow bool               // leases are to be renewed in the next round trip
	running  map[int64]*running // by fence: after a lost lease, two runs of a key can be here
	ended    chan ended         // has room for the result of every worker
	unsaved  []ended            // results to write in the next round trip

	nextDue  *time.Time       // the next due time that is known
	dueTimer <-chan time.Time // fires at nextDue, by the service's clock
	stopDue  func()           // stops dueTimer
	poll     *time.Timer
	renewal  *time.Ticker

	dbFailures int              // round trips that failed in a row
	pauseEnds  <-chan time.Time // nil unless round trips pause after a failure of the database
}

// running is a task run in progress.
type running struct {
	runner *Runner
	task   Leased
	cancel context.CancelCauseFunc
	expiry *time.Timer // cancels the run when its lease was not renewed, even while a round trip hangs

	mu      sync.Mutex
	outside int // calls under way for which the run has given its worker back
}

func newLoop(r *Runner) *loop {
	return &loop{
		Runner: r, mayBeDue: true,
		running: map[int64]*running{}, ended: make(chan ended, r.cfg.Workers+r.cfg.Outside),
		stopDue: func() {}, poll: time.NewTimer(r.cfg.Poll), renewal: time.NewTicker(r.cfg.Lease / 3),
	}
}

func (l *loop) close() {
	l.stopDue()
	l.poll.Stop()
	l.renewal.Stop()
}

// freeWorkers is how many tasks may be leased. It is not negative.
func (l *loop) freeWorkers() int {
	outside := int(l.outside.Load())
	working := len(l.running) - outside
	l.cfg.Metrics.runs(l.cfg.Process, working, outside)
	return max(0, min(l.cfg.Workers-working, l.cfg.Workers+l.cfg.Outside-len(l.running)))
}

// busyOwners are the owners whose share of task runs is used up.
func (l *loop) busyOwners() []string {
	if len(l.running) < l.cfg.Share {
		return nil
	}
	runs := map[string]int{}
	var busy []string
	for _, r := range l.running {
		if runs[r.task.Owner]++; runs[r.task.Owner] == l.cfg.Share && r.task.Owner != "" {
			busy = append(busy, r.task.Owner)
		}
	}
	return busy
}

// needsRoundTrip reports whether there is a reason to ask the database now.
func (l *loop) needsRoundTrip() bool {
	return l.pauseEnds == nil && (len(l.unsaved) > 0 || l.renewNow || l.mayBeDue && l.freeWorkers() > 0)
}

// step makes one round trip to the database. It first collects all results that are there, so that round trips become
// fewer for each task as load grows.
func (l *loop) step(ctx context.Context) {
	l.collectEnded()
	if len(l.unsaved) > 0 {
		l.mayBeDue = true // a task that was scheduled again while it ran is due
	}
	limit := 0
	if l.mayBeDue {
		limit = min(l.freeWorkers(), l.cfg.Batch)
	}
	if t, err := l.roundTrip(ctx, limit); err == nil && limit > 0 {
		l.mayBeDue = len(t.leased) == limit || (t.more && len(t.leased) > 0)
		l.setTimers(t)
	}
}

// roundTrip writes results, renews leases if it is time, leases up to limit due tasks and starts to run them.
func (l *loop) roundTrip(ctx context.Context, limit int) (*roundTrip, error) {
	t := &roundTrip{ended: l.unsaved, limit: limit, now: l.cfg.Clock.Now()}
	if limit > 0 {
		t.busy = l.busyOwners()
	}
	if l.renewNow {
		for _, r := range l.running {
			t.renew = append(t.renew, r.task)
		}
	}
	started := time.Now() // a lease counts from before the round trip, so that it ends here before it ends in the database
	bounded, cancel := context.WithTimeout(ctx, l.cfg.Lease/3)
	defer cancel()
	if err := t.run(bounded, l.Runner); err != nil {
		pause := min(100*time.Millisecond<<min(l.dbFailures, 10), l.cfg.Poll)
		l.dbFailures++
		l.pauseEnds = time.After(pause)
		l.log.Warn("tasks: database access failed", "failures", l.dbFailures, "retry_in", pause, "error", err)
		return nil, err
	}
	l.dbFailures, l.unsaved, l.renewNow = 0, nil, false
	left := l.cfg.Lease - time.Since(started)
	for _, task := range t.renew {
		if t.renewed[task.Fence] {
			l.running[task.Fence].expiry.Reset(left)
		} else {
			l.running[task.Fence].cancel(ErrLeaseLost)
		}
	}
	l.cfg.Metrics.taken(l.cfg.Process, t.waited)
	for _, task := range t.leased {
		l.start(ctx, task, left)
	}
	return t, nil
}

func (l *loop) start(ctx context.Context, task Leased, lease time.Duration) {
	ctx, cancel := context.WithCancelCause(ctx)
	r := &running{runner: l.Runner, task: task, cancel: cancel, expiry: time.AfterFunc(lease, func() { cancel(ErrLeaseLost) })}
	l.running[task.Fence] = r
	ctx = context.WithValue(ctx, runKey{}, r)
	go func() { l.ended <- l.runTask(ctx, task) }()
}

// setTimers sets the timers for tasks that become due, or may be retried, without a wake-up.
func (l *loop) setTimers(t *roundTrip) {
	l.setDueTimer(t.nextDue)
	wait := l.cfg.Poll
	if t.retryIn != nil {
		wait = min(wait, *t.retryIn)
	}
	l.poll.Reset(wait)
}

// setDueTimer replaces the timer for the next due time; nil for none.
func (l *loop) setDueTimer(due *time.Time) {
	l.stopDue()
	l.nextDue, l.dueTimer, l.stopDue = due, nil, func() {}
	if due != nil {
		l.dueTimer, l.stopDue = l.cfg.Clock.Timer(*due)
	}
}

// collect removes a task run that has ended from the running ones, and keeps its result for the next round trip.
func (l *loop) collect(e ended) {
	r := l.running[e.task.Fence]
	r.expiry.Stop()
	r.cancel(nil)
	delete(l.running, e.task.Fence)
	l.unsaved = append(l.unsaved, e)
}

// collectEnded collects the results of the task runs that have ended by now.
func (l *loop) collectEnded() {
	for {
		select {
		case e := <-l.ended:
			l.collect(e)
		default:
			return
		}
	}
}

// stop waits for the running tasks, cancels them after the grace period, and writes their results.
func (l *loop) stop(ctx context.Context) error {
	grace := time.NewTimer(l.cfg.Grace)
	defer grace.Stop()
	for len(l.running) > 0 {
		if l.pauseEnds == nil && (len(l.unsaved) > 0 || l.renewNow) {
			_, _ = l.roundTrip(ctx, 0) // roundTrip logs an error, and the loop repeats the round trip
		}
		select {
		case e := <-l.ended:
			l.collect(e)
			l.collectEnded()
		case <-l.renewal.C:
			l.renewNow = true
		case <-l.pauseEnds:
			l.pauseEnds = nil
		case <-grace.C:
			for _, r := range l.running {
				r.cancel(ErrStopping)
			}
		}
	}
	l.renewNow = false
	if len(l.unsaved) == 0 {
		return nil
	}
	_, err := l.roundTrip(ctx, 0)
	return err
}
