package feed

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"ledgerline/eventstore"
)

// slowPoll is the net under the wake-ups: how long a lost one can go unnoticed.
const slowPoll = 5 * time.Second

// source reads the next batch of one consumer and shard. It stands in for the database that watermill-sql's
// subscriber expects, because that subscriber wraps each poll in a transaction and writes its offset there: here a
// poll is one plain read, and an idle consumer causes no write at all.
//
// What holds nothing for the consumer is passed over without moving the checkpoint in the database; Progress knows of
// it, and the next batch with something in it, a long stretch, or a quiet moment takes the checkpoint along.
type source struct {
	ledger   *eventstore.Ledger
	consumer Consumer
	shard    int
	progress *Progress
	tail     *tail
	wants    map[string]bool // empty: all

	known    bool // the fields below are what the database has, as far as this process knows
	revision int
	written  int64 // the checkpoint
	seen     int64 // passed over up to here
	epoch    int64
	moved    time.Time // when the checkpoint was written last

	batch *Batch // that the last message stands for
}

const checkpointSQL = `select f.revision, c.position, ` + epochSQL + `
	from feed_consumers f
	join feed_checkpoints c on c.name = f.name and c.revision = f.revision and c.shard = $2
	where f.name = $1`

// passOver is how far a checkpoint may lie behind what was passed over: a restart reads that much again.
const passOver = 10 * BatchSize

// next gives the batch behind the checkpoint; nil when there is nothing new.
func (s *source) next(ctx context.Context) (*Batch, error) {
	if !s.known || s.epoch != s.progress.current() {
		if err := s.load(ctx); err != nil || !s.known {
			return nil, err
		}
	}
	for {
		found, through, err := s.tail.after(ctx, s.seen, s.consumer.Types())
		if err != nil {
			return nil, err
		}
		idle := through == s.seen
		if idle && (s.seen == s.written || time.Since(s.moved) < slowPoll) {
			return nil, nil //nolint:nilnil // nothing new
		}
		wanted := s.wanted(found)
		if len(wanted) > 0 || idle || through-s.written > passOver {
			b := &Batch{Consumer: s.consumer.Name(), Revision: s.revision, Shard: s.shard, After: s.written, Through: through, Events: wanted}
			s.known, s.batch = false, b // until it is known to be written
			return b, nil
		}
		s.seen = through
		s.progress.passed(s.consumer.Name(), s.shard, through)
	}
}

// of gives the batch that a message stands for. The next one is asked for only when the message has been dealt with.
func (s *source) of(msg *message.Message) (*Batch, error) {
	if b := s.batch; b != nil && b.name() == string(msg.Payload) {
		return b, nil
	}
	return nil, fmt.Errorf("feed: nobody knows the batch %q", msg.UUID)
}

// settle tells that the batch was written.
func (s *source) settle(b *Batch) {
	s.known, s.written, s.seen, s.moved = true, b.Through, b.Through, time.Now()
}

// swapped tells whether a batch failed because the tables it was meant for are gone: another revision has taken over,
// and statements are prepared before the checkpoint can say so.
func (s *source) swapped(ctx context.Context, err error) bool {
	refused := (*pgconn.PgError)(nil)
	if !errors.As(err, &refused) || (refused.Code != "42P01" && refused.Code != "3F000") {
		return false
	}
	was := s.revision
	return s.load(ctx) == nil && s.revision != was
}

func (s *source) load(ctx context.Context) error {
	s.known = false
	err := s.ledger.Pool().QueryRow(ctx, checkpointSQL, s.consumer.Name(), s.shard).Scan(&s.revision, &s.written, &s.epoch)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil // its tables are being made; there will be a wake-up
	}
	if err != nil {
		return fmt.Errorf("feed: checkpoint of %s: %w", s.consumer.Name(), err)
	}
	s.known, s.seen = true, s.written
	s.progress.start(s.epoch, s.consumer.Name(), s.shard, s.written)
	return nil
}

func (s *source) wanted(found []eventstore.Recorded) []eventstore.Recorded {
	if len(s.wants) == 0 {
		return found
	}
	var wanted []eventstore.Recorded
	for i := range found {
		if s.wants[found[i].Type] {
			wanted = append(wanted, found[i])
		}
	}
	return wanted
}

// The types below are the shapes that watermill-sql wants.

type (
	reader struct{ *source }
	readTx struct{ *source }
	oneRow struct {
		batch *Batch
		read  bool
	}
	nothing struct{}
)

func (r reader) BeginTx(context.Context, *stdsql.TxOptions) (sql.Tx, error) {
	return readTx(r), nil
}

func (s *source) ExecContext(context.Context, string, ...any) (sql.Result, error) {
	return nothing{}, nil
}

func (s *source) QueryContext(ctx context.Context, _ string, _ ...any) (sql.Rows, error) {
	b, err := s.next(ctx)
	if err != nil {
		return nil, err
	}
	return &oneRow{batch: b, read: b == nil}, nil
}

func (readTx) Commit() error   { return nil }
func (readTx) Rollback() error { return nil }

func (r *oneRow) Next() bool {
	was := r.read
	r.read = true
	return !was
}

func (r *oneRow) Scan(dest ...any) error {
	into, ok := dest[0].(*Batch)
	if !ok {
		return fmt.Errorf("feed: cannot scan a batch into %T", dest[0])
	}
	*into = *r.batch
	return nil
}

func (*oneRow) Close() error { return nil }

func (nothing) RowsAffected() (int64, error) { return 0, nil }

// schema is the SchemaAdapter and the OffsetsAdapter: the table is the ledger's, the offset is the consumer's own
// checkpoint.
type schema struct{}

var errReadOnly = errors.New("feed: only the event store writes the ledger")

func (schema) InsertQuery(sql.InsertQueryParams) (sql.Query, error) {
	return sql.Query{}, errReadOnly
}

func (schema) SelectQuery(sql.SelectQueryParams) (sql.Query, error) {
	return sql.Query{Query: checkpointSQL}, nil
}

func (schema) UnmarshalMessage(p sql.UnmarshalMessageParams) (sql.Row, error) {
	var b Batch
	if err := p.Row.Scan(&b); err != nil {
		return sql.Row{}, fmt.Errorf("feed: scan batch: %w", err)
	}
	return sql.Row{Offset: b.Through, Msg: message.NewMessage(b.name(), []byte(b.name()))}, nil
}

func (schema) SchemaInitializingQueries(sql.SchemaInitializingQueriesParams) ([]sql.Query, error) {
	return nil, nil
}

func (schema) SubscribeIsolationLevel() stdsql.IsolationLevel { return stdsql.LevelReadCommitted }

type offsets struct{}

func (offsets) AckMessageQuery(sql.AckMessageQueryParams) (sql.Query, error) { return sql.Query{}, nil }

func (offsets) ConsumedMessageQuery(sql.ConsumedMessageQueryParams) (sql.Query, error) {
	return sql.Query{}, nil
}

func (offsets) NextOffsetQuery(sql.NextOffsetQueryParams) (sql.Query, error) { return sql.Query{}, nil }

func (offsets) SchemaInitializingQueries(sql.OffsetsSchemaInitializingQueriesParams) ([]sql.Query, error) {
	return nil, nil
}

func (offsets) BeforeSubscribingQueries(sql.BeforeSubscribingQueriesParams) ([]sql.Query, error) {
	return nil, nil
}

// waker is the subscriber's BackoffManager: where watermill-sql would sleep between polls, it waits for a wake-up.
type waker struct {
	wake chan struct{}
	done chan struct{}
	once sync.Once
}

func newWaker() *waker {
	return &waker{wake: make(chan struct{}, 1), done: make(chan struct{})}
}

func (w *waker) ring() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *waker) close() { w.once.Do(func() { close(w.done) }) }

// HandleError implements sql.BackoffManager.
func (w *waker) HandleError(log watermill.LoggerAdapter, noMsg bool, err error) time.Duration {
	switch {
	case errors.Is(err, context.Canceled):
		return time.Millisecond
	case err != nil:
		log.Error("feed: cannot read, trying again", err, nil)
		return time.Second
	case !noMsg:
		return 0
	}
	net := time.NewTimer(slowPoll)
	defer net.Stop()
	select {
	case <-w.wake:
	case <-net.C:
	case <-w.done:
		return time.Millisecond
	}
	return 0
}

// subscriber is watermill-sql's, with a Close that ends the wait first.
type subscriber struct {
	*sql.Subscriber
	waker *waker
	stop  func()
}

func newSubscriber(src *source, log watermill.LoggerAdapter) (*subscriber, error) {
	w := newWaker()
	noDeadline := time.Duration(0)
	inner, err := sql.NewSubscriber(reader{src}, sql.SubscriberConfig{
		ConsumerGroup: src.consumer.Name(), AckDeadline: &noDeadline, ResendInterval: 200 * time.Millisecond,
		BackoffManager: w, SchemaAdapter: schema{}, OffsetsAdapter: offsets{},
	}, log)
	if err != nil {
		return nil, fmt.Errorf("feed: subscriber: %w", err)
	}
	src.progress.onEpoch(w.ring)
	return &subscriber{Subscriber: inner, waker: w, stop: src.ledger.OnAppend(src.shard, w.ring)}, nil
}

// Subscribe implements message.Subscriber. The wait for a wake-up ends with the context.
func (s *subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	context.AfterFunc(ctx, s.waker.close)
	return s.Subscriber.Subscribe(ctx, topic)
}

// Close implements message.Subscriber.
func (s *subscriber) Close() error {
	s.stop()
	s.waker.close()
	return s.Subscriber.Close()
}
