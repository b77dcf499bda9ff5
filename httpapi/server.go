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

// NewServer gives a handler the timeouts that keep slow and idle clients from holding connections. Downloads lift the
// write timeout for themselves. logger gets what the server itself complains about; slog.Default() when nil.
func NewServer(handler http.Handler, logger *slog.Logger) *http.Server {
	if logger == nil {
		logger = slog.Default()
	}
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       60 * time.Second, // an import of 32 MiB over a slow line
		WriteTimeout:      90 * time.Second, // counted from the end of the header, so more than reading may take
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
}

// Serve runs a server until ctx ends, then lets running requests finish for at most grace. It returns nil after a clean
// shutdown.
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
		_ = server.Close() // what is still running has had its time
		err = fmt.Errorf("shut down %s: %w", listener.Addr(), err)
	}
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		return errors.Join(err, served)
	}
	return err
}
