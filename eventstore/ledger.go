package eventstore

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"ledgerline/clock"
	"ledgerline/events"
)

// MaxBatch is the largest number of appends in one transaction.
const MaxBatch = 512

// Config is what a ledger needs.
type Config struct {
	Pool     *pgxpool.Pool
	Requests *pgxpool.Pool // connections for contexts of ForRequest; default: Pool
	Keyring  *Keyring
	Clock    clock.Clock
	Registry *events.Registry // default: events.Default
	Shards   int              // number of shards of a new installation, default 1; for an existing one its own number, or 0
	Logger   *slog.Logger     // default: slog.Default()
}

// Ledger appends and reads events. It is safe for concurrent use.
type Ledger struct {
	pool     *pgxpool.Pool
	requests *pgxpool.Pool // nil: pool
	writers  *pgxpool.Pool // connections of the committers, see newWriterPool
	keyring  *Keyring
	keys     *keyStore
	clock    clock.Clock
	registry *events.Registry
	log      *slog.Logger
	shards   int
	heads    *heads
	rewinds  chan Rewind // to settle

	unannounced       sync.Map      // heads to tell other processes, by shard
	unannouncedSignal chan struct{} // receives after unannounced has got something

	committers []*committer
	stop       context.CancelFunc
	closed     <-chan struct{}
	done       sync.WaitGroup
}

const (
	metaInsertSQL  = `insert into ledger_meta (shards, root_check, created_at) values ($1, $2, $3) on conflict do nothing`
	metaSelectSQL  = `select shards, root_check from ledger_meta`
	headsInsertSQL = `insert into ledger_heads (shard, position) select s, 0 from generate_series(0, $1 - 1) s on conflict do nothing`
	// The position and the event at the head, and the first of the events ($2 positions, $3 ids) that is not in the
	// ledger.
	headColumns = `h.position, last.id, lost.position, lost.id`
	headTables  = ` from ledger_heads h
		left join ledger_events last on last.shard = h.shard and last.position = h.position
		left join lateral (select u.position, u.id from unnest($2::bigint[], $3::uuid[]) u (position, id)
			where u.id is distinct from (select e.id from ledger_events e where e.shard = $1 and e.position = u.position) limit 1) lost on true `
	headSQL = `select ` + headColumns + headTables + `where h.shard = $1`
	// One statement reads the head and the versions, so that both are of the same moment.
	verifyGuardsSQL = `select ` + headColumns + `, coalesce(g.stream, ''), coalesce(g.expected, 0), coalesce(g.actual, 0)` + headTables + `left join lateral (select u.stream, u.expected,
				coalesce((select e.version from ledger_events e where e.stream = u.stream order by e.version desc limit 1), 0) actual
			from unnest($4::text[], $5::int[]) u (stream, expected) offset 0) g on g.actual <> g.expected
		where h.shard = $1 limit 1`
)

// Open opens the ledger in a migrated database and starts its committers; Close stops them. It returns an error if the
// number of shards or the keyring differs from that of the installation.
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
	if err := checkKeyset(ctx, cfg.Pool, cfg.Keyring); err != nil {
		return nil, err
	}
	shards, rootCheck := max(cfg.Shards, 1), cfg.Keyring.DeriveKey("root check")
	var found int
	var foundCheck []byte
	err := pgx.BeginFunc(ctx, cfg.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, metaInsertSQL, shards, rootCheck, cfg.Clock.Now()); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, metaSelectSQL).Scan(&found, &foundCheck); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, headsInsertSQL, found)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("eventstore: open: %w", err)
	}
	if cfg.Shards > 0 && cfg.Shards != found {
		return nil, fmt.Errorf("eventstore: this installation has %d shards, not %d: the number of shards is fixed when the installation is created", found, cfg.Shards)
	}
	if !hmac.Equal(foundCheck, rootCheck) {
		return nil, fmt.Errorf("%w: its root is another one", ErrForeignKeyring)
	}
	writers, err := newWriterPool(ctx, cfg.Pool, found)
	if err != nil {
		return nil, err
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	l := &Ledger{
		pool: cfg.Pool, requests: cfg.Requests, writers: writers, keyring: cfg.Keyring, clock: cfg.Clock,
		registry: cfg.Registry, log: cfg.Logger, shards: found, heads: newHeads(found), rewinds: make(chan Rewind, 1), unannouncedSignal: make(chan struct{}, 1), stop: stop, closed: run.Done(),
	}
	l.keys = newKeyStore(l.DB, cfg.Keyring.wrap, keyCacheSize)
	l.keys.generation = l.Generation
	l.done.Go(func() { l.settleRewinds(run) })
	l.done.Go(func() { l.announceHeads(run) })
	for shard := range found {
		c := &committer{ledger: l, shard: shard, queue: make(chan *pendingAppend, 4*MaxBatch), stopped: make(chan struct{})}
		l.committers = append(l.committers, c)
		l.done.Go(func() { c.run(run) })
	}
	return l, nil
}

// Close stops the committers after their current batches. Appends that are still in a queue are refused with ErrClosed.
func (l *Ledger) Close() {
	l.stop()
	l.done.Wait()
	l.writers.Close()
}

// Shards returns the installation's number of shards.
func (l *Ledger) Shards() int { return l.shards }

// ShardOf returns the shard of an organisation.
func (l *Ledger) ShardOf(organisation uuid.UUID) int {
	// The last four bytes of a UUIDv7 are random, which spreads organisations evenly.
	tail := organisation[12:]
	n := uint32(tail[0])<<24 | uint32(tail[1])<<16 | uint32(tail[2])<<8 | uint32(tail[3])
	return int(n % uint32(l.shards)) //nolint:gosec // between 1 and 1024
}

// NumberHash is Keyring.NumberHash.
func (l *Ledger) NumberHash(organisation uuid.UUID, e164 string) string {
	return l.keyring.NumberHash(organisation, e164)
}

// Head reads a shard's last position from the database.
func (l *Ledger) Head(ctx context.Context, shard int) (int64, error) {
	head, err := l.readHead(ctx, shard, headSQL, nil, nil)
	return head.Position, err
}

// readHead runs a query that returns headColumns and more columns, and verifies that the events that this process has
// seen are in the ledger.
func (l *Ledger) readHead(ctx context.Context, shard int, sql string, args, more []any) (Point, error) {
	known := l.heads.seenIn(shard)
	positions, ids := known.args()
	var head, lost Point
	var last, lostID pgtype.UUID
	var lostPosition pgtype.Int8
	err := l.DB(ctx).QueryRow(ctx, sql, append([]any{shard, positions, uuids(ids)}, args...)...).
		Scan(append([]any{&head.Position, &last, &lostPosition, &lostID}, more...)...)
	if err != nil {
		return Point{}, fmt.Errorf("eventstore: head of shard %d: %w", shard, err)
	}
	head.ID = last.Bytes
	if lostPosition.Valid {
		lost.Position, lost.ID = lostPosition.Int64, lostID.Bytes
		return Point{}, l.ReportRewind(known.generation, shard, lost)
	}
	l.heads.verified(known, head)
	return head, nil
}

// VerifyGuards reads a shard's last position and checks guards at that moment. It returns a *VersionConflict for a
// guard that does not hold. It is for callers that depend on the versions of streams and have nothing to append.
func (l *Ledger) VerifyGuards(ctx context.Context, shard int, guards []Guard) (int64, error) {
	if len(guards) == 0 {
		return l.Head(ctx, shard)
	}
	streams, versions := make([]string, len(guards)), make([]int, len(guards))
	for i, g := range guards {
		streams[i], versions[i] = g.Stream, g.Version
	}
	conflict := &VersionConflict{Guard: true}
	head, err := l.readHead(ctx, shard, verifyGuardsSQL, []any{streams, versions}, []any{&conflict.Stream, &conflict.Expected, &conflict.Actual})
	if err != nil {
		return 0, err
	}
	if conflict.Stream != "" {
		return 0, conflict
	}
	return head.Position, nil
}

// Now is the time of the service's clock.
func (l *Ledger) Now() time.Time { return l.clock.Now() }

// Pool is the database of the ledger, for projections and processes that have their tables there. Code that requests
// may run uses DB.
func (l *Ledger) Pool() *pgxpool.Pool { return l.pool }

// Keyring returns the installation's secrets, from which callers derive further keys.
func (l *Ledger) Keyring() *Keyring { return l.keyring }

// ReadOnly returns a ledger that reads over another pool. Long-running readers use it, so that they do not take the
// connections that requests need. It cannot append and must not be closed.
func (l *Ledger) ReadOnly(pool *pgxpool.Pool) *Ledger {
	own := func(context.Context) *pgxpool.Pool { return pool }
	return &Ledger{
		pool: pool, keyring: l.keyring, keys: newKeyStore(own, l.keyring.wrap, readerKeyCacheSize), clock: l.clock,
		registry: l.registry, log: l.log, shards: l.shards, heads: newHeads(l.shards),
	}
}
