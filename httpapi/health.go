package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// readyTimeout bounds all readiness checks together.
const readyTimeout = 2 * time.Second

// serveHealth adds /healthz, /readyz and /metrics (rule API-31).
func (a *API) serveHealth() {
	a.engine.GET("/healthz", func(c *gin.Context) { c.JSON(http.StatusOK, map[string]string{"status": "ok"}) })
	a.engine.GET("/readyz", a.ready)
	metrics := promhttp.HandlerFor(a.cfg.Metrics, promhttp.HandlerOpts{})
	a.engine.GET("/metrics", func(c *gin.Context) { metrics.ServeHTTP(c.Writer, c.Request) })
}

// ready answers 200 when all readiness checks pass, else 503. It names the checks that failed.
func (a *API) ready(c *gin.Context) {
	ctx, cancel := context.WithTimeout(c.Request.Context(), readyTimeout)
	defer cancel()
	a.mu.RLock()
	checks := a.checks
	a.mu.RUnlock()
	status, results := http.StatusOK, map[string]string{}
	for _, one := range checks {
		results[one.name] = "ok"
		if err := one.run(ctx); err != nil {
			status, results[one.name] = http.StatusServiceUnavailable, "failing"
			a.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "httpapi: readiness check failed", slog.String("check", one.name), slog.Any("error", err))
		}
	}
	state := "ok"
	if status != http.StatusOK {
		state = "failing"
	}
	c.JSON(status, map[string]any{"status": state, "checks": results})
}
