package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// StartTracing sends spans to the OTLP endpoint that OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT
// names. on is false, and nothing is sent, when neither is set. stop sends the remaining spans.
func StartTracing(ctx context.Context, service, version string) (stop func(context.Context) error, on bool, err error) {
	none := func(context.Context) error { return nil }
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		return none, false, nil
	}
	exporter, err := otlptracehttp.New(ctx) // reads the rest of the OTEL_ variables itself
	if err != nil {
		return none, false, fmt.Errorf("trace exporter: %w", err)
	}
	described := resource.NewSchemaless(attribute.String("service.name", service), attribute.String("service.version", version))
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(described))
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	return provider.Shutdown, true, nil
}

// trace runs the rest of the request in a span. The span has the route instead of the path, and neither the client's
// address nor its user agent: the middleware of the OpenTelemetry project would add them.
func trace(c *gin.Context, route, id string) {
	method := knownMethod(c.Request.Method)
	before := c.Request
	ctx := otel.GetTextMapPropagator().Extract(before.Context(), propagation.HeaderCarrier(before.Header))
	ctx, span := otel.Tracer("ledgerline/httpapi").Start(ctx, method+" "+route,
		oteltrace.WithSpanKind(oteltrace.SpanKindServer),
		oteltrace.WithAttributes(attribute.String("http.request.method", method), attribute.String("http.route", route),
			attribute.String("ledgerline.request_id", id)))
	defer span.End()
	c.Request = before.WithContext(ctx)
	defer func() { c.Request = before }()
	c.Next()
	status := c.Writer.Status()
	span.SetAttributes(attribute.Int("http.response.status_code", status))
	if status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, http.StatusText(status))
	}
}
