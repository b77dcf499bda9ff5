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

// How long Stop waits before it sends the next stronger signal.
const (
	fastStopLimit      = 30 * time.Second
	immediateStopLimit = 10 * time.Second
)

// Config is which server to start.
type Config struct {
	// DataDir is the server's directory. It is created with its parents if it is missing.
	DataDir string
	// Port on 127.0.0.1; 0 chooses a free one.
	Port int
	// Settings are PostgreSQL settings that override the defaults of this package. With fsync=off a new cluster is not
	// synced to disk either.
	Settings map[string]string
	// Progress is called with a short line before each step that takes a while. May be nil.
	Progress func(string)
	// Reuse uses (adopts) the server of another process on the same directory instead of returning *InUseError.
	Reuse bool
}

// Server is a running server. It is owned by this process, or adopted: owned by another process.
type Server struct {
	dir      directory
	port     int
	password string
	pid      int
	process  *process      // nil when adopted
	ended    chan struct{} // closed when the process has ended and the lock is released; nil when adopted
}

// Start starts the server and returns when it accepts connections. ctx limits the start, not the life of the server.
// Several processes may call it at the same time; one of them becomes the owner. It returns *InUseError,
// *PortTakenError, *VersionError, ErrNoPostgres or other errors; the messages of these say what the user can do.
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
		// The owner is starting or stopping its server. Soon it can be adopted, or the lock is free.
		if err := pause(ctx); err != nil {
			return nil, fmt.Errorf("localpg: waiting for the server of process %d: %w", inUse.PID, err)
		}
	}
}

// adopt returns the server of the process that holds the lock; false while it is not ready.
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

// startOwned starts a server that this process owns. On success the lock is kept until the server's process ends.
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

// DSN is the connection string of a database on the server. It is a secret: it contains the password.
func (s *Server) DSN(dbname string) string {
	return (&url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(roleName, s.password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)),
		Path:     "/" + dbname,
		RawQuery: "sslmode=disable",
	}).String()
}

// EnsureDatabase creates a database if it is missing. Several processes may call it at the same time.
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
	if alreadyExists(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("localpg: create database %s: %w", dbname, err)
	}
	return nil
}

// alreadyExists tells whether creating a database failed because another process has just created it.
func alreadyExists(err error) bool {
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

// Adopted tells whether another process owns the server. Stop does nothing then.
func (s *Server) Adopted() bool { return s.process == nil }

// Done is closed when the server has ended, by Stop or by itself. For an adopted server it is nil.
func (s *Server) Done() <-chan struct{} { return s.ended }

// Stop ends the server and returns when its process has ended. Open transactions are rolled back. A server that does
// not end within 30 seconds, or before ctx ends, is killed; the next start then recovers from the write-ahead log. An
// adopted server keeps running. A second Stop does nothing.
func (s *Server) Stop(ctx context.Context) error {
	if s.process == nil {
		return nil
	}
	cancelled := ctx.Done()
	for _, step := range []struct {
		signal syscall.Signal
		limit  time.Duration
	}{{syscall.SIGINT, fastStopLimit}, {syscall.SIGQUIT, immediateStopLimit}, {syscall.SIGKILL, immediateStopLimit}} {
		// The id of a process that has ended may belong to another process.
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
		case <-cancelled:
			limit.Stop()
			cancelled = nil // the stronger signals have limits of their own
		}
	}
	return fmt.Errorf("localpg: process %d does not end", s.pid)
}

// portFree returns *PortTakenError when a program listens on the port.
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

// freePort returns a port that no program listens on at this moment.
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

// pause waits between two polls.
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

// shortPath is a path for messages: relative to the working directory if that is shorter.
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
