package tasks_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"ledgerline/test/testpg"
)

// database returns a pool of a new, migrated database.
func database(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), testpg.Database(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

var errKilled = errors.New("killed")

// databaseWithKillablePool returns a database and a second pool. kill closes the connections of that pool, and prevents
// new ones. For the database and for other runners, a runner on that pool then looks like a process after kill -9.
func databaseWithKillablePool(t testing.TB) (pool, killable *pgxpool.Pool, kill func()) {
	t.Helper()
	pool = database(t)
	var (
		mu    sync.Mutex
		dead  bool
		conns []net.Conn
	)
	cfg := pool.Config()
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		if dead {
			return nil, errKilled
		}
		conn, err := dial(ctx, network, addr)
		if err == nil {
			conns = append(conns, conn)
		}
		return conn, err
	}
	killable, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(killable.Close)
	return pool, killable, func() {
		mu.Lock()
		defer mu.Unlock()
		dead = true
		for _, conn := range conns {
			_ = conn.Close()
		}
	}
}
