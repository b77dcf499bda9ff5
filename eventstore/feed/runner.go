package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/components/metrics"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"

	"ledgerline/eventstore"
)

// Config says what a runner needs.
type Config struct {
	Ledger    *eventstore.Ledger
	Progress  *Progress
	Consumers []Consumer
	Logger    *slog.Logger
	Metrics   prometheus.Registerer // nil: none
}

// Runner runs consumers over all shards. Several processes may run the same consumers: a batch is written by one of
// them, the others find the checkpoint moved and go on behind it.
type Runner struct {
	ledger    *eventstore.Ledger
	progress  *Progress
	log       *slog.Logger
	router    *message.Router
	consumers map[string]handler // by watermill's handler name
}

// handler is one consumer on one shard.
type handler struct {
	Consumer
	source *source
}

// topic is the one topic of the ledger.
const topic = "ledger"

// NewRunner prepares the handlers; Run starts them.
func NewRunner(cfg Config) (*Runner, error) {
	quiet := watermill.NewSlogLoggerWithLevelMapping(cfg.Logger, map[slog.Level]slog.Level{slog.LevelInfo: slog.LevelDebug})
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: 10 * time.Second}, quiet)
	if err != nil {
		return nil, fmt.Errorf("feed: router: %w", err)
	}
	r := &Runner{ledger: cfg.Ledger, progress: cfg.Progress, log: cfg.Logger, router: router, consumers: map[string]handler{}}
	poison, err := middleware.PoisonQueueWithFilter(parker{r}, "parked", isPoison)
	if err != nil {
		return nil, fmt.Errorf("feed: poison queue: %w", err)
	}
	if cfg.Metrics != nil {
		b := metrics.NewPrometheusMetricsBuilder(cfg.Metrics, "ledgerline", "feed")
		router.AddMiddleware(b.NewRouterMiddleware().Middleware)
		cfg.Metrics.MustRegister(r.lag())
	}
	router.AddMiddleware(poison, middleware.Recoverer)
	tails := make([]*tail, cfg.Ledger.Shards())
	for shard := range tails {
		tails[shard] = &tail{ledger: cfg.Ledger, shard: shard}
	}
	for _, c := range cfg.Consumers {
		wants := map[string]bool{}
		for _, name := range c.Types() {
			wants[name] = true
		}
		for shard := range tails {
			src := &source{ledger: cfg.Ledger, consumer: c, shard: shard, progress: cfg.Progress, tail: tails[shard], wants: wants}
			sub, err := newSubscriber(src, quiet)
			if err != nil {
				return nil, err
			}
			name := c.Name() + "/" + strconv.Itoa(shard)
			r.consumers[name] = handler{c, src}
			router.AddConsumerHandler(name, topic, sub, func(msg *message.Message) error { return r.handle(msg.Context(), name, msg) })
		}
	}
	return r, nil
}

// Run works until ctx ends.
func (r *Runner) Run(ctx context.Context) error {
	if err := r.router.Run(ctx); err != nil {
		return fmt.Errorf("feed: %w", err)
	}
	return nil
}

// Running is closed when the handlers have started.
func (r *Runner) Running() <-chan struct{} { return r.router.Running() }

const (
	beginSQL = `begin`
	// A consumer's commit need not be flushed: its rows and its checkpoint are lost or kept together, and what is lost
	// is written again from the ledger.
	relaxedSQL = `set local synchronous_commit = off`
	advanceSQL = `select feed_advance_checkpoint($1, $2, $3, $4, $5)`
	movedSQL   = `select pg_notify('` + movedChannel + `', $1)`
)

// errMoved says that another worker wrote the batch, or that another revision took over.
const errMoved = "LL001"

// handle writes the batch of a message. The subscriber asks its source for more only when that has ended, so the two
// never work on the source at once.
func (r *Runner) handle(ctx context.Context, name string, msg *message.Message) error {
	h := r.consumers[name]
	b, err := h.source.of(msg)
	if err != nil {
		return err
	}
	if err := r.open(ctx, b); err != nil {
		return err
	}
	return r.write(ctx, h, b, func(q *pgx.Batch) error { return statements(ctx, h.Consumer, q, b.Revision, b.Events) })
}

// open decodes what the tail could not, and what was read past it.
func (r *Runner) open(ctx context.Context, b *Batch) error {
	if !slices.ContainsFunc(b.Events, func(e eventstore.Recorded) bool { return e.Event == nil }) {
		return nil
	}
	b.Events = slices.Clone(b.Events)
	return r.ledger.Decode(ctx, b.Events)
}

// write commits a batch's statements with the checkpoint in one round trip.
func (r *Runner) write(ctx context.Context, h handler, b *Batch, statements func(*pgx.Batch) error) error {
	var q pgx.Batch
	q.Queue(beginSQL)
	q.Queue(relaxedSQL)
	q.Queue(eventstore.ForceIndexScansSQL)
	q.Queue(advanceSQL, b.Consumer, b.Revision, b.Shard, b.After, b.Through)
	if err := statements(&q); err != nil {
		return err
	}
	q.Queue(movedSQL, fmt.Sprintf("%s:%d:%d", b.Consumer, b.Shard, b.Through))
	q.Queue("commit")
	if err := send(ctx, r.ledger, &q); err != nil {
		if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) && refused.Code == errMoved {
			return nil // the source looks where the checkpoint is now
		}
		if h.source.swapped(ctx, err) {
			return nil // likewise
		}
		return fmt.Errorf("feed: write batch of %s: %w", b.Consumer, err)
	}
	h.source.settle(b)
	r.progress.set(b.Consumer, b.Shard, b.Through)
	h.Committed(b)
	return nil
}

// send runs a pipeline that begins and commits by itself.
func send(ctx context.Context, ledger *eventstore.Ledger, q *pgx.Batch) error {
	conn, err := ledger.Pool().Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if err := conn.SendBatch(ctx, q).Close(); err != nil {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if _, rollbackErr := conn.Exec(clean, "rollback"); rollbackErr != nil {
			_ = conn.Conn().Close(clean)
		}
		return err
	}
	return nil
}

// isPoison tells errors that the events themselves cause, and that would come again, from those of the moment.
func isPoison(err error) bool {
	if undecodable := (*eventstore.UndecodableError)(nil); errors.As(err, &undecodable) {
		return true
	}
	if panicked := (middleware.RecoveredPanicError{}); errors.As(err, &panicked) {
		return true
	}
	if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) {
		switch refused.Code[:2] {
		case "21", "22", "23", "42", "54": // cardinality, data, integrity, undefined or wrong statement, limits
			return true
		}
	}
	poison := (*UnprocessableError)(nil)
	return errors.As(err, &poison)
}

// UnprocessableError is what a consumer returns for events that it will never be able to take.
type UnprocessableError struct{ Cause error }

func (e *UnprocessableError) Error() string { return "feed: poison: " + e.Cause.Error() }

// Unwrap gives the cause.
func (e *UnprocessableError) Unwrap() error { return e.Cause }

// lag is how many positions each consumer of this process is behind, per shard.
func (r *Runner) lag() prometheus.Collector {
	desc := prometheus.NewDesc("ledgerline_feed_lag_positions", "Positions between a consumer's checkpoint and the head of the shard.",
		[]string{"consumer", "shard"}, nil)
	return lagCollector{r, desc}
}

type lagCollector struct {
	runner *Runner
	desc   *prometheus.Desc
}

func (l lagCollector) Describe(ch chan<- *prometheus.Desc) { ch <- l.desc }

func (l lagCollector) Collect(ch chan<- prometheus.Metric) {
	for _, at := range l.runner.Lag() {
		ch <- prometheus.MustNewConstMetric(l.desc, prometheus.GaugeValue, float64(at.Behind), at.Consumer, strconv.Itoa(at.Shard))
	}
}

// Lag is how far a consumer of this process is behind.
type Lag struct {
	Consumer string
	Shard    int
	Behind   int64
}

// Lag tells it from memory, per consumer and shard.
func (r *Runner) Lag() []Lag {
	seen := map[string]bool{}
	var all []Lag
	for _, c := range r.consumers {
		if seen[c.Name()] {
			continue
		}
		seen[c.Name()] = true
		for shard := range r.ledger.Shards() {
			behind := max(0, r.ledger.KnownHead(shard)-r.progress.Reached(c.Name(), shard))
			all = append(all, Lag{c.Name(), shard, behind})
		}
	}
	return all
}
