package commands_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"ledgerline/commands"
	"ledgerline/eventstore"
)

// queryCounter counts the committer's batches and all other queries.
type queryCounter struct{ queries, batches atomic.Int64 }

func (q *queryCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	// Pings of the pool begin with a comment. Other processes are notified after the append, which does not wait for it.
	if !strings.HasPrefix(data.SQL, "--") && !strings.Contains(data.SQL, "pg_notify") {
		q.queries.Add(1)
	}
	return ctx
}
func (q *queryCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (q *queryCounter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	q.batches.Add(1)
	return ctx
}
func (q *queryCounter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (q *queryCounter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

func TestMessageToACachedContactTakesOneAppendAndNoOtherQuery(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	k := h.key("live", "send")
	config, err := pgxpool.ParseConfig(h.dsn)
	require.NoError(t, err)
	var q queryCounter
	config.ConnConfig.Tracer = &q
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	ledger, err := eventstore.Open(t.Context(), eventstore.Config{Pool: pool, Keyring: h.ring, Clock: h.clock})
	require.NoError(t, err)
	t.Cleanup(func() { ledger.Close(); pool.Close() })
	app, err := commands.New(commands.Config{Ledger: ledger})
	require.NoError(t, err)

	send := func(receipt string) {
		access, err := app.FindKeyAccess(t.Context(), k.Secret, false)
		require.NoError(t, err)
		req := h.live()
		req.Guards = access.Guards
		req.Idempotency = &eventstore.IdempotencyRecord{Workspace: h.wsp.ID, Key: receipt, Fingerprint: []byte("f"), Status: 201}
		_, err = app.AcceptMessage(t.Context(), req, text(number(1)))
		require.NoError(t, err)
	}
	send("first")
	before, batches := q.queries.Load(), q.batches.Load()
	send("second")
	require.Equal(t, before, q.queries.Load())
	require.Equal(t, batches+2, q.batches.Load(), "an append takes two round trips")
}
