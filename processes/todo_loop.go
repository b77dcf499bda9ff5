package processes

import (
	"context"
	"time"
)

// loop is a running Runner. Only the goroutine of Run touches it; workers report through ended. The context that its
// methods get, for the database and for work, outlives the end of Run's own.
type loop struct {
	*Runner

	look    bool              // there may be due keys that have not been looked for
	renew   bool              // it is time to renew the leases
	held    map[int64]*holder // running work, by fence: after a lost lease a key can be here twice
	ended   chan ended        // has room for every worker
	unsaved []ended

	next    *time.Time       // the next deadline that is known
	due     <-chan time.Time // its alarm, by the service's clock
	stopDue func()
	poll    *time.Timer
	renewal *time.Ticker

	failures int              // of the database, in a row
	rested   <-chan time.Time // not nil while it is left alone
}

// holder is one running piece of work.
type holder struct {
	task   Task
	cancel context.CancelCauseFunc
	expiry *time.Timer // cancels the work when its lease was not renewed, whatever else hangs
}

func newLoop(r *Runner) *loop {
	return &loop{
		Runner: r, look: true,
		held: map[int64]*holder{}, ended: make(chan ended, r.cfg.Workers),
		stopDue: func() {}, poll: time.NewTimer(r.cfg.Poll), renewal: time.NewTicker(r.cfg.Lease / 3),
	}
}

func (l *loop) close() {
	l.stopDue()
	l.poll.Stop()
	l.renewal.Stop()
}

func (l *loop) free() int { return l.cfg.Workers - len(l.held) }

// wants tells whether there is a reason to visit the database now.
func (l *loop) wants() bool {
	return l.rested == nil && (len(l.unsaved) > 0 || l.renew || l.look && l.free() > 0)
}

// turn visits the database once: with everything that has ended by now, so that visits get fewer as load grows.
func (l *loop) turn(ctx context.Context) {
	l.collect()
	if len(l.unsaved) > 0 {
		l.look = true // what was asked for again meanwhile is due
	}
	take := 0
	if l.look {
		take = min(l.free(), l.cfg.Batch)
	}
	if t, err := l.visit(ctx, take); err == nil && take > 0 {
		l.look = len(t.taken) == take
		l.arm(t)
	}
}

// visit writes down what has ended, renews leases if it is time, takes up to so many keys and starts work on them.
func (l *loop) visit(ctx context.Context, take int) (*turn, error) {
	t := &turn{ended: l.unsaved, take: take, now: l.cfg.Clock.Now()}
	if l.renew {
		for _, h := range l.held {
			t.renew = append(t.renew, h.task)
		}
	}
	asked := time.Now() // leases run from before the question, so that ours end first
	bounded, cancel := context.WithTimeout(ctx, l.cfg.Lease/3)
	defer cancel()
	if err := t.run(bounded, l.Runner); err != nil {
		pause := min(100*time.Millisecond<<min(l.failures, 10), l.cfg.Poll)
		l.failures++
		l.rested = time.After(pause)
		l.log.Warn("to-do list out of reach", "failures", l.failures, "retry_in", pause, "error", err)
		return nil, err
	}
	l.failures, l.unsaved, l.renew = 0, nil, false
	left := l.cfg.Lease - time.Since(asked)
	for _, task := range t.renew {
		if t.renewed[task.Fence] {
			l.held[task.Fence].expiry.Reset(left)
		} else {
			l.held[task.Fence].cancel(ErrLeaseLost)
		}
	}
	for _, task := range t.taken {
		l.start(ctx, task, left)
	}
	return t, nil
}

func (l *loop) start(ctx context.Context, task Task, lease time.Duration) {
	ctx, cancel := context.WithCancelCause(ctx)
	l.held[task.Fence] = &holder{
		task: task, cancel: cancel, expiry: time.AfterFunc(lease, func() { cancel(ErrLeaseLost) }),
	}
	go func() { l.ended <- l.work(ctx, task) }()
}

// arm sets the alarms for what comes due by itself.
func (l *loop) arm(t *turn) {
	l.alarm(t.next)
	wait := l.cfg.Poll
	if t.retryIn != nil {
		wait = min(wait, *t.retryIn)
	}
	l.poll.Reset(wait)
}

// alarm rings at a deadline, and no more for an earlier one.
func (l *loop) alarm(next *time.Time) {
	l.stopDue()
	l.next, l.due, l.stopDue = next, nil, func() {}
	if next != nil {
		l.due, l.stopDue = l.cfg.Clock.Timer(*next)
	}
}

func (l *loop) put(e ended) {
	h := l.held[e.task.Fence]
	h.expiry.Stop()
	h.cancel(nil)
	delete(l.held, e.task.Fence)
	l.unsaved = append(l.unsaved, e)
}

// collect puts down whatever else has ended by now.
func (l *loop) collect() {
	for {
		select {
		case e := <-l.ended:
			l.put(e)
		default:
			return
		}
	}
}

// stop ends the work and writes it down.
func (l *loop) stop(ctx context.Context) error {
	grace := time.NewTimer(l.cfg.Grace)
	defer grace.Stop()
	for len(l.held) > 0 {
		if l.rested == nil && (len(l.unsaved) > 0 || l.renew) {
			_, _ = l.visit(ctx, 0) // told there, and tried again
		}
		select {
		case e := <-l.ended:
			l.put(e)
			l.collect()
		case <-l.renewal.C:
			l.renew = true
		case <-l.rested:
			l.rested = nil
		case <-grace.C:
			for _, h := range l.held {
				h.cancel(ErrStopping)
			}
		}
	}
	l.renew = false
	if len(l.unsaved) == 0 {
		return nil
	}
	_, err := l.visit(ctx, 0)
	return err
}
