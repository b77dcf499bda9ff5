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
	"github.com/jackc/pgx/v5/pgtype"

	"ledgerline/eventstore"
)

// slowPoll is how often a source reads without a wake-up, in case a wake-up was lost.
const slowPoll = 5 * time.Second

// source reads the next batch of one consumer and shard. watermill-sql's subscriber uses it as its database. With a
// real database, the subscriber would open a transaction for each poll and write its offset there. A poll of source is
// a single read instead, and an idle consumer writes nothing.
//
// Events of other types than the consumer wants do not move its checkpoint in the database: source keeps the position
// in memory (seen) and reports it to Progress. The checkpoint moves with the next batch that has wanted events, after
// maxUnwritten positions, or when nothing was appended for slowPoll.
type source struct {
	ledger   *eventstore.Ledger
	consumer Consumer
	shard    int
	progress *Progress
	tail     *tail
	types    map[string]bool // event types that the consumer wants; empty: all

	loaded     bool // false: read the fields below from the database before the next batch
	revision   int
	checkpoint eventstore.Point
	seen       eventstore.Point // up to which no event is left for the consumer; at least checkpoint
	epoch      int64
	generation uint64    // of the ledger
	movedAt    time.Time // when this process last moved the checkpoint

	batch *Batch // the batch that the last message stands for
}

const checkpointSQL = `select f.revision, c.position, c.event_id, ` + EpochSQL + `, ` + InLedgerSQL + `
	from feed_consumers f
	join feed_checkpoints c on c.name = f.name and c.revision = f.revision and c.shard = $2
	where f.name = $1`

// maxUnwritten is how many positions the checkpoint in the database may be behind the position in memory. After a
// restart these positions are read again.
const maxUnwritten = 10 * BatchSize

// next returns the batch after the checkpoint; nil when there is nothing new.
func (s *source) next(ctx context.Context) (*Batch, error) {
	if !s.loaded || s.epoch != s.progress.currentEpoch() || s.generation != s.ledger.Generation() {
		if err := s.load(ctx); err != nil || !s.loaded {
			return nil, err
		}
	}
	for {
		found, through, err := s.tail.after(ctx, s.seen, s.consumer.Types())
		if errors.Is(err, eventstore.ErrRewound) {
			return nil, s.rewound(s.seen)
		}
		if err != nil {
			return nil, err
		}
		idle := through == s.seen
		if idle && (s.seen == s.checkpoint || time.Since(s.movedAt) < slowPoll) {
			return nil, nil //nolint:nilnil // nothing new
		}
		wanted := s.wanted(found)
		if len(wanted) > 0 || idle || through.Position-s.checkpoint.Position > maxUnwritten {
			b := &Batch{
				Consumer: s.consumer.Name(), Revision: s.revision, Shard: s.shard, After: s.checkpoint.Position, Through: through.Position, Events: wanted,
				throughID: through.ID,
			}
			s.loaded, s.batch = false, b // written sets loaded again; if the batch fails, the checkpoint is read again
			return b, nil
		}
		s.seen = through
		s.progress.setWithoutCheckpoint(s.consumer.Name(), s.shard, through.Position)
	}
}

// rewound begins a rewind of the ledger: an event that the source has read is not there any more. The next batch is
// read after the checkpoint in the database.
func (s *source) rewound(lost eventstore.Point) error {
	s.loaded = false
	return s.ledger.ReportRewind(s.generation, s.shard, lost)
}

// batchOf returns the batch that a message stands for.
func (s *source) batchOf(msg *message.Message) (*Batch, error) {
	if b := s.batch; b != nil && b.name() == string(msg.Payload) {
		return b, nil
	}
	return nil, fmt.Errorf("feed: the message %q is not that of the current batch", msg.UUID)
}

// written records that a batch was written.
func (s *source) written(b *Batch) {
	reached := eventstore.Point{Position: b.Through, ID: b.throughID}
	s.loaded, s.checkpoint, s.seen, s.movedAt = true, reached, reached, time.Now()
}

// revisionReplaced tells whether a batch failed because the tables of its revision were dropped after another revision
// became active. In this case PostgreSQL reports the missing tables and not the moved checkpoint, because all
// statements of a batch are prepared before the first one runs.
func (s *source) revisionReplaced(ctx context.Context, err error) bool {
	refused := (*pgconn.PgError)(nil)
	if !errors.As(err, &refused) || (refused.Code != codeUndefinedTable && refused.Code != codeUndefinedSchema) {
		return false
	}
	was := s.revision
	return s.load(ctx) == nil && s.revision != was
}

const (
	codeUndefinedTable  = "42P01"
	codeUndefinedSchema = "3F000"
)

// load reads the active revision and the checkpoint. A checkpoint that is not in the ledger is not loaded: the tables
// of the consumer are of another history.
func (s *source) load(ctx context.Context) error {
	s.loaded, s.generation = false, s.ledger.Generation()
	var id pgtype.UUID
	var inLedger bool
	err := s.ledger.Pool().QueryRow(ctx, checkpointSQL, s.consumer.Name(), s.shard).Scan(&s.revision, &s.checkpoint.Position, &id, &s.epoch, &inLedger)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil // the tables are being created; a wake-up follows
	}
	if err != nil {
		return fmt.Errorf("feed: checkpoint of %s: %w", s.consumer.Name(), err)
	}
	s.checkpoint.ID = id.Bytes
	if !inLedger {
		return s.progress.foreign(s.consumer.Name(), s.shard, s.checkpoint.Position)
	}
	s.loaded, s.seen = true, s.checkpoint
	s.progress.setCheckpoint(s.epoch, s.consumer.Name(), s.shard, s.checkpoint.Position)
	return nil
}

// wanted returns the events that the consumer wants.
func (s *source) wanted(found []eventstore.Recorded) []eventstore.Recorded {
	if len(s.types) == 0 {
		return found
	}
	var wanted []eventstore.Recorded
	for i := range found {
		if s.types[found[i].Type] {
			wanted = append(wanted, found[i])
		}
	}
	return wanted
}

// The types below implement the interfaces of watermill-sql on top of source. Its transaction is empty, its query calls
// source.next, and its one row is the batch.

type (
	reader struct{ *source }
	readTx struct{ *source }
	oneRow struct {
		batch *Batch
		read  bool
	}
	noResult struct{}
)

func (r reader) BeginTx(context.Context, *stdsql.TxOptions) (sql.Tx, error) {
	return readTx(r), nil
}

func (s *source) ExecContext(context.Context, string, ...any) (sql.Result, error) {
	return noResult{}, nil
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

func (noResult) RowsAffected() (int64, error) { return 0, nil }

// schema is watermill-sql's SchemaAdapter and offsets its OffsetsAdapter: the table is the ledger's, and the offset is
// the consumer's checkpoint, which the consumer's own transaction writes.
type (
	schema  struct{}
	offsets struct{}
)

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

// waker is the subscriber's BackoffManager: where watermill-sql would sleep between polls, waker waits for a wake-up.
type waker struct {
	signal chan struct{}
	closed chan struct{}
	once   sync.Once
}

func newWaker() *waker {
	return &waker{signal: make(chan struct{}, 1), closed: make(chan struct{})}
}

func (w *waker) wake() {
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

func (w *waker) close() { w.once.Do(func() { close(w.closed) }) }

// HandleError implements sql.BackoffManager.
func (w *waker) HandleError(log watermill.LoggerAdapter, noMsg bool, err error) time.Duration {
	switch {
	case errors.Is(err, context.Canceled):
		return time.Millisecond
	case errors.Is(err, eventstore.ErrRewound): // logged by the ledger
		return 100 * time.Millisecond
	case err != nil:
		log.Error("feed: cannot read, trying again", err, nil)
		return time.Second
	case !noMsg:
		return 0
	}
	poll := time.NewTimer(slowPoll)
	defer poll.Stop()
	select {
	case <-w.signal:
	case <-poll.C:
	case <-w.closed:
		return time.Millisecond
	}
	return 0
}

// subscriber is watermill-sql's subscriber with a Close that first ends its wait for a wake-up.
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
	src.progress.wakeOnEpoch(w.wake)
	return &subscriber{Subscriber: inner, waker: w, stop: src.ledger.OnAppend(src.shard, w.wake)}, nil
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
