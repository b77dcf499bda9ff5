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
	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"ledgerline/domain/fault"
	"ledgerline/httpapi/auth"
)

// Config configures an API. Authenticator is required; IdempotencyRecords too when a write is registered.
type Config struct {
	Title         string // of the documentation; "Ledgerline" when empty
	Version       string // of the documentation; "dev" when empty
	BaseURL       string // of the documented server; none when empty
	Documentation Documentation

	Authenticator      auth.Authenticator
	IdempotencyRecords IdempotencyRecords
	Limiter            Limiter // nil means no limits
	Requests           Requests

	Logger *slog.Logger // slog.Default() when nil
	// AccessLog writes one line per request.
	AccessLog bool
	// LogAddresses adds the client's address to the access log. It is personal data where clients are people.
	LogAddresses bool
	// Metrics is served at /metrics, and the API registers its own metrics there; a new registry when nil.
	Metrics *prometheus.Registry
	// Tracing records a span of every request with the global OpenTelemetry provider; see StartTracing.
	Tracing bool
	// SeparateOps leaves /healthz, /readyz and /metrics to OpsHandler.
	SeparateOps bool
	// TrustedProxies are addresses or networks whose X-Forwarded-For header is used; none by default.
	TrustedProxies []string
	// RequestTimeout bounds every request except downloads (rule API-27); 30 s when 0, unbounded when negative.
	RequestTimeout time.Duration
	// StallTimeout ends a download whose client has taken nothing for this long; a minute when 0.
	StallTimeout time.Duration
	// DownloadTimeout bounds a download as a whole; 15 minutes when 0.
	DownloadTimeout time.Duration
	// Classify converts an error that is not a fault into one; nil for an error that it does not know. Default: none is.
	Classify func(error) *fault.Fault
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
	if c.DownloadTimeout == 0 {
		c.DownloadTimeout = 15 * time.Minute
	}
	return nil
}

// API is one HTTP API. Register routes with Read, Write and Stream, then serve Handler.
type API struct {
	cfg          Config
	engine       *gin.Engine
	huma         huma.API
	registry     huma.Registry
	runningKeys  runningKeys
	recordBodies *recordBodies
	routes       map[string]Route // by operation id
	completed    sync.Once        // completeSchemas
	queues       queues
	callers      *lru.Cache[string, uuid.UUID] // the organisations of callers by auth.Identity.Key
	ops          *gin.Engine                   // serves health and metrics
	readiness    singleflight.Group

	mu     sync.RWMutex
	checks []check
}

type check struct {
	name string
	run  func(ctx context.Context) error
}

// New makes an API that serves /healthz, /readyz, /metrics, /openapi.json and /docs. Close it after the server stopped.
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
	a := &API{cfg: cfg, engine: engine, routes: map[string]Route{}, recordBodies: newRecordBodies(cfg.IdempotencyRecords), queues: newQueues(cfg.Requests)}
	a.callers, _ = lru.New[string, uuid.UUID](maxKnownCallers) // an error means a size below 1
	a.huma, a.registry = newHuma(cfg, engine)
	observed, err := a.observe()
	if err != nil {
		a.recordBodies.close()
		return nil, err
	}
	engine.Use(observed, a.recover)
	engine.NoRoute(func(c *gin.Context) { a.refuse(c, fault.New(fault.NotFound, "There is nothing here.")) })
	engine.NoMethod(func(c *gin.Context) { // gin has set Allow
		a.refuse(c, fault.New(fault.MethodNotAllowed, "This path does not take %s.", c.Request.Method))
	})
	a.ops = engine
	if cfg.SeparateOps {
		a.ops = gin.New()
		a.ops.Use(observed, a.recover)
	}
	a.serveHealth()
	a.serveDocs()
	return a, nil
}

// Handler returns the handler that serves the API. Call it when all routes are registered.
func (a *API) Handler() http.Handler {
	a.completed.Do(a.completeSchemas) // before the first request, because checking a request reads the schemas
	return a.engine
}

// OpsHandler returns the handler that serves /healthz, /readyz and /metrics. It is for a listener of its own, with
// Config.SeparateOps; otherwise it is Handler.
func (a *API) OpsHandler() http.Handler { return a.ops }

// Route returns the route with an operation id.
func (a *API) Route(id string) (Route, bool) {
	r, found := a.routes[id]
	return r, found
}

// Engine returns the router, for routes that are not endpoints, such as those of dev mode. They get a request id, panic
// recovery, logs and metrics, but no authentication.
func (a *API) Engine() *gin.Engine { return a.engine }

// Refuse answers a request to a route of Engine with an error, in the shape of all errors.
func (a *API) Refuse(c *gin.Context, err error) { a.refuse(c, err) }

// Close waits until all answers are in their idempotency records. Call it when the server has stopped.
func (a *API) Close() { a.recordBodies.close() }

// AddReadinessCheck adds a condition of /readyz, which shows its name, but not the text of its error unless that is a
// *ReadinessReason.
func (a *API) AddReadinessCheck(name string, run func(ctx context.Context) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.checks = append(a.checks, check{name, run})
}
