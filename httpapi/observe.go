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

// The keys of what a request leaves in gin's context for observe.
const (
	requestIDKey = "request_id"
	callKey      = "call"       // *Call; of a request to an endpoint
	errorCodeKey = "error_code" // of a refusal
)

// newRequestID returns req_ and a UUIDv7 in hexadecimal. An x-request-id of the client is ignored: it could name the
// request like another one, and would put a client's text into the logs.
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

// unobserved routes are polled every few seconds by monitoring; they are not logged, counted or traced.
var unobserved = map[string]bool{"/healthz": true, "/readyz": true, "/metrics": true}

// observe returns the outermost middleware: it sets the request id and the security headers, then logs, counts and
// traces the request.
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
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "ledgerline", Subsystem: "http", Name: "refusals_total",
		Help: "Refused requests by error code.",
	}, []string{"code"})
	for _, collector := range []prometheus.Collector{seconds, total, refused} {
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
		code := c.GetString(errorCodeKey)
		if code != "" {
			refused.WithLabelValues(code).Inc()
		}
		if a.cfg.AccessLog {
			attrs := append(make([]slog.Attr, 0, 10), slog.String("method", method), slog.String("route", shown), slog.Int("status", status),
				slog.Float64("duration_ms", float64(took.Microseconds())/1000), slog.String("request_id", id))
			a.cfg.Logger.LogAttrs(c.Request.Context(), slog.LevelInfo, "httpapi: request", a.accessAttrs(c, attrs, code)...)
		}
	}, nil
}

// accessAttrs adds to the attributes of a line of the access log who made the request and why it was refused. Only ids
// are added, and the client's address only where the operator asked for it.
func (a *API) accessAttrs(c *gin.Context, attrs []slog.Attr, code string) []slog.Attr {
	if call, ok := c.Value(callKey).(*Call); ok && call.ID != "" {
		attrs = append(attrs, slog.String("caller", call.Actor()))
		if call.WorkspaceID != uuid.Nil {
			attrs = append(attrs, slog.String("workspace_id", call.WorkspaceID.String()))
		}
	}
	if code != "" {
		attrs = append(attrs, slog.String("code", code))
	}
	if a.cfg.LogAddresses {
		attrs = append(attrs, slog.String("address", address(c).String()))
	}
	return attrs
}

// knownMethod replaces methods that a client made up, which would each become a time series of the metrics.
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

// secure sets the security headers of an answer. It writes the map directly: the names are canonical, and the values
// are shared by all answers.
func secure(header http.Header, id string) {
	header[headerRequestID] = []string{id}
	header["X-Content-Type-Options"] = noSniff
	header["Referrer-Policy"] = noReferrer
	header["Cache-Control"] = noStore
	header["Content-Security-Policy"] = noContent
}

// recover answers 500 after a panic and logs it with its stack. The panic's value is logged only if it is an error,
// because anything else may be data of a request.
func (a *API) recover(c *gin.Context) {
	defer func() {
		thrown := recover()
		if thrown == nil {
			return
		}
		err, isError := thrown.(error)
		if isError && errors.Is(err, http.ErrAbortHandler) {
			panic(thrown) // the standard way to break a connection off
		}
		if !isError {
			err = fmt.Errorf("panic with a value of type %T", thrown)
		}
		a.cfg.Logger.LogAttrs(c.Request.Context(), slog.LevelError, "httpapi: panic",
			slog.String("request_id", requestID(c)), slog.String("method", c.Request.Method), slog.String("route", c.FullPath()),
			slog.Any("error", err), slog.String("stack", string(debug.Stack())))
		if c.Writer.Written() {
			panic(http.ErrAbortHandler) // a partial answer must not look complete
		}
		f := fault.New(fault.Internal, "Something went wrong on our side.")
		a.answerFault(c, f, errorBody(f, requestID(c)))
	}()
	c.Next()
}
