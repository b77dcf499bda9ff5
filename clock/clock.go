// Package clock is the service's source of time. Every stored time and every deadline comes from a Clock that is passed
// in, so that tests and the dev mode can move time instead of waiting for it.
package clock

import "time"

// Clock is the service's time. Implementations are safe for concurrent use.
type Clock interface {
	// Now is the current time in UTC, truncated to milliseconds, the precision of stored and shown times.
	Now() time.Time
	// Changed returns a channel that is closed when the clock is moved by hand. A real clock never closes it.
	Changed() <-chan struct{}
	// Timer returns a channel that receives once when this clock reaches t, and a function that cancels the timer. On a
	// frozen clock only a move can make it fire. A timer for a time in the past fires at once.
	Timer(t time.Time) (fired <-chan time.Time, stop func())
}
