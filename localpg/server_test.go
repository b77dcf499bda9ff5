package localpg

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// small are settings for servers that start quickly.
func small() map[string]string {
	return map[string]string{"shared_buffers": "16MB", "max_connections": "20", "fsync": "off"}
}

// ownerDirEnv makes the test binary a process that owns a server until it is killed.
const ownerDirEnv = "LOCALPG_TEST_OWNER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(ownerDirEnv); dir != "" {
		server, err := Start(context.Background(), Config{DataDir: dir, Settings: small()})
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		fmt.Println("pid", server.PID())
		select {}
	}
	os.Exit(m.Run())
}

func start(t *testing.T, cfg Config) *Server {
	t.Helper()
	if cfg.Settings == nil {
		cfg.Settings = small()
	}
	server, err := Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })
	return server
}

// tempDir is a temporary directory that every user may enter, unlike t.TempDir.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "localpg-test-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	return dir
}

func query(t *testing.T, server *Server, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.DSN("postgres"))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	var answer string
	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&answer))
	return answer
}

func gone(pid int) func() bool { return func() bool { return !alive(pid) } }

func TestDataSurvivesARestart(t *testing.T) {
	t.Parallel()
	var lines []string
	dir := filepath.Join(tempDir(t), "project", ".ledgerline", "postgres")
	first := start(t, Config{DataDir: dir, Progress: func(line string) { lines = append(lines, line) }})
	require.NoError(t, first.EnsureDatabase(t.Context(), "ledger"))
	require.NoError(t, first.EnsureDatabase(t.Context(), "ledger"))
	require.Equal(t, "127.0.0.1", query(t, first, `show listen_addresses`))
	require.Equal(t, "UTF8", query(t, first, `show server_encoding`))
	require.Equal(t, "é", query(t, first, `select lower('É')`))
	require.Equal(t, "scram-sha-256", query(t, first, `select string_agg(distinct auth_method, ',') from pg_hba_file_rules`))
	require.NoError(t, first.Stop(t.Context()))
	require.Len(t, lines, 2)
	require.Contains(t, lines[0], "creating the database in ")
	require.Contains(t, lines[1], "starting PostgreSQL ")

	second := start(t, Config{DataDir: dir})
	require.Equal(t, "1", query(t, second, `select count(*)::text from pg_database where datname = 'ledger'`))
}

func TestStopLeavesNoProcess(t *testing.T) {
	t.Parallel()
	server := start(t, Config{DataDir: tempDir(t)})
	require.Equal(t, strconv.Itoa(server.PID()), firstLine(t, filepath.Join(server.Dir(), "data", "postmaster.pid")))
	require.NoError(t, server.Stop(t.Context()))
	require.False(t, alive(server.PID()))
	require.NoFileExists(t, filepath.Join(server.Dir(), "data", "postmaster.pid"))
	_, err := pgx.Connect(t.Context(), server.DSN("postgres"))
	require.Error(t, err)
	require.NoError(t, server.Stop(t.Context()), "a second stop does nothing")
}

func TestTheServerHasAProcessGroupOfItsOwn(t *testing.T) {
	t.Parallel()
	server := start(t, Config{DataDir: tempDir(t)})
	group, err := syscall.Getpgid(server.PID())
	require.NoError(t, err)
	require.Equal(t, server.PID(), group, "a Ctrl-C in the terminal must not reach it before its owner")
}

func TestOnlyTheOwnerCanReadThePassword(t *testing.T) {
	t.Parallel()
	server := start(t, Config{DataDir: tempDir(t)})
	info, err := os.Stat(filepath.Join(server.Dir(), "password"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	wrong := strings.Replace(server.DSN("postgres"), server.password, "guess", 1)
	_, err = pgx.Connect(t.Context(), wrong)
	require.ErrorContains(t, err, "28P01")
}

func TestStartIgnoresThePIDFileOfADeadServer(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	killed := start(t, Config{DataDir: dir})
	require.NoError(t, syscall.Kill(killed.PID(), syscall.SIGKILL))
	<-killed.Done()
	require.FileExists(t, filepath.Join(killed.Dir(), "data", "postmaster.pid"))
	require.Equal(t, "1", query(t, start(t, Config{DataDir: dir}), `select '1'`))
}

func TestStartIgnoresAPIDFileWhoseIDAnotherProgramHas(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	first := start(t, Config{DataDir: dir})
	lock := filepath.Join(first.Dir(), "data", "postmaster.pid")
	content, err := os.ReadFile(lock)
	require.NoError(t, err)
	require.NoError(t, first.Stop(t.Context()))

	other := exec.CommandContext(t.Context(), "sleep", "600")
	other.SysProcAttr = &syscall.SysProcAttr{Credential: first.dir.account.credential()}
	require.NoError(t, other.Start())
	t.Cleanup(func() { _ = other.Process.Kill(); _ = other.Wait() })
	_, rest, _ := strings.Cut(string(content), "\n")
	require.NoError(t, os.WriteFile(lock, []byte(strconv.Itoa(other.Process.Pid)+"\n"+rest), 0o600))
	if account := first.dir.account; account != nil {
		require.NoError(t, os.Chown(lock, account.uid, account.gid))
	}

	require.Equal(t, "1", query(t, start(t, Config{DataDir: dir}), `select '1'`))
	require.True(t, alive(other.Process.Pid))
}

func TestStartIgnoresAnEmptyPIDFile(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	first := start(t, Config{DataDir: dir})
	require.NoError(t, first.Stop(t.Context()))
	require.NoError(t, os.WriteFile(filepath.Join(first.Dir(), "data", "postmaster.pid"), nil, 0o600))
	require.Equal(t, "1", query(t, start(t, Config{DataDir: dir}), `select '1'`))
}

func TestSecondStartOnTheDataOfARunningServerIsRefusedOrAdoptsIt(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	owner := start(t, Config{DataDir: dir})

	_, err := Start(t.Context(), Config{DataDir: dir})
	var inUse *InUseError
	require.ErrorAs(t, err, &inUse)
	require.Equal(t, os.Getpid(), inUse.PID)
	require.ErrorContains(t, err, "in use by process "+strconv.Itoa(os.Getpid()))

	guest := start(t, Config{DataDir: dir, Reuse: true})
	require.True(t, guest.Adopted())
	require.Equal(t, owner.PID(), guest.PID())
	require.Equal(t, owner.DSN("x"), guest.DSN("x"))
	require.NoError(t, guest.Stop(t.Context()))
	require.True(t, alive(owner.PID()), "an adopted server is left running")
}

func TestOfConcurrentStartsOneOwnsTheServerAndTheOthersAdoptIt(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	servers := make([]*Server, 4)
	errs := make([]error, len(servers))
	var group sync.WaitGroup
	for i := range servers {
		group.Go(func() {
			servers[i], errs[i] = Start(t.Context(), Config{DataDir: dir, Settings: small(), Reuse: true})
		})
	}
	group.Wait()
	owners := 0
	for i, server := range servers {
		require.NoError(t, errs[i])
		require.Equal(t, servers[0].PID(), server.PID())
		if !server.Adopted() {
			owners++
			t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })
		}
	}
	require.Equal(t, 1, owners)
}

func TestAKilledOwnerLeavesNoServerBehind(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	owner := exec.CommandContext(t.Context(), os.Args[0])
	owner.Env = append(os.Environ(), ownerDirEnv+"="+dir)
	out, err := owner.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, owner.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "pid")))
	require.NoError(t, err, line)
	require.True(t, alive(pid))

	_, err = Start(t.Context(), Config{DataDir: dir})
	require.ErrorContains(t, err, "in use by process "+strconv.Itoa(owner.Process.Pid))
	require.NoError(t, owner.Process.Kill())
	_ = owner.Wait()

	next := start(t, Config{DataDir: dir}) // at once: the old one may still be ending
	require.Equal(t, "1", query(t, next, `select '1'`))
	require.Eventually(t, gone(pid), 20*time.Second, 10*time.Millisecond)
}

func TestPortInUseIsReported(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	addr, ok := listener.Addr().(*net.TCPAddr)
	require.True(t, ok)

	dir := tempDir(t)
	_, err = Start(t.Context(), Config{DataDir: dir, Port: addr.Port, Settings: small()})
	var taken *PortTakenError
	require.ErrorAs(t, err, &taken)
	require.ErrorContains(t, err, fmt.Sprintf("port %d on 127.0.0.1 is taken", addr.Port))
	require.NotZero(t, start(t, Config{DataDir: dir}).Port(), "the refused start has let go of the directory")
}

func TestDataOfAnotherMajorVersionIsReported(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	first := start(t, Config{DataDir: dir})
	require.NoError(t, first.Stop(t.Context()))
	require.NoError(t, os.WriteFile(filepath.Join(first.Dir(), "data", "PG_VERSION"), []byte("9\n"), 0o600))
	_, err := Start(t.Context(), Config{DataDir: dir})
	var version *VersionError
	require.ErrorAs(t, err, &version)
	require.ErrorContains(t, err, "made by PostgreSQL 9")
}

func TestAnInvalidSettingReturnsTheErrorOfTheServer(t *testing.T) {
	t.Parallel()
	_, err := Start(t.Context(), Config{DataDir: tempDir(t), Settings: map[string]string{"fsync": "off", "work_mem": "much"}})
	require.ErrorContains(t, err, `invalid value for parameter "work_mem"`)
}

func TestFindBinariesReturnsADirectoryWithBothPrograms(t *testing.T) {
	t.Parallel()
	dir, err := FindBinaries()
	if err != nil { // then the other tests have downloaded one
		require.ErrorIs(t, err, ErrNoPostgres)
		return
	}
	require.FileExists(t, filepath.Join(dir, "initdb"))
	require.FileExists(t, filepath.Join(dir, "postgres"))
}

func firstLine(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	line, _, _ := strings.Cut(string(content), "\n")
	return line
}

func TestConcurrentCallsCreateADatabaseOnce(t *testing.T) {
	t.Parallel()
	server := start(t, Config{DataDir: tempDir(t)})
	asked := make(chan error)
	for range 4 {
		go func() { asked <- server.EnsureDatabase(t.Context(), "ledger") }()
	}
	for range 4 {
		require.NoError(t, <-asked)
	}
}
