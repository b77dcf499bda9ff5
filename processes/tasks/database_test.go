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

// databaseWithMortal returns a database and a second pool whose connections kill closes for good. For the database and
// for other runners, a runner on that pool is then as dead as after kill -9.
func databaseWithMortal(t testing.TB) (pool, mortal *pgxpool.Pool, kill func()) {
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
	mortal, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(mortal.Close)
	return pool, mortal, func() {
		mu.Lock()
		defer mu.Unlock()
		dead = true
		for _, conn := range conns {
			_ = conn.Close()
		}
	}
}
