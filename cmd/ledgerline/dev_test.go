package main

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"ledgerline/clock"
	"ledgerline/eventstore"
	"ledgerline/migrations"
	"ledgerline/test/testpg"
)

func TestDevKeepsItsDataAndLeavesNoProcessBehind(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	first, f := startDev(t, dir)

	info, err := os.Stat(dataDir(dir).devFile())
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	content, err := os.ReadFile(dataDir(dir).devFile())
	require.NoError(t, err)
	var fields map[string]any
	require.NoError(t, json.Unmarshal(content, &fields))
	require.ElementsMatch(t, []string{
		"base_url", "read_url", "write_url", "organisation_id", "workspace_id", "keys", "sessions", "users", "team_id", "pool_id", "lines", "workspaces",
	}, keysOf(fields))
	require.Equal(t, f.BaseURL, f.ReadURL)
	require.Equal(t, f.BaseURL, f.WriteURL)
	require.Len(t, f.Lines.Live, 3)
	require.Len(t, f.Workspaces, 2)
	require.Equal(t, f.OrganisationID, f.Workspaces[0].OrganisationID)
	require.NotEqual(t, f.OrganisationID, f.Workspaces[1].OrganisationID)
	require.Len(t, f.Sessions, 7)

	status, made := request(t, http.MethodPost, f.WriteURL+"/v1/contacts", f.Keys.Live, `{"phone":"+12125550110"}`)
	require.Equal(t, http.StatusCreated, status, made)
	for _, token := range []string{f.Keys.Test, f.Sessions["owner"], f.Sessions["agent"], f.Workspaces[0].Keys.Live, f.Workspaces[1].Keys.Test} {
		status, _ := request(t, http.MethodGet, f.ReadURL+"/v1/contacts", token, "")
		require.Equal(t, http.StatusOK, status)
	}

	status, _ = request(t, http.MethodPost, f.BaseURL+"/dev/clock", "", `{"advance":"P40D"}`)
	require.Equal(t, http.StatusOK, status)
	status, _ = request(t, http.MethodGet, f.ReadURL+"/v1/contacts", f.Sessions["owner"], "")
	require.Equal(t, http.StatusOK, status, "sessions outlive a move of the clock")

	postgres := postgresOf(t, dir)
	require.Equal(t, exitOK, first.signal(syscall.SIGINT), &first.err)
	require.False(t, runs(postgres))
	_, err = net.Dial("tcp", strings.TrimPrefix(f.BaseURL, "http://"))
	require.ErrorIs(t, err, syscall.ECONNREFUSED)

	second, again := startDev(t, dir)
	require.NotContains(t, second.err.String(), "creating")
	status, found := request(t, http.MethodGet, again.ReadURL+"/v1/contacts/"+made.text("id"), f.Keys.Live, "")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "+12125550110", found.text("phone"))
	again.BaseURL, again.ReadURL, again.WriteURL, again.Sessions = f.BaseURL, f.ReadURL, f.WriteURL, f.Sessions
	require.Equal(t, f, again)

	// After SIGKILL the kernel ends PostgreSQL, and the next start recovers the data.
	postgres = postgresOf(t, dir)
	require.Equal(t, -1, second.signal(syscall.SIGKILL))
	third, again := startDev(t, dir)
	require.False(t, runs(postgres))
	status, _ = request(t, http.MethodGet, again.ReadURL+"/v1/contacts/"+made.text("id"), f.Keys.Live, "")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, exitOK, third.signal(syscall.SIGTERM))
}

func TestDevSaysThatItsClockStartsBeforeEventsOfAnEarlierRun(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	p, _ := startDev(t, dir)
	require.NotContains(t, p.err.String(), "note:")
	require.Equal(t, exitOK, p.signal(syscall.SIGINT))
	p, _ = startDev(t, dir, "--clock", "2020-03-02T17:00:00Z")
	require.Eventually(t, func() bool { return strings.Contains(p.err.String(), "note: the clock starts at 2020-03-02T17:00:00Z") }, patience, tick)
	require.NotContains(t, p.err.String(), "was moved")
	require.Equal(t, exitOK, p.signal(syscall.SIGINT))
}

func TestDevReportsWhyItCannotStart(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	p, f := startDev(t, dir)
	postgres := postgresOf(t, dir)

	t.Run("another dev in the directory", func(t *testing.T) {
		t.Parallel()
		other := launch(t, "dev", "--addr", "127.0.0.1:0", "--data", dir)
		require.Equal(t, exitFailed, other.code())
		require.Contains(t, other.err.String(), "in use by another `ledgerline dev` (process "+strconv.Itoa(p.cmd.Process.Pid)+")")
		require.FileExists(t, dataDir(dir).devFile())
	})
	t.Run("a port in use", func(t *testing.T) {
		t.Parallel()
		missing := filepath.Join(folder(t), "data")
		other := launch(t, "dev", "--addr", strings.TrimPrefix(f.BaseURL, "http://"), "--data", missing)
		require.Equal(t, exitFailed, other.code())
		require.Contains(t, other.err.String(), "is taken by another program")
		require.NoDirExists(t, missing, "a failed first start leaves nothing behind")
	})
	t.Run("a database that cannot be reached", func(t *testing.T) {
		t.Parallel()
		missing := filepath.Join(folder(t), "data")
		other := launch(t, "dev", "--addr", "127.0.0.1:0", "--data", missing, "--database-url", "postgres://nobody@127.0.0.1:1/none")
		require.Equal(t, exitFailed, other.code())
		require.NoDirExists(t, missing, "a failed first start leaves nothing behind")
	})
	t.Run("an invalid flag", func(t *testing.T) {
		t.Parallel()
		other := launch(t, "dev", "--clock", "noon", "--data", folder(t))
		require.Equal(t, exitUsage, other.code())
		require.Contains(t, other.err.String(), "--clock")
	})
	t.Cleanup(func() {
		// When its database is killed, the dev reports it and fails.
		require.NoError(t, syscall.Kill(postgres, syscall.SIGQUIT))
		require.Equal(t, exitFailed, p.code())
		require.Contains(t, p.err.String(), "the private PostgreSQL has ended")
	})
}

func TestDevThatIsInterruptedDuringItsStartLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(folder(t), "data")
	p := launch(t, "dev", "--addr", "127.0.0.1:0", "--data", dir)
	require.Eventually(t, func() bool { return strings.Contains(p.err.String(), "starting PostgreSQL") }, patience, tick)
	require.Equal(t, exitOK, p.signal(syscall.SIGINT), &p.err)
	require.NoDirExists(t, dir)
	p, _ = startDev(t, dir)
	require.Equal(t, exitOK, p.signal(syscall.SIGINT))
}

func TestToolWaitsForADevThatStarts(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	p := launch(t, "dev", "--addr", "127.0.0.1:0", "--data", dir, "--shards", "2")
	require.Eventually(t, dataDir(dir).devRuns, patience, tick)
	env := launch(t, "dev-env", "--data", dir)
	require.Equal(t, exitOK, env.code(), &env.err)
	require.Contains(t, env.out.String(), "export LL_KEY=")
	var verified struct {
		Shards []object `json:"shards"`
	}
	tool(t, &verified, "audit", "verify", "--data", dir)
	require.Len(t, verified.Shards, 2, "the dev decided how many shards there are")
	require.Equal(t, exitOK, p.signal(syscall.SIGINT), &p.err)
}

// TestDemoDataIsCompletedAfterAnInterruptedStart interrupts the creation of the demo data after each of its appends.
func TestDemoDataIsCompletedAfterAnInterruptedStart(t *testing.T) {
	t.Parallel()
	ring, _, err := eventstore.NewKeyring()
	require.NoError(t, err)
	whole := demoLedger(t, ring)
	want, err := makeDemo(t.Context(), whole, discard)
	require.NoError(t, err)
	events, err := whole.Head(t.Context(), 0)
	require.NoError(t, err)

	pieces := demoLedger(t, ring)
	starts := 0
	for {
		ctx, stop := context.WithCancel(t.Context())
		forget := pieces.OnAppend(0, stop)
		got, err := makeDemo(ctx, pieces, discard)
		forget()
		stop()
		if starts++; err == nil {
			require.Equal(t, want, got)
			break
		}
		require.ErrorIs(t, err, context.Canceled)
	}
	require.Greater(t, starts, 10)
	found, err := pieces.Head(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, events, found, "nothing was created twice")
}

func demoLedger(t *testing.T, ring *eventstore.Keyring) *eventstore.Ledger {
	t.Helper()
	dsn := testpg.Database(t)
	require.NoError(t, migrations.Up(t.Context(), dsn))
	pool, err := pgxpool.New(context.WithoutCancel(t.Context()), dsn)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	ledger, err := eventstore.Open(t.Context(), eventstore.Config{Pool: pool, Keyring: ring, Clock: clock.System()})
	require.NoError(t, err)
	t.Cleanup(ledger.Close)
	return ledger
}

func TestDevRefusesToStartWithoutTheKeysOfItsDatabase(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	p, _ := startDev(t, dir)
	require.Equal(t, exitOK, p.signal(syscall.SIGTERM))
	keys := dataDir(dir).keys()
	start := func() string {
		again := launch(t, "dev", "--addr", "127.0.0.1:0", "--data", dir)
		require.Equal(t, exitFailed, again.code())
		return again.err.String()
	}
	require.NoError(t, os.Chmod(keys, 0o644))
	require.Contains(t, start(), "chmod 600")
	require.NoError(t, os.Remove(keys))
	require.Contains(t, start(), "keys.json is missing")
	require.NoFileExists(t, keys, "no new keys are written")
	require.NoError(t, makeKeys(keys))
	require.Contains(t, start(), "does not belong to this database")
}
