package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// ReadinessReason is the error of a readiness check whose text /readyz shows. The text must contain nothing secret.
type ReadinessReason struct{ Text string }

func (r *ReadinessReason) Error() string { return r.Text }

// readyTimeout bounds all readiness checks together.
const readyTimeout = 2 * time.Second

// serveHealth adds /healthz, /readyz and /metrics (rule API-31). On a listener that clients reach, the two that cost
// something are limited by address.
func (a *API) serveHealth() {
	a.ops.GET("/healthz", func(c *gin.Context) { c.JSON(http.StatusOK, map[string]string{"status": "ok"}) })
	routes := a.ops.Group("/")
	if !a.cfg.SeparateOps {
		routes.Use(a.LimitAddress)
	}
	routes.GET("/readyz", a.ready)
	metrics := promhttp.HandlerFor(a.cfg.Metrics, promhttp.HandlerOpts{})
	routes.GET("/metrics", func(c *gin.Context) { metrics.ServeHTTP(c.Writer, c.Request) })
}

// ready answers 200 when all readiness checks pass, else 503. It names the checks that failed. Concurrent requests
// share one run of the checks.
func (a *API) ready(c *gin.Context) {
	shared, _, _ := a.readiness.Do("", func() (any, error) { return a.runChecks(c.Request.Context()), nil }) //nolint:errcheck // there is none
	results, _ := shared.(map[string]string)
	status, state := http.StatusOK, "ok"
	for _, result := range results {
		if result != "ok" {
			status, state = http.StatusServiceUnavailable, "failing"
		}
	}
	c.JSON(status, map[string]any{"status": state, "checks": results})
}

// runChecks runs the readiness checks and returns their results by name.
func (a *API) runChecks(ctx context.Context) map[string]string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout) // other requests wait for the results too
	defer cancel()
	a.mu.RLock()
	checks := a.checks
	a.mu.RUnlock()
	results := map[string]string{}
	for _, one := range checks {
		results[one.name] = "ok"
		if err := one.run(ctx); err != nil {
			results[one.name] = "failing"
			if reason := (*ReadinessReason)(nil); errors.As(err, &reason) {
				results[one.name] += ": " + reason.Text
			}
			a.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "httpapi: readiness check failed", slog.String("check", one.name), slog.Any("error", err))
		}
	}
	return results
}
