// Package testpg gives every test a PostgreSQL database of its own.
package testpg

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"ledgerline/localpg"
	"ledgerline/migrations"
)

// databaseURLEnv names an existing server to test on in place of a private one. Its user must be allowed to create
// databases.
const databaseURLEnv = "DATABASE_URL_TEST"

// templateName is the migrated database that the tests' databases are copied from.
const templateName = "ledgerline_template"

// startLimit bounds the start of the server, including its download.
const startLimit = 5 * time.Minute

// testSettings trade durability for speed: the data of a test server is thrown away. They allow many tests at once.
var testSettings = map[string]string{
	"fsync":              "off",
	"synchronous_commit": "off",
	"full_page_writes":   "off",
	"max_connections":    "400",
	"shared_buffers":     "128MB",
	"max_wal_size":       "1GB",
}

// Migrate brings a database to the newest schema. It runs once, on the template.
var Migrate func(ctx context.Context, dsn string) error = migrations.Up

// testServer is the PostgreSQL server of this test binary.
type testServer struct {
	dsn      func(dbname string) string
	template bool      // there is a template; not on an existing server, where it would never be dropped
	reaper   io.Closer // referenced, so that its input is closed by the end of the process and not by the garbage collector
}

// sharedServer starts the server of the binary once, when the first test needs it.
var sharedServer = sync.OnceValues(func() (*testServer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	if dsn := os.Getenv(databaseURLEnv); dsn != "" {
		return existingServer(ctx, dsn)
	}
	return privateServer(ctx)
})

var databases atomic.Int64

// Database returns the DSN of a database for this test, migrated and empty, on a real PostgreSQL, and drops it when
// the test ends, even if connections are open. The server belongs to the test binary and ends with it, however that
// ends; DATABASE_URL_TEST names an existing one instead. Without a server the test fails.
func Database(t testing.TB) (dsn string) {
	t.Helper()
	return database(t, true)
}

// EmptyDatabase is Database without the schema.
func EmptyDatabase(t testing.TB) (dsn string) {
	t.Helper()
	return database(t, false)
}

func database(t testing.TB, migrated bool) string {
	t.Helper()
	server, err := sharedServer()
	if err != nil {
		t.Fatalf("testpg: no PostgreSQL to test on: %v", err)
	}
	// The name is unique also among the binaries that share an existing server.
	name := fmt.Sprintf("test_%d_%d_%d", os.Getpid(), time.Now().UnixNano(), databases.Add(1))
	statement := "create database " + name
	if migrated && server.template {
		statement += " template " + templateName
	}
	if err := server.exec(t.Context(), statement); err != nil {
		t.Fatalf("testpg: %v", err)
	}
	t.Cleanup(func() {
		// With force, so that a connection that a test left open does not fail the test.
		if err := server.exec(context.WithoutCancel(t.Context()), "drop database if exists "+name+" with (force)"); err != nil {
			t.Errorf("testpg: %v", err)
		}
	})
	dsn := server.dsn(name)
	if migrated && !server.template {
		if err := Migrate(t.Context(), dsn); err != nil {
			t.Fatalf("testpg: migrate: %v", err)
		}
	}
	return dsn
}

// exec runs one statement on the server's maintenance database.
func (s *testServer) exec(ctx context.Context, statement string) error {
	conn, err := pgx.Connect(ctx, s.dsn("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// existingServer uses the server of DATABASE_URL_TEST, which must be a URL.
func existingServer(ctx context.Context, dsn string) (*testServer, error) {
	address, err := url.Parse(dsn)
	if err != nil || address.Scheme == "" {
		return nil, fmt.Errorf("%s is not a URL of the form postgres://user:password@host:port/database", databaseURLEnv)
	}
	server := &testServer{dsn: func(dbname string) string {
		other := *address
		other.Path = "/" + dbname
		return other.String()
	}}
	if err := server.exec(ctx, "select 1"); err != nil {
		return nil, err
	}
	return server, nil
}

// privateServer starts a server in a temporary directory and creates the template.
func privateServer(ctx context.Context) (*testServer, error) {
	dir, err := os.MkdirTemp(baseDir(), "ledgerline-test-")
	if err != nil {
		return nil, err
	}
	// A server that runs as another user must be able to traverse the directory.
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // see above
		return nil, err
	}
	started, err := localpg.Start(ctx, localpg.Config{
		DataDir:  filepath.Join(dir, "postgres"),
		Settings: testSettings,
		Progress: func(line string) {
			if strings.HasPrefix(line, "downloading") { // the only step that takes long
				fmt.Fprintln(os.Stderr, "testpg:", line)
			}
		},
	})
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	reaper, err := reap(started, dir) //nolint:contextcheck // outlives the start, and this process
	if err != nil {
		return nil, err
	}
	if err := started.EnsureDatabase(ctx, templateName); err != nil {
		return nil, err
	}
	if err := Migrate(ctx, started.DSN(templateName)); err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	return &testServer{dsn: started.DSN, template: true, reaper: reaper}, nil
}

// memoryDir is Linux's directory for files in memory; minFreeMemory is how many bytes of it a test run needs.
const (
	memoryDir     = "/dev/shm"
	minFreeMemory = 2 << 30
)

// baseDir returns where the server's directory is created; "" is the system's temporary directory. It prefers memory: a
// test database has 300 files, which take 15 times longer on an ordinary disk (300 ms against 20 ms). TMPDIR overrides
// it.
func baseDir() string {
	var disk syscall.Statfs_t
	if os.Getenv("TMPDIR") != "" || syscall.Statfs(memoryDir, &disk) != nil || disk.Bavail*uint64(disk.Bsize) < minFreeMemory { //nolint:unconvert // the types differ between systems
		return "" // the system's temporary directory
	}
	return memoryDir
}

// reapScript waits until its input is closed, which happens when the test binary has ended, even killed or by a
// panic. Then it stops the server and removes its files.
const reapScript = `read -r _; kill -QUIT "$1"; while kill -0 "$1"; do sleep 0.1; done; shift; rm -rf "$@"`

// reap starts the script. Its input stays open as long as this process lives and the returned value is referenced.
func reap(server *localpg.Server, dir string) (io.Closer, error) {
	cmd := exec.CommandContext(context.Background(), "/bin/sh", "-c", reapScript, "sh", strconv.Itoa(server.PID()), server.Dir(), dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is for the tests
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("clean up after the tests: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("clean up after the tests: %w", err)
	}
	return input, nil
}
