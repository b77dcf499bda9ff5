package readmodel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5"

	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
)

const (
	consumerSQL       = `select revision, program from feed_consumers where name = $1`
	foreignSQL        = `select exists (select from feed_checkpoints c where c.name = $1 and c.revision = $2 and not ` + feed.InLedgerSQL + `)`
	insertConsumerSQL = `insert into feed_consumers (name, revision, program, changed_at) values ($1, $2, $3, now())
		on conflict (name) do update set revision = excluded.revision, program = excluded.program, changed_at = excluded.changed_at`
	insertCheckpointSQL = `insert into feed_checkpoints (name, revision, shard, position)
		select $1, $2, s, 0 from generate_series(0, $3 - 1) s`
	// Only one process at a time creates the tables of a projection.
	prepareLockSQL = `select pg_advisory_xact_lock(hashtext('ledgerline starter'), hashtext($1))`
	// Views of different projections are replaced one after the other, since all are in one schema.
	viewsLockSQL = `select pg_advisory_xact_lock(hashtext('ledgerline views'), 0)`
)

// Prepare creates the tables of projections that have none yet, and replays those that another program version built or
// whose checkpoint is not in the ledger, because they are of another history.
// It returns when all of them can be read. Any number of processes may call it at once.
func Prepare(ctx context.Context, ledger *eventstore.Ledger, ps []*Projection, log *slog.Logger) error {
	for _, p := range ps {
		outdated, err := p.prepare(ctx, ledger)
		if err != nil {
			return fmt.Errorf("projections: prepare %s: %w", p.ID, err)
		}
		if outdated {
			log.Info("projections: tables are of another program version or history, replaying", "projection", p.ID)
			if _, err := Replay(ctx, ledger, p, nil); err != nil && !errors.Is(err, ErrBusy) {
				return err
			}
		}
	}
	return nil
}

// prepare creates the first revision when there is none. outdated says that the active revision must be replaced:
// another program version built it, or from another history.
func (p *Projection) prepare(ctx context.Context, ledger *eventstore.Ledger) (outdated bool, err error) {
	err = pgx.BeginFunc(ctx, ledger.Pool(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, prepareLockSQL, p.ID); err != nil {
			return err
		}
		var revision, program int
		err := tx.QueryRow(ctx, consumerSQL, p.ID).Scan(&revision, &program)
		if err == nil {
			if err := tx.QueryRow(ctx, foreignSQL, p.ID, revision).Scan(&outdated); err != nil {
				return err
			}
			outdated = outdated || program != p.Program
			return nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if _, err := tx.Exec(ctx, "create schema "+p.schema(1)); err != nil {
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

// createTables creates the tables and triggers in a schema that exists.
func (p *Projection) createTables(ctx context.Context, tx pgx.Tx, schema string) error {
	for _, t := range p.Tables {
		if _, err := tx.Exec(ctx, t.createSQL(schema)); err != nil {
			return err
		}
	}
	return execIn(ctx, tx, schema, p.Triggers)
}

func (p *Projection) createIndexes(ctx context.Context, tx pgx.Tx, schema string) error {
	return execIn(ctx, tx, schema, p.Indexes)
}

// execIn runs statements in which @ stands for the schema.
func execIn(ctx context.Context, tx pgx.Tx, schema string, statements []string) error {
	for _, sql := range statements {
		if _, err := tx.Exec(ctx, strings.ReplaceAll(sql, "@", schema+".")); err != nil {
			return err
		}
	}
	return nil
}

// activate points the views at a revision. Every reader sees the change when the caller's transaction commits.
func (p *Projection) activate(ctx context.Context, tx pgx.Tx, revision int) error {
	if _, err := tx.Exec(ctx, viewsLockSQL); err != nil {
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
