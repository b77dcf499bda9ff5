package service_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"ledgerline/eventstore"
	"ledgerline/service"
	"ledgerline/test/testpg"
)

// watchedLog collects what is logged and signals every line.
type watchedLog struct {
	mu     sync.Mutex
	b      bytes.Buffer
	logged chan struct{}
}

func (w *watchedLog) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case w.logged <- struct{}{}:
	default:
	}
	return w.b.Write(p)
}

func (w *watchedLog) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// await waits until a text is logged.
func (w *watchedLog) await(t *testing.T, text string) {
	t.Helper()
	timeout := time.After(time.Minute)
	for !strings.Contains(w.text(), text) {
		select {
		case <-w.logged:
		case <-timeout:
			require.FailNow(t, "not logged: "+text, w.text())
		}
	}
}

func TestNodeLogsOneLineWhenItsDatabaseGoesAndOneWhenItIsBack(t *testing.T) {
	t.Parallel()
	dsn := testpg.Database(t)
	ring, _, err := eventstore.NewKeyring()
	require.NoError(t, err)
	log := &watchedLog{logged: make(chan struct{}, 1)}
	node, err := service.Start(t.Context(), service.Config{
		DSN: dsn, Keyring: ring, Roles: service.All, Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	require.NoError(t, err)
	stop := sync.OnceFunc(node.Stop)
	t.Cleanup(stop)

	cfg, err := pgxpool.ParseConfig(dsn)
	require.NoError(t, err)
	name := pgx.Identifier{cfg.ConnConfig.Database}.Sanitize()
	database := cfg.ConnConfig.Database
	cfg.ConnConfig.Database = "postgres"
	server, err := pgx.ConnectConfig(t.Context(), cfg.ConnConfig)
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close(context.WithoutCancel(t.Context())) })
	_, err = server.Exec(t.Context(), `alter database `+name+` with allow_connections false`)
	require.NoError(t, err)
	_, err = server.Exec(t.Context(), `select pg_terminate_backend(pid) from pg_stat_activity where datname = $1`, database)
	require.NoError(t, err)
	log.await(t, "service: the database cannot be reached")
	_, err = server.Exec(t.Context(), `alter database `+name+` with allow_connections true`)
	require.NoError(t, err)
	log.await(t, "service: the database answers again")
	stop()
	require.Equal(t, 2, strings.Count(log.text(), "\n"), log.text())
}
