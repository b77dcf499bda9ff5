package projections

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"ledgerline/eventstore"
)

const (
	consumerSQL       = `select revision, program from feed_consumers where name = $1`
	insertConsumerSQL = `insert into feed_consumers (name, revision, program, changed_at) values ($1, $2, $3, now())
		on conflict (name) do update set revision = excluded.revision, program = excluded.program, changed_at = excluded.changed_at`
	insertCheckpointSQL = `insert into feed_checkpoints (name, revision, shard, position)
		select $1, $2, s, 0 from generate_series(0, $3 - 1) s`
	dropCheckpointsSQL = `delete from feed_checkpoints where name = $1 and revision <> $2`
	lockCheckpointsSQL = `select shard, position from feed_checkpoints where name = $1 and revision = $2 order by shard for update`
	newestSchemaSQL    = `select coalesce(max(revision), 0) from feed_checkpoints where name = $1`
	clearParkedSQL     = `delete from feed_parked where name = $1`
	advanceSQL         = `update feed_checkpoints set position = $4 where name = $1 and revision = $2 and shard = $3`
	// One builder per projection, and one starter at a time.
	builderLockSQL = `select pg_try_advisory_lock(hashtext('ledgerline builder'), hashtext($1))`
	starterLockSQL = `select pg_advisory_xact_lock(hashtext('ledgerline starter'), hashtext($1))`
)

// Prepare makes the tables of projections that have none yet, and builds a new revision of those that another
// version of the program built. Any number of processes may call it at once.
func Prepare(ctx context.Context, ledger *eventstore.Ledger, log *slog.Logger) error {
	for _, p := range All() {
		outdated, err := p.prepare(ctx, ledger)
		if err != nil {
			return fmt.Errorf("projections: prepare %s: %w", p.ID, err)
		}
		if outdated {
			log.Info("projection was built by another version of the program: building it anew", "projection", p.ID)
			if _, err := Replay(ctx, ledger, p, nil); err != nil && !errors.Is(err, ErrBusy) {
				return err
			}
		}
	}
	return nil
}

func (p *Projection) prepare(ctx context.Context, ledger *eventstore.Ledger) (outdated bool, err error) {
	err = pgx.BeginFunc(ctx, ledger.Pool(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, starterLockSQL, p.ID); err != nil {
			return err
		}
		var revision, program int
		err := tx.QueryRow(ctx, consumerSQL, p.ID).Scan(&revision, &program)
		if err == nil {
			outdated = program != p.Program
			return nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if err := p.createTables(ctx, tx, p.schema(1)); err != nil {
			return err
		}
		if err := p.createIndexes(ctx, tx, p.schema(1)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, insertCheckpointSQL, p.ID, 1, ledger.Shards()); err != nil {
			return err
		}
		return p.activate(ctx, tx, 1)
	})
	return outdated, err
}

func (p *Projection) createTables(ctx context.Context, tx pgx.Tx, schema string) error {
	if _, err := tx.Exec(ctx, "create schema "+schema); err != nil {
		return err
	}
	for _, t := range p.Tables {
		if _, err := tx.Exec(ctx, t.create(schema)); err != nil {
			return err
		}
	}
	return p.createTriggers(ctx, tx, schema)
}

func (p *Projection) createTriggers(ctx context.Context, tx pgx.Tx, schema string) error {
	for _, trigger := range p.Triggers {
		if _, err := tx.Exec(ctx, strings.ReplaceAll(trigger, "@", schema+".")); err != nil {
			return err
		}
	}
	return nil
}

func (p *Projection) createIndexes(ctx context.Context, tx pgx.Tx, schema string) error {
	for _, index := range p.Indexes {
		if _, err := tx.Exec(ctx, strings.ReplaceAll(index, "@", schema+".")); err != nil {
			return err
		}
	}
	return nil
}

// activate points the views at a revision. The caller's transaction makes it one step for every reader.
func (p *Projection) activate(ctx context.Context, tx pgx.Tx, revision int) error {
	if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock(hashtext('ledgerline views'), 0)`); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `create schema if not exists read`); err != nil {
		return err
	}
	for _, t := range p.Tables {
		sql := fmt.Sprintf("drop view if exists read.%[1]s; create view read.%[1]s as select * from %[2]s.%[1]s", t.Name, p.schema(revision))
		if _, err := tx.Exec(ctx, sql); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, insertConsumerSQL, p.ID, revision, p.Program)
	return err
}

// ErrBusy says that a new revision of the projection is being built by another process.
var ErrBusy = errors.New("another replay of this projection is running")

// Replayed tells what a replay did.
type Replayed struct {
	Projection string        `json:"projection"`
	Revision   int           `json:"revision"`
	Events     int64         `json:"events"` // positions read
	Took       time.Duration `json:"took_ns"`
}

// Replay builds a new revision of a projection from the first event on, beside the one that is being read, and swaps
// the two when it has caught up. Readers see the one or the other, never a half-built one. What was parked is tried
// again by the nature of it; an event that fails now fails the replay.
func Replay(ctx context.Context, ledger *eventstore.Ledger, p *Projection, report func(done, head int64)) (Replayed, error) {
	started := time.Now()
	ledger, done, err := apart(ctx, ledger)
	if err != nil {
		return Replayed{}, fmt.Errorf("projections: replay %s: %w", p.ID, err)
	}
	defer done()
	conn, err := ledger.Pool().Acquire(ctx)
	if err != nil {
		return Replayed{}, fmt.Errorf("projections: replay %s: %w", p.ID, err)
	}
	defer func() { // the lock goes with the connection
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = conn.Conn().Close(closing)
		conn.Release()
	}()
	var locked bool
	if err := conn.QueryRow(ctx, builderLockSQL, p.ID).Scan(&locked); err != nil {
		return Replayed{}, fmt.Errorf("projections: replay %s: %w", p.ID, err)
	}
	if !locked {
		return Replayed{}, fmt.Errorf("projections: replay %s: %w", p.ID, ErrBusy)
	}
	b := &builder{ledger: ledger, p: p, report: report}
	if err := b.build(ctx); err != nil {
		return Replayed{}, fmt.Errorf("projections: replay %s: %w", p.ID, err)
	}
	return Replayed{p.ID, b.revision, b.read.Load(), time.Since(started)}, nil
}

// apart gives the builder connections of its own: while it swaps, workers wait for its locks with theirs.
func apart(ctx context.Context, ledger *eventstore.Ledger) (*eventstore.Ledger, func(), error) {
	const connections = 6 // the lock, the swap, events and their keys, one batch being written, one to spare
	cfg := ledger.Pool().Config()
	cfg.MaxConns, cfg.MinConns = connections, 0
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	return ledger.Reading(pool), pool.Close, nil
}

// ReplayAll replays several projections, two at a time.
func ReplayAll(ctx context.Context, ledger *eventstore.Ledger, ps []*Projection, report func(p *Projection, done, head int64)) ([]Replayed, error) {
	results := make([]Replayed, len(ps))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(2)
	for i, p := range ps {
		g.Go(func() (err error) {
			results[i], err = Replay(ctx, ledger, p, func(done, head int64) {
				if report != nil {
					report(p, done, head)
				}
			})
			return err
		})
	}
	return results, g.Wait()
}

var schemaName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// AsOf builds the read models as they were at a time, from the events that occurred until then, in a schema of their
// own that must not exist yet. What was erased since stays erased.
func AsOf(ctx context.Context, ledger *eventstore.Ledger, ps []*Projection, at time.Time, schema string, report func(p *Projection, done, head int64)) (failed error) {
	if !schemaName.MatchString(schema) || strings.HasPrefix(schema, "pg_") || strings.HasPrefix(schema, "p_") || schema == "read" || schema == "public" {
		return fmt.Errorf("projections: %q will not do as a schema's name: lower-case letters, digits and _, not beginning with p_ or pg_", schema)
	}
	ledger, done, err := apart(ctx, ledger)
	if err != nil {
		return fmt.Errorf("projections: as of: %w", err)
	}
	defer done()
	into := pgx.Identifier{schema}.Sanitize() // it may be a word of SQL's own
	if _, err := ledger.Pool().Exec(ctx, "create schema "+into); err != nil {
		return fmt.Errorf("projections: create schema %s: %w", schema, err)
	}
	defer func() {
		if failed != nil { // nothing half built is left
			_, dropErr := ledger.Pool().Exec(context.WithoutCancel(ctx), "drop schema "+into+" cascade")
			failed = errors.Join(failed, dropErr)
		}
	}()
	for _, p := range ps {
		b := &builder{ledger: ledger, p: p, asOf: &at, into: into, report: func(done, head int64) {
			if report != nil {
				report(p, done, head)
			}
		}}
		if err := b.buildAsOf(ctx); err != nil {
			return fmt.Errorf("projections: %s as of %s: %w", p.ID, stamp(at), err)
		}
	}
	return nil
}
