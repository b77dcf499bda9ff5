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

// Config is what a Runner needs.
type Config struct {
	Ledger    *eventstore.Ledger
	Progress  *Progress
	Consumers []Consumer
	Logger    *slog.Logger
	Metrics   prometheus.Registerer // nil: no metrics
}

// Runner runs consumers over all shards. Several processes may run the same consumers: one of them writes a batch, the
// others find that the checkpoint has moved and continue after it.
type Runner struct {
	ledger   *eventstore.Ledger
	progress *Progress
	log      *slog.Logger
	router   *message.Router
	handlers map[string]handler // by name of the watermill handler
	stops    stops
}

// handler is one consumer on one shard.
type handler struct {
	Consumer
	source *source
}

// topic is the name that watermill requires for a topic. The ledger is the only topic.
const topic = "ledger"

// NewRunner returns a Runner. Run starts it.
func NewRunner(cfg Config) (*Runner, error) {
	// What watermill logs at info is of use for debugging only.
	watermillLog := watermill.NewSlogLoggerWithLevelMapping(cfg.Logger, map[slog.Level]slog.Level{slog.LevelInfo: slog.LevelDebug})
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: 10 * time.Second}, watermillLog)
	if err != nil {
		return nil, fmt.Errorf("feed: router: %w", err)
	}
	r := &Runner{ledger: cfg.Ledger, progress: cfg.Progress, log: cfg.Logger, router: router, handlers: map[string]handler{}, stops: stops{log: cfg.Logger, byName: map[string]Stop{}}}
	parking, err := middleware.PoisonQueueWithFilter(parker{r}, "parked", isUnprocessable)
	if err != nil {
		return nil, fmt.Errorf("feed: parking: %w", err)
	}
	cfg.Ledger.OnRewind(cfg.Progress.forget)
	if cfg.Metrics != nil {
		b := metrics.NewPrometheusMetricsBuilder(cfg.Metrics, "ledgerline", "feed")
		router.AddMiddleware(b.NewRouterMiddleware().Middleware)
		cfg.Metrics.MustRegister(r.lagMetric())
	}
	router.AddMiddleware(r.backOff, parking, middleware.Recoverer)
	tails := make([]*tail, cfg.Ledger.Shards())
	for shard := range tails {
		tails[shard] = &tail{ledger: cfg.Ledger, shard: shard}
	}
	for _, c := range cfg.Consumers {
		types := map[string]bool{}
		for _, name := range c.Types() {
			types[name] = true
		}
		for shard := range tails {
			src := &source{ledger: cfg.Ledger, consumer: c, shard: shard, progress: cfg.Progress, tail: tails[shard], types: types}
			sub, err := newSubscriber(src, watermillLog)
			if err != nil {
				return nil, err
			}
			name := c.Name() + "/" + strconv.Itoa(shard)
			r.handlers[name] = handler{c, src}
			router.AddConsumerHandler(name, topic, sub, func(msg *message.Message) error { return r.handle(msg.Context(), name, msg) })
		}
	}
	return r, nil
}

// Run runs the consumers until ctx ends.
func (r *Runner) Run(ctx context.Context) error {
	if err := r.router.Run(ctx); err != nil {
		return fmt.Errorf("feed: %w", err)
	}
	return nil
}

// Running is closed when all handlers have started.
func (r *Runner) Running() <-chan struct{} { return r.router.Running() }

const (
	beginSQL = `begin`
	// Consumers commit without waiting for the disk: after a crash of the server, rows and checkpoint are lost or kept
	// together, and lost rows are written again from the ledger.
	noFlushSQL = `set local synchronous_commit = off`
	advanceSQL = `select feed_advance_checkpoint($1, $2, $3, $4, $5, $6)`
	notifySQL  = `select pg_notify('` + movedChannel + `', $1)`
)

// codeCheckpointMoved is the SQLSTATE of feed_advance_checkpoint when another process has written the batch or another
// revision is active.
const codeCheckpointMoved = "LL001"

// handle applies the batch of a message. The subscriber reads from the source again only after handle has returned, so
// the two never use the source at the same time.
func (r *Runner) handle(ctx context.Context, name string, msg *message.Message) error {
	h := r.handlers[name]
	b, err := h.source.batchOf(msg)
	if err != nil {
		return err
	}
	if err := r.decode(ctx, b); err != nil {
		return err
	}
	return r.write(ctx, h, b, func(q *pgx.Batch) error { return addStatementsTo(ctx, h.Consumer, q, b.Revision, b.Events) })
}

// decode decodes the events of a batch that tail has not decoded.
func (r *Runner) decode(ctx context.Context, b *Batch) error {
	if !slices.ContainsFunc(b.Events, func(e eventstore.Recorded) bool { return e.Event == nil }) {
		return nil
	}
	b.Events = slices.Clone(b.Events)
	return r.ledger.Decode(ctx, b.Events)
}

// write commits the statements of a batch together with the checkpoint, in one round trip. It returns nil without an
// effect when another process has written the batch.
func (r *Runner) write(ctx context.Context, h handler, b *Batch, addStatements func(*pgx.Batch) error) error {
	var q pgx.Batch
	q.Queue(beginSQL)
	q.Queue(noFlushSQL)
	q.Queue(eventstore.ForceIndexScansSQL)
	q.Queue(advanceSQL, b.Consumer, b.Revision, b.Shard, b.After, b.Through, b.throughID)
	if err := addStatements(&q); err != nil {
		return err
	}
	q.Queue(notifySQL, fmt.Sprintf("%s:%d:%d", b.Consumer, b.Shard, b.Through))
	q.Queue("commit")
	if err := send(ctx, r.ledger, &q); err != nil {
		if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) && refused.Code == codeCheckpointMoved {
			return nil // the source is not marked as loaded, so it reads the checkpoint again
		}
		if eventstore.IsRewound(err) {
			_ = h.source.rewound(eventstore.Point{Position: b.Through, ID: b.throughID})
			return nil // as above
		}
		if h.source.revisionReplaced(ctx, err) {
			return nil // revisionReplaced has read the new revision and its checkpoint
		}
		return fmt.Errorf("feed: write batch of %s: %w", b.Consumer, err)
	}
	h.source.written(b)
	r.progress.set(b.Consumer, b.Shard, b.Through)
	h.Committed(b)
	return nil
}

// send sends a batch of statements that begins and commits its own transaction.
func send(ctx context.Context, ledger *eventstore.Ledger, q *pgx.Batch) error {
	conn, err := ledger.Pool().Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if err := conn.SendBatch(ctx, q).Close(); err != nil {
		rollbackCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if _, rollbackErr := conn.Exec(rollbackCtx, "rollback"); rollbackErr != nil {
			_ = conn.Conn().Close(rollbackCtx)
		}
		return err
	}
	return nil
}

// UnprocessableError is what a consumer returns for events that it will never be able to apply. They are parked.
type UnprocessableError struct{ Cause error }

func (e *UnprocessableError) Error() string { return "feed: unprocessable: " + e.Cause.Error() }

// Unwrap returns the cause.
func (e *UnprocessableError) Unwrap() error { return e.Cause }

// lagMetric reports how many positions each consumer of this process is behind, by shard.
func (r *Runner) lagMetric() prometheus.Collector {
	desc := prometheus.NewDesc("ledgerline_feed_lag_positions", "Positions between a consumer's checkpoint and the head of the shard.",
		[]string{"consumer", "shard"}, nil)
	return lagCollector{r, desc}
}

type lagCollector struct {
	runner *Runner
	desc   *prometheus.Desc
}

func (l lagCollector) Describe(ch chan<- *prometheus.Desc) { ch <- l.desc; ch <- stoppedDesc }

func (l lagCollector) Collect(ch chan<- prometheus.Metric) {
	for _, at := range l.runner.Lag() {
		ch <- prometheus.MustNewConstMetric(l.desc, prometheus.GaugeValue, float64(at.Behind), at.Consumer, strconv.Itoa(at.Shard))
	}
	stopped := map[Lag]bool{}
	for _, stop := range l.runner.Stopped() {
		stopped[Lag{Consumer: stop.Consumer, Shard: stop.Shard}] = true
	}
	for _, at := range l.runner.Lag() {
		value := 0.0
		if stopped[Lag{Consumer: at.Consumer, Shard: at.Shard}] {
			value = 1
		}
		ch <- prometheus.MustNewConstMetric(stoppedDesc, prometheus.GaugeValue, value, at.Consumer, strconv.Itoa(at.Shard))
	}
}

var stoppedDesc = prometheus.NewDesc("ledgerline_feed_stopped",
	"1 while a consumer of this node cannot go on at an event, because the program or the database does not fit.",
	[]string{"consumer", "shard"}, nil)

// Lag is how far a consumer of this process is behind the head of a shard.
type Lag struct {
	Consumer string
	Shard    int
	Behind   int64 // positions
}

// Lag returns the lag of each consumer and shard, as far as this process knows. It makes no query.
func (r *Runner) Lag() []Lag {
	seen := map[string]bool{}
	var all []Lag
	for _, c := range r.handlers {
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
