package clock

import (
	"errors"
	"sync"
	"time"
)

// ErrBackwards refuses to move a clock back: recorded events would then lie in the future.
var ErrBackwards = errors.New("clock: time moves forward only")

// maxWait bounds one wait on a timer of the machine. These follow the monotonic clock and not the wall clock, so a
// timer of this package compares with the wall clock again after maxWait. A laptop that slept, or a corrected clock,
// then delays it by no more than that.
const maxWait = time.Minute

// Movable is a clock that can be moved forward by hand, for the dev mode and for tests. Between moves it either stands
// still (Frozen) or runs at the pace of real time (Running). It is safe for concurrent use.
type Movable struct {
	mu      sync.Mutex
	frozen  bool
	at      time.Time     // the time, when frozen
	ahead   time.Duration // of real time, when running
	changed chan struct{}
	timers  map[*timer]struct{}
}

type timer struct {
	at    time.Time
	fired chan time.Time
	real  *time.Timer // nil on a frozen clock
}

// Frozen returns a clock that stands at t until it is moved.
func Frozen(t time.Time) *Movable {
	return &Movable{frozen: true, at: t, changed: make(chan struct{}), timers: map[*timer]struct{}{}}
}

// Running returns a clock that shows real time until it is moved, and runs on from there at the pace of real time.
func Running() *Movable {
	return &Movable{changed: make(chan struct{}), timers: map[*timer]struct{}{}}
}

// Now implements Clock.
func (m *Movable) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now()
}

// Changed implements Clock.
func (m *Movable) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// Timer implements Clock.
func (m *Movable) Timer(t time.Time) (fired <-chan time.Time, stop func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := &timer{at: t, fired: make(chan time.Time, 1)}
	m.timers[w] = struct{}{}
	m.fireOrArm(w)
	return w.fired, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.drop(w)
	}
}

// Advance moves the clock forward by d and returns the new time. A negative d is refused with ErrBackwards.
func (m *Movable) Advance(d time.Duration) (time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d < 0 {
		return m.now(), ErrBackwards
	}
	m.move(d)
	return m.now(), nil
}

// Set moves the clock forward to t and returns the new time. A t before now is refused with ErrBackwards.
func (m *Movable) Set(t time.Time) (time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.Before(m.now()) {
		return m.now(), ErrBackwards
	}
	m.move(max(t.Sub(m.exact()), 0))
	return m.now(), nil
}

func (m *Movable) move(d time.Duration) {
	if m.frozen {
		m.at = m.at.Add(d)
	} else {
		m.ahead += d
	}
	close(m.changed)
	m.changed = make(chan struct{})
	for w := range m.timers {
		m.fireOrArm(w)
	}
}

// exact is the time without truncation.
func (m *Movable) exact() time.Time {
	if m.frozen {
		return m.at
	}
	return time.Now().Add(m.ahead)
}

func (m *Movable) now() time.Time {
	return m.exact().UTC().Truncate(time.Millisecond)
}

// fireOrArm fires a timer whose time has come. Otherwise it arms a timer of the machine, which calls it again.
func (m *Movable) fireOrArm(w *timer) {
	now := m.now()
	if !now.Before(w.at) {
		w.fired <- now // never blocks: a timer fires once
		m.drop(w)
		return
	}
	if m.frozen {
		return
	}
	// At least a millisecond, since the shown time is truncated to one.
	wait := min(max(w.at.Sub(m.exact()), time.Millisecond), maxWait)
	if w.real != nil {
		w.real.Reset(wait)
		return
	}
	w.real = time.AfterFunc(wait, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if _, active := m.timers[w]; active {
			m.fireOrArm(w)
		}
	})
}

func (m *Movable) drop(w *timer) {
	delete(m.timers, w)
	if w.real != nil {
		w.real.Stop()
	}
}

type system struct{ clock *Movable }

// System returns the real clock.
func System() Clock { return system{Running()} }

// IsSystem reports whether a clock is the real one, which cannot be moved.
func IsSystem(c Clock) bool {
	_, is := c.(system)
	return is
}

func (s system) Now() time.Time { return s.clock.Now() }

// Changed returns nil, from which a receive waits forever: this clock cannot be moved.
func (s system) Changed() <-chan struct{} { return nil }

func (s system) Timer(t time.Time) (<-chan time.Time, func()) { return s.clock.Timer(t) }
