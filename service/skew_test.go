package service

import (
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"ledgerline/clock"
	"ledgerline/test/testpg"
)

func TestANodeWhoseClockDiffersFromTheDatabasesWritesNothing(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), testpg.Database(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	moved := clock.Running()
	s := newSkew(moved, pool, slog.New(slog.DiscardHandler))
	s.measure(t.Context())
	require.NoError(t, s.check())
	_, err = moved.Advance(5 * time.Minute)
	require.NoError(t, err)
	s.measure(t.Context())
	require.ErrorContains(t, s.check(), "ahead of the database's, and 3s are allowed")
	require.NoError(t, (*skew)(nil).check(), "a clock that is moved by hand is not compared")
}
