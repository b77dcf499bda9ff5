package eventstore_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"ledgerline/clock"
	"ledgerline/eventstore"
	"ledgerline/localpg"
	"ledgerline/migrations"
)

// waitingSQL returns the process whose commit waits for a synchronous standby.
const waitingSQL = `select pid from pg_stat_activity where wait_event = 'SyncRep' and pid <> $1`

func TestAnAppendWhoseWaitForAStandbyIsCanceledIsNotAnsweredBeforeItIsReplicated(t *testing.T) {
	t.Parallel()
	server, err := localpg.Start(t.Context(), localpg.Config{
		DataDir: filepath.Join(t.TempDir(), "postgres"), Settings: map[string]string{"fsync": "off", "shared_buffers": "16MB", "synchronous_commit": "off"},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.WithoutCancel(t.Context()))) })
	require.NoError(t, server.EnsureDatabase(t.Context(), "ledger"))
	dsn := server.DSN("ledger")
	require.NoError(t, migrations.Up(t.Context(), dsn))
	ring, _, err := eventstore.NewKeyring()
	require.NoError(t, err)
	pool, err := pgxpool.New(t.Context(), dsn)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	l, err := eventstore.Open(t.Context(), eventstore.Config{Pool: pool, Keyring: ring, Clock: clock.System(), Shards: 1})
	require.NoError(t, err)
	t.Cleanup(l.Close)
	h := &testLedger{Ledger: l, pool: pool, org: eventstore.NewID(), wsp: eventstore.NewID()}
	h.mustAppend(t, l, one("team_1", 0, team("before")))

	exec := func(sql string) {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	waiting := func(but int) (pid int) {
		require.Eventually(t, func() bool { return pool.QueryRow(t.Context(), waitingSQL, but).Scan(&pid) == nil }, settleLimit, pollPause)
		return pid
	}
	exec(`alter system set synchronous_standby_names = 'a_standby_that_is_away'`)
	exec(`select pg_reload_conf()`)
	require.Eventually(t, func() bool {
		var names string
		return pool.QueryRow(t.Context(), `show synchronous_standby_names`).Scan(&names) == nil && names != ""
	}, settleLimit, pollPause)
	answered := make(chan error, 1)
	go func() {
		_, err := l.Append(context.WithoutCancel(t.Context()), h.write(one("team_2", 0, team("waits"))))
		answered <- err
	}()
	first := waiting(0)
	_, err = pool.Exec(t.Context(), `select pg_cancel_backend($1)`, first)
	require.NoError(t, err)
	// PostgreSQL has made the event visible. The committer commits once more and waits again.
	require.Eventually(t, func() bool {
		found, err := l.Load(t.Context(), "team_2", 0)
		return err == nil && len(found) == 1
	}, settleLimit, pollPause)
	waiting(0)
	select {
	case err := <-answered:
		require.FailNow(t, "the append was answered although no standby has it", "%v", err)
	default:
	}
	exec(`alter system reset synchronous_standby_names`)
	exec(`select pg_reload_conf()`)
	require.NoError(t, <-answered)
}

func TestATransactionThatStandsStillDoesNotStopOtherNodes(t *testing.T) {
	t.Parallel()
	h := newTestLedger(t, 1)
	h.mustAppend(t, h.Ledger, one("team_1", 0, team("before")))
	require.NoError(t, h.LockHeadAndFreeze(t.Context(), 0))
	other, _ := h.open(t, 1)
	limited, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for { // appends are refused while the lock is held, and written after PostgreSQL has ended the transaction
		_, err := other.Append(limited, h.write(one("team_2", 0, team("after"))))
		if err == nil {
			return
		}
		require.NoError(t, limited.Err(), "%v", err)
	}
}

func TestTheOutcomeOfAnAppendWhoseCallerStoppedWaitingIsUnknown(t *testing.T) {
	t.Parallel()
	h := newTestLedger(t, 1)
	h.mustAppend(t, h.Ledger, one("team_1", 0, team("before")))
	tx, err := h.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	_, err = tx.Exec(t.Context(), `select from ledger_heads for update`)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = h.Append(ctx, h.write(one("team_2", 0, team("unknown"))))
	require.ErrorIs(t, err, eventstore.ErrUnknownOutcome)
	require.NotErrorIs(t, err, eventstore.ErrUnavailable)
}
