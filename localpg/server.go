package localpg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// roleName is the cluster's only role, a superuser.
const roleName = "ledgerline"

// How long a server may take to end before it is told more firmly.
const (
	fastStopLimit      = 30 * time.Second
	immediateStopLimit = 10 * time.Second
)

// Config says which server to start.
type Config struct {
	// DataDir is the server's own directory; it is made when missing, its parents too.
	DataDir string
	// Port on 127.0.0.1; 0 chooses a free one.
	Port int
	// Settings are PostgreSQL's own, over the package's defaults. fsync=off also creates the cluster without syncing.
	Settings map[string]string
	// Progress gets one short line before each thing that takes a moment. May be nil.
	Progress func(string)
	// Reuse adopts the server that another process runs on the same directory instead of refusing with InUseError.
	Reuse bool
}

// Server is a running server, owned or adopted.
type Server struct {
	dir      directory
	port     int
	password string
	pid      int
	process  *process      // nil when adopted
	ended    chan struct{} // closed when the process is gone and its directory free; nil when adopted
}

// Start starts the server and returns when it accepts connections. ctx bounds the starting alone. It may be called at the
// same time by several processes; one of them owns the server. Errors that a caller may tell apart: InUseError,
// PortTakenError, VersionError and ErrNoPostgres; their messages say what to do.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.DataDir == "" {
		return nil, errors.New("localpg: a data directory is needed")
	}
	if cfg.Progress == nil {
		cfg.Progress = func(string) {}
	}
	dir, err := openDirectory(ctx, cfg.DataDir, systemBase, cfg.Progress)
	if err != nil {
		return nil, err
	}
	for {
		lock, err := dir.lock()
		if err == nil {
			server, err := startOwned(ctx, dir, cfg, lock)
			if err != nil {
				_ = lock.Close()
			}
			return server, err
		}
		var inUse *InUseError
		if !errors.As(err, &inUse) || !cfg.Reuse {
			return nil, err
		}
		if server, ok := adopt(dir); ok {
			return server, nil
		}
		// The owner is starting or stopping its server: soon there is one to adopt, or none and the lock is free.
		if err := pause(ctx); err != nil {
			return nil, fmt.Errorf("localpg: waiting for the server of process %d: %w", inUse.PID, err)
		}
	}
}

// adopt uses the server of the process that holds the lock; false while that is not ready.
func adopt(dir directory) (*Server, bool) {
	pm, err := readPostmaster(dir.data())
	if err != nil || !pm.ready || !alive(pm.pid) {
		return nil, false
	}
	password, err := dir.password()
	if err != nil {
		return nil, false
	}
	return &Server{dir: dir, port: pm.port, password: password, pid: pm.pid}, true
}

// startOwned starts a server of our own. On success the lock belongs to the server's process and is released when that
// ends.
func startOwned(ctx context.Context, dir directory, cfg Config, lock *os.File) (*Server, error) {
	if err := dir.endOrphan(ctx, cfg.Progress); err != nil {
		return nil, err
	}
	bin, err := binariesFor(ctx, dir, cfg.Progress)
	if err != nil {
		return nil, err
	}
	password, err := dir.create(ctx, bin, cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Port != 0 {
		if err := portFree(ctx, cfg.Port); err != nil {
			return nil, err
		}
	}
	cfg.Progress("starting PostgreSQL " + bin.version)
	proc, port, err := dir.launch(ctx, bin, cfg)
	if err != nil {
		return nil, err
	}
	server := &Server{dir: dir, port: port, password: password, pid: proc.pid, process: proc, ended: make(chan struct{})}
	go func() {
		<-proc.done
		_ = lock.Close()
		close(server.ended)
	}()
	return server, nil
}

// DSN is the address of a database on the server, with the password in it: it is a secret.
func (s *Server) DSN(dbname string) string {
	return (&url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(roleName, s.password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)),
		Path:     "/" + dbname,
		RawQuery: "sslmode=disable",
	}).String()
}

// EnsureDatabase makes the database when it is missing.
func (s *Server) EnsureDatabase(ctx context.Context, dbname string) error {
	conn, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		return fmt.Errorf("localpg: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var exists bool
	const existsSQL = `select exists (select from pg_database where datname = $1)`
	if err := conn.QueryRow(ctx, existsSQL, dbname).Scan(&exists); err != nil {
		return fmt.Errorf("localpg: look for database %s: %w", dbname, err)
	}
	if exists {
		return nil
	}
	_, err = conn.Exec(ctx, `create database `+pgx.Identifier{dbname}.Sanitize())
	if madeMeanwhile(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("localpg: create database %s: %w", dbname, err)
	}
	return nil
}

// madeMeanwhile tells that another process made the database between the question and the answer.
func madeMeanwhile(err error) bool {
	refused := (*pgconn.PgError)(nil)
	return errors.As(err, &refused) && (refused.Code == "42P04" || refused.Code == "23505")
}

// PID is the postmaster's process id.
func (s *Server) PID() int { return s.pid }

// Port is where the server listens on 127.0.0.1.
func (s *Server) Port() int { return s.port }

// Dir is the server's directory with symbolic links resolved.
func (s *Server) Dir() string { return s.dir.root }

// LogFile is the file that the server writes its log to.
func (s *Server) LogFile() string { return s.dir.logFile() }

// Adopted tells that another process owns the server; Stop leaves it alone then.
func (s *Server) Adopted() bool { return s.process == nil }

// Done is closed when the server has ended, by Stop or by itself. For an adopted server it is nil and never fires.
func (s *Server) Done() <-chan struct{} { return s.ended }

// Stop ends the server and returns when its process is gone: open transactions are rolled back, everything committed is
// written out. A server that does not end within half a minute, or before ctx does, is ended at once; the next start then
// recovers from its log. An adopted server is left running. A second Stop does nothing.
func (s *Server) Stop(ctx context.Context) error {
	if s.process == nil {
		return nil
	}
	hurry := ctx.Done()
	for _, step := range []struct {
		signal syscall.Signal
		limit  time.Duration
	}{{syscall.SIGINT, fastStopLimit}, {syscall.SIGQUIT, immediateStopLimit}, {syscall.SIGKILL, immediateStopLimit}} {
		// A process that has been waited for has given up its id.
		if !s.process.running() {
			<-s.ended
			return nil
		}
		if err := syscall.Kill(s.pid, step.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("localpg: stop process %d: %w", s.pid, err)
		}
		limit := time.NewTimer(step.limit)
		select {
		case <-s.ended:
			limit.Stop()
			return nil
		case <-limit.C:
		case <-hurry:
			limit.Stop()
			hurry = nil // the firmer steps have their own limits
		}
	}
	return fmt.Errorf("localpg: process %d does not end", s.pid)
}

// portFree reports PortTakenError when something listens on the port already.
func portFree(ctx context.Context, port int) error {
	var cfg net.ListenConfig
	listener, err := cfg.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return &PortTakenError{Port: port}
	}
	if err != nil {
		return fmt.Errorf("localpg: port %d: %w", port, err)
	}
	return listener.Close()
}

// freePort chooses a port that nobody listens on at this moment.
func freePort(ctx context.Context) (int, error) {
	var cfg net.ListenConfig
	listener, err := cfg.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("localpg: choose a port: %w", err)
	}
	defer func() { _ = listener.Close() }()
	addr, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return 0, fmt.Errorf("localpg: choose a port: unexpected address %s", listener.Addr())
	}
	return addr.Port, nil
}

// pause waits a moment between two looks at something that has no other way to tell.
func pause(ctx context.Context) error {
	timer := time.NewTimer(20 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// shortPath is a path for messages: relative where that is shorter.
func shortPath(path string) string {
	wd, err := os.Getwd()
	if err != nil {
		return path
	}
	rel, err := filepath.Rel(wd, path)
	if err != nil || len(rel) >= len(path) {
		return path
	}
	return rel
}
