package readmodel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"ledgerline/eventstore"
)

// replayLockSQL allows one process at a time to replay a projection. The lock belongs to a connection, and is released
// when that closes.
const replayLockSQL = `select pg_try_advisory_lock(hashtext('ledgerline builder'), hashtext($1))`

// ErrBusy says that another process is replaying the projection.
var ErrBusy = errors.New("another replay of this projection is running")

// Replayed reports what a replay did.
type Replayed struct {
	Projection string        `json:"projection"`
	Revision   int           `json:"revision"`
	Events     int64         `json:"events"` // positions read
	Took       time.Duration `json:"took_ns"`
}

// Replay builds a new revision of a projection from the first event, beside the active one, and swaps the two when the
// new one has caught up. Readers see either the old or the new revision, never a half-built one. Parked events are
// tried again with all others; an event that fails makes the replay fail. report, if not nil, is called as positions
// are read.
func Replay(ctx context.Context, ledger *eventstore.Ledger, p *Projection, report func(done, head int64)) (Replayed, error) {
	started := time.Now()
	ledger, done, err := withOwnPool(ctx, ledger)
	if err != nil {
		return Replayed{}, fmt.Errorf("projections: replay %s: %w", p.ID, err)
	}
	defer done()
	conn, err := ledger.Pool().Acquire(ctx)
	if err != nil {
		return Replayed{}, fmt.Errorf("projections: replay %s: %w", p.ID, err)
	}
	defer func() { // closing the connection releases the lock
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = conn.Conn().Close(closing)
		conn.Release()
	}()
	var locked bool
	if err := conn.QueryRow(ctx, replayLockSQL, p.ID).Scan(&locked); err != nil {
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

// withOwnPool gives a builder connections of its own: while it swaps revisions, workers that wait for its locks occupy
// the connections of the shared pool.
func withOwnPool(ctx context.Context, ledger *eventstore.Ledger) (*eventstore.Ledger, func(), error) {
	const connections = 6 // the lock, the swap, the events, their keys, the batch being written, and one in reserve
	cfg := ledger.Pool().Config()
	cfg.MaxConns, cfg.MinConns = connections, 0
	// Building an index takes as long as the table is large, so neither the server nor this process bounds statements.
	cfg.ConnConfig.DialFunc = (&net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 2}}).DialContext
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `select set_config('statement_timeout', '0', false), set_config('lock_timeout', '0', false),
			set_config('idle_in_transaction_session_timeout', '1min', false)`)
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	return ledger.ReadOnly(pool), pool.Close, nil
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

// AsOf builds the read models as they were at a time, from the events that occurred until then, in a new schema. It
// fails when the schema exists. Data that was erased later is missing.
func AsOf(ctx context.Context, ledger *eventstore.Ledger, ps []*Projection, at time.Time, schema string, report func(p *Projection, done, head int64)) (failed error) {
	if !schemaName.MatchString(schema) || strings.HasPrefix(schema, "pg_") || strings.HasPrefix(schema, "p_") || schema == "read" || schema == "public" {
		return fmt.Errorf("projections: %q cannot be the schema's name: use lower-case letters, digits and _, not beginning with p_ or pg_", schema)
	}
	ledger, done, err := withOwnPool(ctx, ledger)
	if err != nil {
		return fmt.Errorf("projections: as of: %w", err)
	}
	defer done()
	into := pgx.Identifier{schema}.Sanitize() // the name may be a keyword of SQL
	if _, err := ledger.Pool().Exec(ctx, "create schema "+into); err != nil {
		return fmt.Errorf("projections: create schema %s: %w", schema, err)
	}
	defer func() {
		if failed != nil {
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
			return fmt.Errorf("projections: %s as of %s: %w", p.ID, Stamp(at), err)
		}
	}
	return nil
}
