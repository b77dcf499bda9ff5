package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"ledgerline/clock"
	"ledgerline/eventstore"
	"ledgerline/service"
)

// nodeConfig is what a node reads from its standard input, one line of JSON. The end of that input ends the node, so
// that it never outlives the trial.
type nodeConfig struct {
	DSN     string        `json:"dsn"`
	Keyring string        `json:"keyring"` // file
	Ahead   time.Duration `json:"ahead"`   // how far the service's clock is ahead of real time
	Lease   time.Duration `json:"lease"`
}

// nodeAddress is what a node writes to its standard output when it serves, one line of JSON.
type nodeAddress struct {
	API     string `json:"api"`
	Control string `json:"control"`
}

// Node runs the service as a trial's process: everything in one node on a database, on loopback addresses, with a
// clock that the trial moves. It returns when stdin ends.
func Node(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	var cfg nodeConfig
	decoder := json.NewDecoder(stdin)
	if err := decoder.Decode(&cfg); err != nil {
		return fmt.Errorf("crash: the node's configuration: %w", err)
	}
	text, err := os.ReadFile(cfg.Keyring)
	if err != nil {
		return fmt.Errorf("crash: the node's keyring: %w", err)
	}
	ring, err := eventstore.ParseKeyring(text)
	if err != nil {
		return err
	}
	moved := &movedClock{Movable: clock.Running()}
	if err := moved.to(cfg.Ahead); err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	n, err := service.Start(ctx, service.Config{
		DSN: cfg.DSN, Migrate: true, Keyring: ring, Clock: moved.Movable, Roles: service.All, Logger: logger, Lease: cfg.Lease, Version: "crash",
	})
	if err != nil {
		return err
	}
	defer n.Stop()
	api, err := serve(ctx, n.Handler())
	if err != nil {
		return err
	}
	defer api.close() //nolint:contextcheck // bounded by itself
	control, err := serve(ctx, controls(n, moved))
	if err != nil {
		return err
	}
	defer control.close() //nolint:contextcheck // bounded by itself
	if err := json.NewEncoder(stdout).Encode(nodeAddress{api.url, control.url}); err != nil {
		return fmt.Errorf("crash: write the node's address: %w", err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(io.Discard, decoder.Buffered())
		_, _ = io.Copy(io.Discard, stdin)
	}()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return nil
	case err := <-n.Failed():
		return err
	}
}

// movedClock is a clock that is ahead of real time by a duration.
type movedClock struct {
	*clock.Movable
	mu    sync.Mutex
	ahead time.Duration
}

// to moves the clock forward until it is this far ahead. Repeated calls do nothing.
func (m *movedClock) to(ahead time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.Advance(max(0, ahead-m.ahead))
	m.ahead = max(ahead, m.ahead)
	return err
}

// controls serves the trial's own requests to a node: moving the clock, and listing what the simulator accepted.
func controls(n *service.Node, moved *movedClock) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /clock", func(w http.ResponseWriter, r *http.Request) {
		ahead, err := time.ParseDuration(r.URL.Query().Get("ahead"))
		if err == nil {
			err = moved.to(ahead)
		}
		answerControl(w, err)
	})
	mux.HandleFunc("GET /simulator", func(w http.ResponseWriter, r *http.Request) {
		var seen simulated
		var err error
		if seen.Sends, seen.Duplicates, err = n.Simulator.Sends(r.Context()); err == nil {
			seen.Messages, err = n.Simulator.List(r.Context())
		}
		if err == nil {
			err = json.NewEncoder(w).Encode(seen)
		}
		answerControl(w, err)
	})
	return mux
}

func answerControl(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
}

type served struct {
	url    string
	server *http.Server
}

func serve(ctx context.Context, handler http.Handler) (*served, error) {
	var cfg net.ListenConfig
	listener, err := cfg.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("crash: listen: %w", err)
	}
	s := &served{"http://" + listener.Addr().String(), &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}}
	go func() {
		if err := s.server.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
			slog.Error("crash: the node's server has ended", "error", err)
		}
	}()
	return s, nil
}

func (s *served) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = s.server.Shutdown(ctx)
}
