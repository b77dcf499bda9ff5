package service

import (
	"context"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/test/testpg"
)

// silentServer accepts connections, reads what is sent and never answers. It returns its address.
func silentServer(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, listener.Close()) })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, conn) }()
		}
	}()
	return listener.Addr().String()
}

func TestAConnectionThatIsSilentWhileAnAnswerIsDueIsLost(t *testing.T) {
	t.Parallel()
	conn, err := dialer(50*time.Millisecond)(t.Context(), "tcp", silentServer(t))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	_, err = conn.Write([]byte("a question"))
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, errSilent)
	require.True(t, isConnectionError(err))
	timeout, isTimeout := err.(net.Error) //nolint:errorlint // pgx keeps a connection after an error that is a timeout itself
	require.False(t, isTimeout && timeout.Timeout())
}

func TestADeadlineOfTheCallerEndsAReadAsATimeout(t *testing.T) {
	t.Parallel()
	conn, err := dialer(time.Minute)(t.Context(), "tcp", silentServer(t))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Millisecond)))
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

func TestANodeThatMayOpenMoreConnectionsThanPostgreSQLHasIsRefused(t *testing.T) {
	t.Parallel()
	pool, err := Connect(t.Context(), testpg.Database(t), 2, time.Second)
	require.NoError(t, err)
	defer pool.Close()
	few, many := Config{MaxConns: 4}, Config{MaxConns: 100_000}
	require.NoError(t, few.checkBudget(t.Context(), pool, 1))
	err = many.checkBudget(t.Context(), pool, 4)
	require.ErrorContains(t, err, "lower --connections or raise max_connections")
}

func TestEveryConnectionBoundsItsStatementsLocksAndTransactions(t *testing.T) {
	t.Parallel()
	pool, err := Connect(t.Context(), testpg.Database(t), 2, 3*time.Second)
	require.NoError(t, err)
	defer pool.Close()
	for name, want := range map[string]string{
		"statement_timeout": "3s", "lock_timeout": "3s", "idle_in_transaction_session_timeout": "8s",
	} {
		var value string
		require.NoError(t, pool.QueryRow(context.Background(), `select current_setting($1)`, name).Scan(&value))
		require.Equal(t, want, value, name)
	}
}

func TestPostgreSQLItselfIsNotTakenForAPooler(t *testing.T) {
	t.Parallel()
	pool, err := Connect(t.Context(), testpg.Database(t), 2, time.Second)
	require.NoError(t, err)
	defer pool.Close()
	require.NoError(t, refuseTransactionPooling(t.Context(), pool.Config().ConnConfig))
}
