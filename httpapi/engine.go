package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"ledgerline/domain/fault"
	"ledgerline/httpapi/auth"
)

// Config is what an API needs. Authenticator is required, Receipts too as soon as a write is registered.
type Config struct {
	Title       string // Ledgerline
	Version     string
	Description string
	BaseURL     string // of the documented server; none when empty

	Authenticator      auth.Authenticator
	IdempotencyRecords IdempotencyRecords
	Limiter            Limiter // nil counts nothing

	Logger *slog.Logger // slog.Default() when nil
	// AccessLog writes one line per request.
	AccessLog bool
	// Metrics collects the service's metrics and is served at /metrics; a new registry when nil.
	Metrics *prometheus.Registry
	// Tracing makes a span of every request with the global OpenTelemetry provider; see StartTracing.
	Tracing bool
	// TrustedProxies are addresses or networks whose X-Forwarded-For is believed. Nobody's by default.
	TrustedProxies []string
	// RequestTimeout ends everything but downloads; 30 s when 0, never when negative.
	RequestTimeout time.Duration
	// StallTimeout breaks a download off whose client has taken nothing for so long; a minute when 0.
	StallTimeout time.Duration
}

func (c *Config) fill() error {
	if c.Authenticator == nil {
		return errors.New("httpapi: no authenticator")
	}
	if c.Title == "" {
		c.Title = "Ledgerline"
	}
	if c.Version == "" {
		c.Version = "dev"
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Metrics == nil {
		c.Metrics = prometheus.NewRegistry()
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = 30 * time.Second
	}
	if c.StallTimeout == 0 {
		c.StallTimeout = time.Minute
	}
	return nil
}

// API is one HTTP interface: routes are registered on it with Read, Write and Stream, then it is served.
type API struct {
	cfg      Config
	engine   *gin.Engine
	huma     huma.API
	registry huma.Registry
	flights  flights
	later    *later
	routes   map[string]Route // by operation id

	mu     sync.RWMutex
	checks []check
}

type check struct {
	name string
	run  func(ctx context.Context) error
}

// New makes an API with its operational routes (/healthz, /readyz, /metrics, /openapi.json, /docs) and nothing else.
func New(cfg Config) (*API, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.HandleMethodNotAllowed = true
	engine.RedirectTrailingSlash = false
	engine.RemoteIPHeaders = []string{"X-Forwarded-For"}
	if err := engine.SetTrustedProxies(cfg.TrustedProxies); err != nil {
		return nil, fmt.Errorf("httpapi: trusted proxies: %w", err)
	}
	a := &API{cfg: cfg, engine: engine, routes: map[string]Route{}, later: newLater(cfg.IdempotencyRecords)}
	a.huma, a.registry = newHuma(cfg, engine)
	observed, err := a.observe()
	if err != nil {
		a.later.close()
		return nil, err
	}
	engine.Use(observed, a.recover)
	engine.NoRoute(func(c *gin.Context) { a.refuse(c, fault.New(fault.NotFound, "There is nothing here.")) })
	engine.NoMethod(func(c *gin.Context) { // gin has set Allow
		a.refuse(c, fault.New(fault.MethodNotAllowed, "This path does not take %s.", c.Request.Method))
	})
	a.serveOperations()
	a.serveDocs()
	return a, nil
}

// Handler serves the API.
func (a *API) Handler() http.Handler { return a.engine }

// Route finds a route by its operation id.
func (a *API) Route(id string) (Route, bool) {
	r, found := a.routes[id]
	return r, found
}

// Engine is the router, for routes that are no endpoints of the interface (the dev mode's). They get a request id,
// recovery, logs and metrics, and no authentication.
func (a *API) Engine() *gin.Engine { return a.engine }

// Refuse answers a request to such a route with an error, in the shape of every refusal.
func (a *API) Refuse(c *gin.Context, err error) { a.refuse(c, err) }

// Close waits until the answers that were given are stored. Call it when the server has stopped.
func (a *API) Close() { a.later.close() }

// AddReadinessCheck adds a condition of /readyz: the error's text is not shown, only the name.
func (a *API) AddReadinessCheck(name string, run func(ctx context.Context) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.checks = append(a.checks, check{name, run})
}
