// Package clock is the one source of time. Every stored time and every deadline is read from a Clock that is
// passed in, so that tests and the dev mode can move time instead of waiting for it (decisions, section 14).
package clock

import "time"

// Clock tells the service's time.
type Clock interface {
	// Now is the current time in UTC, cut to milliseconds, which is what is stored and shown.
	Now() time.Time
	// Changed returns a channel that is closed when the clock is moved by hand. A real clock never closes it.
	Changed() <-chan struct{}
	// Timer returns a channel that receives once when this clock reaches t, and a function that gives the timer
	// up. On a frozen clock only a move can make it fire. A t in the past fires at once.
	Timer(t time.Time) (fired <-chan time.Time, stop func())
}
