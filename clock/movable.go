package clock

import (
	"errors"
	"sync"
	"time"
)

// ErrBackwards refuses to move a clock back: what has happened already would then lie in the future.
var ErrBackwards = errors.New("clock: time moves forward only")

// longestWait bounds one wait on the machine's timer. Those follow the monotonic clock, so a timer looks at the wall
// clock again after this long: a laptop that slept or a corrected clock then delays it by no more.
const longestWait = time.Minute

// Movable is a clock that can be moved forward by hand: the dev mode's and the tests'. Between moves it either stands
// still (Frozen) or goes on with real time (Running). It is safe for concurrent use.
type Movable struct {
	mu      sync.Mutex
	frozen  bool
	stands  time.Time     // the time, when frozen
	ahead   time.Duration // of real time, when running
	changed chan struct{}
	timers  map[*timer]struct{}
}

type timer struct {
	at    time.Time
	fired chan time.Time
	real  *time.Timer // nil on a frozen clock
}

// Frozen stands at t until it is moved.
func Frozen(t time.Time) *Movable {
	return &Movable{frozen: true, stands: t, changed: make(chan struct{}), timers: map[*timer]struct{}{}}
}

// Running shows real time until it is moved, and goes on from there at the pace of real time.
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

// Advance moves the clock forward by d and answers the new time. A negative d is refused with ErrBackwards.
func (m *Movable) Advance(d time.Duration) (time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d < 0 {
		return m.now(), ErrBackwards
	}
	m.move(d)
	return m.now(), nil
}

// Set moves the clock forward to t and answers the new time. A t before now is refused with ErrBackwards.
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
		m.stands = m.stands.Add(d)
	} else {
		m.ahead += d
	}
	close(m.changed)
	m.changed = make(chan struct{})
	for w := range m.timers {
		m.fireOrArm(w)
	}
}

func (m *Movable) exact() time.Time {
	if m.frozen {
		return m.stands
	}
	return time.Now().Add(m.ahead)
}

func (m *Movable) now() time.Time {
	return m.exact().UTC().Truncate(time.Millisecond)
}

// fireOrArm fires a timer whose time has come, and else has the machine's timer look again.
func (m *Movable) fireOrArm(w *timer) {
	now := m.now()
	if !now.Before(w.at) {
		w.fired <- now // has room: a timer fires once
		m.drop(w)
		return
	}
	if m.frozen {
		return
	}
	// At least a millisecond, since the time shown is cut to one.
	wait := min(max(w.at.Sub(m.exact()), time.Millisecond), longestWait)
	if w.real != nil {
		w.real.Reset(wait)
		return
	}
	w.real = time.AfterFunc(wait, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if _, waits := m.timers[w]; waits {
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

// System is the real clock.
func System() Clock { return system{Running()} }

func (s system) Now() time.Time { return s.clock.Now() }

// Changed is nil: nobody can move this clock, and a receive from nil waits for ever.
func (s system) Changed() <-chan struct{} { return nil }

func (s system) Timer(t time.Time) (<-chan time.Time, func()) { return s.clock.Timer(t) }
