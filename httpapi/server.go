package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// NewServer makes a server with timeouts that keep slow and idle clients from holding connections. Downloads remove the
// write timeout for themselves. logger receives the server's own warnings; slog.Default() when nil.
func NewServer(handler http.Handler, logger *slog.Logger) *http.Server {
	if logger == nil {
		logger = slog.Default()
	}
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       60 * time.Second, // enough for an import of 32 MiB over a slow connection
		WriteTimeout:      90 * time.Second, // counted from the end of the header, so it includes reading the body
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
}

// Serve runs a server until ctx ends, then waits up to grace for running requests. It returns nil after a clean
// shutdown, and an error when serving failed or requests had to be cut off.
func Serve(ctx context.Context, server *http.Server, listener net.Listener, grace time.Duration) error {
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err := server.Shutdown(drain)
	if err != nil {
		_ = server.Close() // cuts off what is still running
		err = fmt.Errorf("shut down %s: %w", listener.Addr(), err)
	}
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		return errors.Join(err, served)
	}
	return err
}
