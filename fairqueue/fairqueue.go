// Package fairqueue bounds work that is under way at the same time, in total and for each owner, and lets owners that
// wait take turns. An owner with any number of waiting callers delays another owner by one piece of work at most.
package fairqueue

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// ErrFull and ErrBusy are returned by Enter when the owner has as many callers waiting as it may have, or the caller
// has waited for Wait: ErrFull if the owner's own work is in the way, ErrBusy if that of other owners is.
var (
	ErrFull = errors.New("fairqueue: the owner has too much work under way")
	ErrBusy = errors.New("fairqueue: there is too much work under way")
)

// Config are the bounds of a Queue. All are needed.
type Config struct {
	// Total and PerOwner bound the units of work that are under way, of all owners and of one. What a unit is, such as a
	// request or a byte, is up to the caller.
	Total, PerOwner int64
	// Waiting bounds the callers of one owner that wait.
	Waiting int
	// Wait is how long a caller waits, in real time.
	Wait time.Duration
}

// Queue admits work. K identifies an owner. It is safe for concurrent use. Its memory grows with the owners that have
// work under way or waiting.
type Queue[K comparable] struct {
	cfg Config

	mu     sync.Mutex
	used   int64
	owners map[K]*owner
	turn   []K  // the owners with waiting callers, next first
	short  bool // the next caller to be admitted waits for units of the total
}

type owner struct {
	used    int64
	waiting []*waiter // first come, first served
}

type waiter struct {
	units    int64
	admitted chan struct{} // closed with the queue's mutex held
}

// New makes a queue.
func New[K comparable](cfg Config) *Queue[K] { return &Queue[K]{cfg: cfg, owners: map[K]*owner{}} }

// Enter waits until the owner may do a piece of work of this many units, at most PerOwner. The caller calls leave, any
// number of times, when the work has ended. Enter returns ErrFull, or the error of ctx when that ends first.
func (q *Queue[K]) Enter(ctx context.Context, key K, units int64) (leave func(), err error) {
	units = min(max(units, 1), q.cfg.PerOwner, q.cfg.Total)
	leave = sync.OnceFunc(func() { q.leave(key, units) })
	w, err := q.enter(key, units)
	if w == nil || err != nil {
		return leave, err
	}
	patience := time.NewTimer(q.cfg.Wait)
	defer patience.Stop()
	select {
	case <-w.admitted:
		return leave, nil
	case <-patience.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	admitted, reason := q.withdraw(key, w)
	if admitted { // meanwhile
		leave()
	}
	if err == nil {
		err = reason
	}
	return func() {}, err
}

// enter admits the work at once or returns its waiter.
func (q *Queue[K]) enter(key K, units int64) (*waiter, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	o := q.owners[key]
	if o == nil {
		o = &owner{}
		q.owners[key] = o
	}
	if len(o.waiting) == 0 && !q.short && o.used+units <= q.cfg.PerOwner && q.used+units <= q.cfg.Total {
		o.used += units
		q.used += units
		return nil, nil //nolint:nilnil // nothing to wait for
	}
	if len(o.waiting) >= q.cfg.Waiting {
		q.forget(key, o)
		return nil, q.reason(o, units)
	}
	w := &waiter{units, make(chan struct{})}
	if len(o.waiting) == 0 {
		q.turn = append(q.turn, key)
	}
	o.waiting = append(o.waiting, w)
	q.admit()
	return w, nil
}

func (q *Queue[K]) leave(key K, units int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	o := q.owners[key]
	o.used -= units
	q.used -= units
	q.admit()
	q.forget(key, o)
}

// reason says why work of the owner was not admitted.
func (q *Queue[K]) reason(o *owner, units int64) error {
	if o.used > 0 && (o.used+units > q.cfg.PerOwner || len(o.waiting) > 0) {
		return ErrFull
	}
	return ErrBusy
}

// withdraw removes a waiter, and returns why it was not admitted, or that it was.
func (q *Queue[K]) withdraw(key K, w *waiter) (admitted bool, reason error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	o := q.owners[key]
	select {
	case <-w.admitted:
		return true, ErrBusy
	default:
	}
	reason = q.reason(o, w.units)
	o.waiting = slices.DeleteFunc(o.waiting, func(other *waiter) bool { return other == w })
	if len(o.waiting) == 0 {
		q.turn = slices.DeleteFunc(q.turn, func(other K) bool { return other == key })
	}
	q.admit() // w may have been what the others waited behind
	q.forget(key, o)
	return false, reason
}

// admit admits waiting work, one piece of each owner in turn, until no more fits. An owner that has PerOwner units is
// passed over. Work that does not fit into the total is not: smaller work would keep it waiting for ever.
func (q *Queue[K]) admit() {
	q.short = false
	for passed := 0; passed < len(q.turn); {
		key := q.turn[0]
		o := q.owners[key]
		w := o.waiting[0]
		if o.used+w.units > q.cfg.PerOwner {
			q.turn = append(q.turn[1:], key)
			passed++
			continue
		}
		if q.used+w.units > q.cfg.Total {
			q.short = true
			return
		}
		o.used += w.units
		q.used += w.units
		o.waiting, passed = o.waiting[1:], 0
		close(w.admitted)
		q.turn = q.turn[1:]
		if len(o.waiting) > 0 {
			q.turn = append(q.turn, key)
		}
	}
}

// forget removes an owner that has no work.
func (q *Queue[K]) forget(key K, o *owner) {
	if o.used == 0 && len(o.waiting) == 0 {
		delete(q.owners, key)
	}
}
