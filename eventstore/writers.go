package eventstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// writerSettingsSQL are the settings of the committers' connections.
//
// Statements look up every row by an index: an append needs a few rows of large tables, but a plan that was cached
// while a table was small would scan the whole table, however large it grows, until the next analyze. Planning a
// statement for its arguments takes longer than executing it, so each statement has one generic plan.
//
// A commit waits for the disk, and for synchronous standbys if there are any, whatever the defaults of the database
// are. A transaction that stands still holds the lock on a shard's head, so it ends after a few seconds.
const writerSettingsSQL = `select set_config('enable_seqscan', 'off', false), set_config('enable_hashjoin', 'off', false),
	set_config('enable_mergejoin', 'off', false), set_config('plan_cache_mode', 'force_generic_plan', false),
	set_config('synchronous_commit', case current_setting('synchronous_commit') when 'remote_apply' then 'remote_apply' else 'on' end, false),
	set_config('idle_in_transaction_session_timeout', '5s', false), set_config('statement_timeout', '8s', false), set_config('lock_timeout', '8s', false)`

// newWriterPool returns the connection pool of the committers: one connection for each committer and one spare, so
// that appends never wait for reads.
func newWriterPool(ctx context.Context, base *pgxpool.Pool, shards int) (*pgxpool.Pool, error) {
	cfg := base.Config()
	cfg.MaxConns, cfg.MinConns = int32(shards)+1, 0 //nolint:gosec // at most 1,024
	onNotice := cfg.ConnConfig.OnNotice
	cfg.ConnConfig.OnNotice = func(conn *pgconn.PgConn, notice *pgconn.Notice) {
		if notice.Code == codeWarning {
			conn.CustomData()[waitCancelled] = true
		}
		if onNotice != nil {
			onNotice(conn, notice)
		}
	}
	cfg.BeforeConnect = func(_ context.Context, one *pgx.ConnConfig) error {
		withoutCancelRequests(one)
		return nil
	}
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, writerSettingsSQL)
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("eventstore: connect the committers: %w", err)
	}
	return pool, nil
}

// withoutCancelRequests makes a connection that is never canceled at the server. pgx sends a cancel request when it
// gives up on a connection. To a commit that waits for a synchronous standby, the request would mean: make the
// transaction visible although it is not replicated.
func withoutCancelRequests(cfg *pgx.ConnConfig) {
	var connected atomic.Bool
	dial, after := cfg.DialFunc, cfg.AfterConnect
	cfg.DialFunc = func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		if connected.Load() {
			return nil, errors.New("eventstore: a commit is never canceled")
		}
		return dial(ctx, network, address)
	}
	cfg.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		connected.Store(true)
		if after != nil {
			return after(ctx, conn)
		}
		return nil
	}
}

const (
	// codeWarning is the SQLSTATE of PostgreSQL's warning "canceling wait for synchronous replication": the
	// transaction is visible, but may not be replicated. Committers cause no other warnings.
	codeWarning = "01000"
	// waitCancelled marks, in the data of a connection, that the warning was received.
	waitCancelled = "ledgerline wait cancelled"

	touchHeadSQL = `update ledger_heads set position = position where shard = $1`
)

// confirm returns when the last commit of a connection is as durable as commits have to be. If the wait of a commit
// was canceled, it commits again something that changes nothing: when that commit has been waited for, so have all
// before it.
func (c *committer) confirm(ctx context.Context, conn *pgxpool.Conn) error {
	data := conn.Conn().PgConn().CustomData()
	for data[waitCancelled] != nil {
		c.ledger.log.Warn("eventstore: the wait for a synchronous standby was canceled; the append is not answered until a commit is replicated", "shard", c.shard)
		delete(data, waitCancelled)
		if _, err := conn.Exec(ctx, touchHeadSQL, c.shard); err != nil {
			return err
		}
	}
	return nil
}
