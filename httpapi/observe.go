package httpapi

import (
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"ledgerline/domain/fault"
)

const requestIDKey = "request_id"

// newRequestID is req_ and a UUIDv7 in hexadecimal. It is always ours: a client's own x-request-id would let it write
// into our logs, and name its request like somebody else's.
func newRequestID() string {
	id, err := uuid.NewV7()
	if err != nil { // the system has no randomness left
		panic(err)
	}
	var text [4 + 32]byte
	copy(text[:], "req_")
	hex.Encode(text[4:], id[:])
	return string(text[:])
}

func requestID(c *gin.Context) string { return c.GetString(requestIDKey) }

// unobserved routes are called by machines every few seconds.
var unobserved = map[string]bool{"/healthz": true, "/readyz": true, "/metrics": true}

// observe is the outermost middleware: request id and security headers before, log, metrics and trace after.
func (a *API) observe() (gin.HandlerFunc, error) {
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "ledgerline", Subsystem: "http", Name: "request_duration_seconds",
		Help:    "Time from the first byte of a request's header to the end of its answer.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}, []string{"route", "method"})
	total := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "ledgerline", Subsystem: "http", Name: "requests_total",
		Help: "Requests by route, method and status.",
	}, []string{"route", "method", "status"})
	for _, collector := range []prometheus.Collector{seconds, total} {
		if err := a.cfg.Metrics.Register(collector); err != nil {
			return nil, fmt.Errorf("httpapi: register metrics: %w", err)
		}
	}
	return func(c *gin.Context) {
		route, method := c.FullPath(), knownMethod(c.Request.Method)
		shown := route
		if shown == "" {
			shown = "unmatched" // the path itself may be anything, and may hold personal data
		}
		timer := prometheus.NewTimer(seconds.WithLabelValues(shown, method))
		id := newRequestID()
		c.Set(requestIDKey, id)
		secure(c.Writer.Header(), id)
		if a.cfg.Tracing && !unobserved[route] {
			trace(c, shown, id)
		} else {
			c.Next()
		}
		if unobserved[route] {
			return
		}
		took, status := timer.ObserveDuration(), c.Writer.Status()
		total.WithLabelValues(shown, method, strconv.Itoa(status)).Inc()
		if a.cfg.AccessLog {
			a.cfg.Logger.LogAttrs(c.Request.Context(), slog.LevelInfo, "request",
				slog.String("method", method), slog.String("route", shown), slog.Int("status", status),
				slog.Float64("duration_ms", float64(took.Microseconds())/1000), slog.String("request_id", id))
		}
	}, nil
}

// knownMethod keeps what a client makes up out of the metrics.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete, http.MethodPut, http.MethodHead, http.MethodOptions:
		return method
	}
	return "other"
}

var (
	noSniff    = []string{"nosniff"}
	noReferrer = []string{"no-referrer"}
	noStore    = []string{"no-store"}
	noContent  = []string{"default-src 'none'; frame-ancestors 'none'"}
)

// secure sets the headers of every answer. The map is written directly: the names are canonical, the values shared.
func secure(header http.Header, id string) {
	header[headerRequestID] = []string{id}
	header["X-Content-Type-Options"] = noSniff
	header["Referrer-Policy"] = noReferrer
	header["Cache-Control"] = noStore
	header["Content-Security-Policy"] = noContent
}

// recover answers 500 for a panic and logs it once, with where it happened. What was thrown is logged only when it is an
// error, because anything else may be a request's own data.
func (a *API) recover(c *gin.Context) {
	defer func() {
		thrown := recover()
		if thrown == nil {
			return
		}
		err, isError := thrown.(error)
		if isError && errors.Is(err, http.ErrAbortHandler) {
			panic(thrown) // the way to break a connection off
		}
		if !isError {
			err = fmt.Errorf("a panic with a %T", thrown)
		}
		a.cfg.Logger.LogAttrs(c.Request.Context(), slog.LevelError, "panic",
			slog.String("request_id", requestID(c)), slog.String("method", c.Request.Method), slog.String("route", c.FullPath()),
			slog.Any("error", err), slog.String("stack", string(debug.Stack())))
		if c.Writer.Written() {
			panic(http.ErrAbortHandler) // half an answer must not look whole
		}
		f := fault.New(fault.Internal, "Something went wrong on our side.")
		a.answerFault(c, f, errorBody(f, requestID(c)))
	}()
	c.Next()
}
