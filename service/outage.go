package service

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// outage keeps the log readable while the database cannot be reached. Every component retries and logs its failures.
// While the database is away, outage replaces these lines by one when it goes, one a minute, and one when it is back.
type outage struct {
	next  slog.Handler
	reach func(context.Context) error // connects to the database

	held       chan heldRecord // records that may be caused by an outage, until it is known whether there is one
	away       atomic.Bool
	suppressed atomic.Int64 // records since the outage began
	stop       context.CancelFunc
	ended      chan struct{}

	mu     sync.RWMutex // guards closed; read-locked while a record is added to held
	closed bool
}

// heldRecord is a record with the handler that writes it.
type heldRecord struct {
	handler slog.Handler
	record  slog.Record
}

const (
	reachTimeout    = 2 * time.Second
	reachEvery      = time.Second
	remindOfOutage  = time.Minute
	maxHeldRecords  = 1024
	classNoCapacity = "53" // SQLSTATE class: too many connections, disk full
)

// newOutage starts to watch the records that its logger gets. Close it when nothing is logged any more.
func newOutage(next slog.Handler, reach func(context.Context) error) *outage {
	ctx, stop := context.WithCancel(context.Background())
	o := &outage{next: next, reach: reach, held: make(chan heldRecord, maxHeldRecords), stop: stop, ended: make(chan struct{})}
	go o.run(ctx)
	return o
}

// reachDatabase returns a function that opens a connection of its own and closes it, so that a busy pool does not look
// like an outage. A server that has no connection left is not away.
func reachDatabase(cfg *pgx.ConnConfig) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, reachTimeout)
		defer cancel()
		conn, err := pgx.ConnectConfig(ctx, cfg.Copy())
		if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) && refused.Code[:2] == classNoCapacity {
			return nil
		}
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	}
}

// logger returns the logger that the components use.
func (o *outage) logger() *slog.Logger { return slog.New(&outageHandler{o.next, o}) }

// close ends the watch and writes the records that are still held.
func (o *outage) close() {
	o.stop()
	<-o.ended
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.release()
}

func (o *outage) run(ctx context.Context) {
	defer close(o.ended)
	for {
		select {
		case <-ctx.Done():
			return
		case first := <-o.held:
			err := o.reach(ctx)
			if err == nil || ctx.Err() != nil {
				_ = first.handler.Handle(ctx, first.record)
				o.release()
				continue
			}
			o.follow(ctx, err)
		}
	}
}

// release writes the records that are held.
func (o *outage) release() {
	for {
		select {
		case one := <-o.held:
			_ = one.handler.Handle(context.Background(), one.record)
		default:
			return
		}
	}
}

// follow reports an outage until the database answers again.
func (o *outage) follow(ctx context.Context, cause error) {
	log, since := slog.New(o.next), time.Now()
	o.suppressed.Store(1) // the record that was held first
	o.away.Store(true)
	log.Error("service: the database cannot be reached; until it is back, failures that it causes are logged once a minute", "error", cause)
	again, remind := time.NewTicker(reachEvery), time.NewTicker(remindOfOutage)
	defer again.Stop()
	defer remind.Stop()
	for {
		o.discard()
		select {
		case <-ctx.Done():
			return
		case <-remind.C:
			log.Error("service: the database still cannot be reached", "away_for", time.Since(since).Round(time.Second), "suppressed", o.suppressed.Load(), "error", cause)
			continue
		case <-again.C:
		}
		if err := o.reach(ctx); err != nil {
			cause = err
			continue
		}
		o.away.Store(false)
		log.Warn("service: the database answers again", "away_for", time.Since(since).Round(time.Millisecond), "suppressed", o.suppressed.Load())
		return
	}
}

// discard counts the records that are held as suppressed.
func (o *outage) discard() {
	for {
		select {
		case <-o.held:
			o.suppressed.Add(1)
		default:
			return
		}
	}
}

// outageHandler passes records on, except those that an outage causes.
type outageHandler struct {
	slog.Handler
	outage *outage
}

// Handle implements slog.Handler.
func (h *outageHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn || !mayBeOutage(r) {
		return h.Handler.Handle(ctx, r)
	}
	o := h.outage
	o.mu.RLock()
	defer o.mu.RUnlock()
	if o.closed {
		return h.Handler.Handle(ctx, r)
	}
	if o.away.Load() {
		o.suppressed.Add(1)
		return nil
	}
	select {
	case o.held <- heldRecord{h.Handler, r.Clone()}:
		return nil
	default:
		return h.Handler.Handle(ctx, r)
	}
}

// WithAttrs implements slog.Handler.
func (h *outageHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &outageHandler{h.Handler.WithAttrs(attrs), h.outage}
}

// WithGroup implements slog.Handler.
func (h *outageHandler) WithGroup(name string) slog.Handler {
	return &outageHandler{h.Handler.WithGroup(name), h.outage}
}

// mayBeOutage reports whether a record has an error that an outage of the database can cause. Others can cause most of
// these errors too.
func mayBeOutage(r slog.Record) (may bool) {
	r.Attrs(func(a slog.Attr) bool {
		err, ok := a.Value.Resolve().Any().(error)
		may = ok && isConnectionError(err)
		return !may
	})
	return may
}

func isConnectionError(err error) bool {
	if refused := (*pgconn.ConnectError)(nil); errors.As(err, &refused) {
		return true
	}
	if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) {
		switch refused.Code {
		case "57P01", "57P02", "57P03": // the server is shutting down, has crashed, or is starting
			return true
		}
		return refused.Code[:2] == "08" // connection
	}
	if request := (*url.Error)(nil); errors.As(err, &request) {
		return false // a request of ours to another server
	}
	network := net.Error(nil)
	return errors.As(err, &network) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.DeadlineExceeded) || pgconn.SafeToRetry(err)
}
