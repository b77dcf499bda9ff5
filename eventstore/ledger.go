package eventstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"ledgerline/clock"
	"ledgerline/events"
)

// MaxBatch is how many waiting appends one transaction takes.
const MaxBatch = 512

// Config says what a ledger needs. Zero values are filled in where a default is stated.
type Config struct {
	Pool     *pgxpool.Pool
	Keyring  *Keyring
	Clock    clock.Clock
	Registry *events.Registry // default: events.Default
	Shards   int              // only for a new installation; default 1
	Logger   *slog.Logger     // default: slog.Default()
}

// Ledger appends to and reads from the events. It is safe for concurrent use.
type Ledger struct {
	pool     *pgxpool.Pool
	writers  *pgxpool.Pool // of the committers, see writersPool
	keyring  *Keyring
	keys     *keyStore
	clock    clock.Clock
	registry *events.Registry
	log      *slog.Logger
	shards   int
	heads    *heads

	committers []*committer
	stop       context.CancelFunc
	closed     <-chan struct{}
	done       sync.WaitGroup
}

const (
	metaInsertSQL  = `insert into ledger_meta (shards, created_at) values ($1, $2) on conflict do nothing`
	metaSelectSQL  = `select shards from ledger_meta`
	headsInsertSQL = `insert into ledger_heads (shard, position) select s, 0 from generate_series(0, $1 - 1) s on conflict do nothing`
	headSQL        = `select position from ledger_heads where shard = $1`
	// The head, and a guard that has moved, as of one moment.
	presentSQL = `select h.position, coalesce(g.stream, ''), coalesce(g.expected, 0), coalesce(g.actual, 0) from ledger_heads h
		left join lateral (select u.stream, u.expected,
				coalesce((select e.version from ledger_events e where e.stream = u.stream order by e.version desc limit 1), 0) actual
			from unnest($2::text[], $3::int[]) u (stream, expected) offset 0) g on g.actual <> g.expected
		where h.shard = $1 limit 1`
)

// Open opens the ledger and starts its committers. The database must be migrated. A number of shards other than the
// installation's is an error. Close it with Close.
func Open(ctx context.Context, cfg Config) (*Ledger, error) {
	if cfg.Pool == nil || cfg.Keyring == nil || cfg.Clock == nil {
		return nil, errors.New("eventstore: a pool, a keyring and a clock are needed")
	}
	if cfg.Registry == nil {
		cfg.Registry = events.Default
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	shards := max(cfg.Shards, 1)
	var found int
	err := pgx.BeginFunc(ctx, cfg.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, metaInsertSQL, shards, cfg.Clock.Now()); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, metaSelectSQL).Scan(&found); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, headsInsertSQL, found)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("eventstore: open: %w", err)
	}
	if cfg.Shards > 0 && cfg.Shards != found {
		return nil, fmt.Errorf("eventstore: this installation has %d shards, not %d: the number is fixed when it is made", found, cfg.Shards)
	}
	if err := checkKeyring(ctx, cfg.Pool, cfg.Keyring); err != nil {
		return nil, err
	}
	writers, err := writersPool(ctx, cfg.Pool, found)
	if err != nil {
		return nil, err
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	l := &Ledger{
		pool: cfg.Pool, writers: writers, keyring: cfg.Keyring, keys: newKeyStore(cfg.Pool, cfg.Keyring.wrap, keyCacheSize), clock: cfg.Clock,
		registry: cfg.Registry, log: cfg.Logger, shards: found, heads: newHeads(found), stop: stop, closed: run.Done(),
	}
	for shard := range found {
		c := &committer{ledger: l, shard: shard, queue: make(chan *pending, 4*MaxBatch), done: make(chan struct{})}
		l.committers = append(l.committers, c)
		l.done.Go(func() { c.run(run) })
	}
	return l, nil
}

// writersPool gives the committers connections of their own, one for each and one to spare, so that an append never waits
// behind reads. They look every row up by its index: what an append asks for is always a handful of rows out of many, but a
// plan made while a table is small, and kept, would read the whole of ever larger tables until the next analyze.
func writersPool(ctx context.Context, like *pgxpool.Pool, shards int) (*pgxpool.Pool, error) {
	cfg := like.Config()
	cfg.MaxConns, cfg.MinConns = int32(shards)+1, 0 //nolint:gosec // at most 1,024
	for _, method := range []string{"enable_seqscan", "enable_hashjoin", "enable_mergejoin"} {
		cfg.ConnConfig.RuntimeParams[method] = "off"
	}
	// The statements are few and always the same; planning one for its very arguments takes longer than running it.
	cfg.ConnConfig.RuntimeParams["plan_cache_mode"] = "force_generic_plan"
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("eventstore: connect the committers: %w", err)
	}
	return pool, nil
}

// Close stops the committers after what they have taken is decided. Appends that still wait are refused.
func (l *Ledger) Close() {
	l.stop()
	l.done.Wait()
	l.writers.Close()
}

// Shards is the installation's number of shards.
func (l *Ledger) Shards() int { return l.shards }

// ShardOf tells where an organisation lives.
func (l *Ledger) ShardOf(organisation uuid.UUID) int {
	// The last four bytes of a UUIDv7 are random, which spreads organisations evenly.
	tail := organisation[12:]
	n := uint32(tail[0])<<24 | uint32(tail[1])<<16 | uint32(tail[2])<<8 | uint32(tail[3])
	return int(n % uint32(l.shards)) //nolint:gosec // between 1 and 1024
}

// NumberHash is the keyed hash under which an organisation's register knows a number.
func (l *Ledger) NumberHash(organisation uuid.UUID, e164 string) string {
	return l.keyring.NumberHash(organisation, e164)
}

// Head reads a shard's last position from the database.
func (l *Ledger) Head(ctx context.Context, shard int) (int64, error) {
	var head int64
	if err := l.pool.QueryRow(ctx, headSQL, shard).Scan(&head); err != nil {
		return 0, fmt.Errorf("eventstore: head of shard %d: %w", shard, err)
	}
	l.heads.advance(shard, head)
	return head, nil
}

// VerifyGuards reads a shard's last position, and holds guards to what the ledger says at that moment: a *VersionConflict when
// one has moved. It is for what was decided on remembered versions and appends nothing that would state them.
func (l *Ledger) VerifyGuards(ctx context.Context, shard int, guards []Guard) (int64, error) {
	if len(guards) == 0 {
		return l.Head(ctx, shard)
	}
	streams, versions := make([]string, len(guards)), make([]int, len(guards))
	for i, g := range guards {
		streams[i], versions[i] = g.Stream, g.Version
	}
	var head int64
	moved := &VersionConflict{Guard: true}
	err := l.pool.QueryRow(ctx, presentSQL, shard, streams, versions).Scan(&head, &moved.Stream, &moved.Expected, &moved.Actual)
	if err != nil {
		return 0, fmt.Errorf("eventstore: head of shard %d: %w", shard, err)
	}
	l.heads.advance(shard, head)
	if moved.Stream != "" {
		return 0, moved
	}
	return head, nil
}

// Now is the service's time.
func (l *Ledger) Now() time.Time { return l.clock.Now() }

// Pool gives the database to what lives beside the ledger in it: projections and processes.
func (l *Ledger) Pool() *pgxpool.Pool { return l.pool }

// Keyring gives the installation's secrets to what derives its own keys from them.
func (l *Ledger) Keyring() *Keyring { return l.keyring }

// ReadOnly gives a ledger that only reads, over another pool: what works for long, or holds locks, must not take the
// connections that requests wait for. It must not be closed.
func (l *Ledger) ReadOnly(pool *pgxpool.Pool) *Ledger {
	return &Ledger{
		pool: pool, keyring: l.keyring, keys: newKeyStore(pool, l.keyring.wrap, keyCacheReading), clock: l.clock,
		registry: l.registry, log: l.log, shards: l.shards, heads: newHeads(l.shards),
	}
}
