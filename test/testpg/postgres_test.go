package testpg_test

import (
	"bufio"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ledgerline/migrations"
	"ledgerline/test/testpg"
)

// useAndHangEnv makes the test binary one that uses a database, says where it lies and then hangs until it is killed.
const useAndHangEnv = "TESTKIT_TEST_USE_AND_HANG"

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
	return conn
}

func TestEachTestGetsItsOwnMigratedDatabase(t *testing.T) {
	t.Parallel()
	one, other := testpg.Database(t), testpg.Database(t)
	require.NotEqual(t, one, other)
	_, err := connect(t, one).Exec(t.Context(), `create table mine (n int)`)
	require.NoError(t, err)

	const tablesSQL = `select count(*) from pg_tables where schemaname = 'public' and ($1 = '' or tablename = $1)`
	var mine, all int
	require.NoError(t, connect(t, other).QueryRow(t.Context(), tablesSQL, "mine").Scan(&mine))
	require.NoError(t, connect(t, other).QueryRow(t.Context(), tablesSQL, "").Scan(&all))
	require.Zero(t, mine)
	require.Greater(t, all, len(migrations.Names()))
}

func TestEmptyDatabaseHasNoTables(t *testing.T) {
	t.Parallel()
	var tables int
	conn := connect(t, testpg.EmptyDatabase(t))
	require.NoError(t, conn.QueryRow(t.Context(), `select count(*) from pg_tables where schemaname = 'public'`).Scan(&tables))
	require.Zero(t, tables)
}

func TestDatabaseIsDroppedWhenItsTestEnds(t *testing.T) { //nolint:tparallel // the subtest's end is waited for
	t.Parallel()
	var dsn string
	t.Run("a test that leaves its connection open", func(t *testing.T) {
		dsn = testpg.Database(t)
		_, err := pgx.Connect(t.Context(), dsn)
		require.NoError(t, err)
	})
	_, err := pgx.Connect(t.Context(), dsn)
	require.ErrorContains(t, err, "does not exist")
}

func TestServerNamedInTheEnvironmentIsUsed(t *testing.T) {
	t.Parallel()
	address, err := url.Parse(testpg.Database(t))
	require.NoError(t, err)
	out := runSelf(t, "DATABASE_URL_TEST="+address.String(), "TestEachTestGetsItsOwnMigratedDatabase")
	require.Contains(t, out, "PASS")
}

func TestMissingServerFailsTheTest(t *testing.T) {
	t.Parallel()
	out := runSelf(t, "DATABASE_URL_TEST=postgres://127.0.0.1:1/none", "TestEmptyDatabaseHasNoTables")
	require.Contains(t, out, "no PostgreSQL to test on")
	require.Contains(t, out, "FAIL")
}

// runSelf runs one test of this binary with one more environment variable and returns what it printed.
func runSelf(t *testing.T, env, test string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+test+"$")
	cmd.Env = append(os.Environ(), env)
	out, _ := cmd.CombinedOutput()
	return string(out)
}

func TestKilledTestBinaryLeavesNoServerAndNoFiles(t *testing.T) {
	t.Parallel()
	if os.Getenv(useAndHangEnv) != "" {
		fmt.Println("dsn", testpg.Database(t))
		select {}
	}
	tmp, err := os.MkdirTemp("", "testpg-test-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	require.NoError(t, os.Chmod(tmp, 0o755))

	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), useAndHangEnv+"=yes", "TMPDIR="+tmp, "DATABASE_URL_TEST=")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	dsn := strings.TrimSpace(strings.TrimPrefix(line, "dsn "))
	connect(t, dsn)

	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.Eventually(t, func() bool {
		left, err := os.ReadDir(tmp)
		return err == nil && len(left) == 0
	}, 30*time.Second, 20*time.Millisecond)
	_, err = pgx.Connect(t.Context(), dsn)
	require.Error(t, err)
}

func BenchmarkDatabase(b *testing.B) {
	testpg.Database(b)
	for b.Loop() {
		testpg.Database(b)
	}
}
