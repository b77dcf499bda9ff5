package feed

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/jackc/pgx/v5/pgconn"

	"ledgerline/events"
	"ledgerline/eventstore"
)

// isUnprocessable tells whether an error is caused by the event itself, so that a retry would fail in the same way and
// the event is parked. Everything else is a fault of the environment, such as an event of a newer version of the
// program or a table that lacks a column: the consumer stops at the event and tries again, so that no event is skipped
// that could be applied later.
func isUnprocessable(err error) bool {
	if undecodable := (*eventstore.UndecodableError)(nil); errors.As(err, &undecodable) {
		return !errors.Is(err, events.ErrUnknown)
	}
	if panicked := (middleware.RecoveredPanicError{}); errors.As(err, &panicked) {
		return true
	}
	if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) {
		if refused.Code == codeNotNull { // a column that this version of the program does not write
			return false
		}
		switch refused.Code[:2] {
		case "21", "22", "23", "54": // cardinality, data, integrity, limits
			return true
		}
	}
	unprocessable := (*UnprocessableError)(nil)
	return errors.As(err, &unprocessable)
}

const codeNotNull = "23502"

// isEnvironment tells whether an error stays until somebody changes the program or the database.
func isEnvironment(err error) bool {
	if errors.Is(err, events.ErrUnknown) {
		return true
	}
	refused := (*pgconn.PgError)(nil)
	return errors.As(err, &refused) && (refused.Code == codeNotNull || strings.HasPrefix(refused.Code, "42") || strings.HasPrefix(refused.Code, "3F"))
}

const (
	// The pause before a batch is tried again doubles up to shortPause, so that consumers go on soon after an outage of
	// the database, or up to longPause when somebody has to repair something.
	firstPause = 100 * time.Millisecond
	shortPause = time.Second
	longPause  = 15 * time.Second
	// stoppedAfter is how many tries in a row of a batch may fail, for reasons that can pass, before its consumer counts
	// as stopped.
	stoppedAfter = 5
)

// Stop is a consumer that cannot go on at an event.
type Stop struct {
	Consumer string
	Shard    int
	After    int64 // its checkpoint
	Failures int   // tries in a row
	Err      error
}

// stops knows which consumers fail. It is safe for concurrent use.
type stops struct {
	log *slog.Logger

	mu     sync.Mutex
	byName map[string]Stop // by the name of the handler
}

// failed counts a failed try and returns the pause before the next one.
func (s *stops) failed(name string, b *Batch, err error) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	stop := s.byName[name]
	stop.Failures++
	stop.Err = err
	stop.Consumer, stop.Shard, stop.After = b.Consumer, b.Shard, b.After
	s.byName[name] = stop
	limit := shortPause
	if isEnvironment(err) {
		limit = longPause
		if stop.Failures&(stop.Failures-1) == 0 { // 1, 2, 4, 8, …
			s.log.Error("feed: a consumer has stopped: the program or the schema of the database does not fit; no event is skipped",
				"consumer", b.Consumer, "shard", b.Shard, "after_position", b.After, "failures", stop.Failures, "error", reason(err))
		}
	}
	return min(firstPause<<min(stop.Failures-1, 10), limit)
}

func (s *stops) succeeded(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stop, failed := s.byName[name]; failed {
		delete(s.byName, name)
		if isEnvironment(stop.Err) {
			s.log.Info("feed: a consumer goes on", "consumer", stop.Consumer, "shard", stop.Shard)
		}
	}
}

// Stopped returns the consumers of this process that cannot go on, in the order of their names and shards.
func (r *Runner) Stopped() []Stop {
	r.stops.mu.Lock()
	defer r.stops.mu.Unlock()
	var list []Stop
	for _, stop := range r.stops.byName {
		if isEnvironment(stop.Err) || stop.Failures >= stoppedAfter {
			list = append(list, stop)
		}
	}
	slices.SortFunc(list, func(a, b Stop) int {
		if c := strings.Compare(a.Consumer, b.Consumer); c != 0 {
			return c
		}
		return a.Shard - b.Shard
	})
	return list
}

// backOff pauses after a try that failed, before the batch is tried again.
func (r *Runner) backOff(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		produced, err := next(msg)
		ctx := msg.Context()
		name := message.HandlerNameFromCtx(ctx)
		if err == nil {
			r.stops.succeeded(name)
			return produced, nil
		}
		b := r.handlers[name].source.batch
		if ctx.Err() != nil || b == nil {
			return produced, err
		}
		pause := time.NewTimer(r.stops.failed(name, b, err))
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		return produced, err
	}
}
