package crash

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"ledgerline/localpg"
)

// database is the name of a trial's database.
const database = "ledgerline"

// server is a trial's PostgreSQL, always on the same port and the same data.
type server struct {
	dir     string
	port    int
	running *localpg.Server
}

// durable are settings with which a kill loses no committed transaction. Frequent checkpoints make kills hit recovery
// in all its phases.
var durable = map[string]string{
	"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "max_wal_size": "256MB", "checkpoint_timeout": "30s",
	"shared_buffers": "128MB",
}

// start starts the server; its recovery may take a while.
func (s *server) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	started, err := localpg.Start(ctx, localpg.Config{DataDir: filepath.Join(s.dir, "postgres"), Port: s.port, Settings: durable})
	if err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	s.running, s.port = started, started.Port()
	return nil
}

// kill ends the postmaster and all its children at the same moment, like a power failure. The postmaster is stopped
// with SIGSTOP first: otherwise it would notice the first dead child, shut down the others in order, and begin
// recovery.
func (s *server) kill() error {
	pid := s.running.PID()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("hold PostgreSQL: %w", err)
	}
	children, err := childrenOf(pid)
	for _, child := range append(children, pid) { // a child's id stays its own until the postmaster, which is held, has waited for it
		if killErr := syscall.Kill(child, syscall.SIGKILL); killErr != nil && child == pid {
			return fmt.Errorf("kill PostgreSQL: %w", killErr)
		}
	}
	if err != nil {
		return fmt.Errorf("find PostgreSQL's processes: %w", err)
	}
	<-s.running.Done()
	return nil
}

func (s *server) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_ = s.running.Stop(ctx)
}

func (s *server) dsn() string { return s.running.DSN(database) }
