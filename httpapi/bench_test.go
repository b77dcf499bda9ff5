package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"

	"ledgerline/httpapi"
)

// sink is a ResponseWriter that discards everything.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }

type body struct{ bytes.Reader }

func (*body) Close() error { return nil }

// BenchmarkRequest measures what all endpoints share: authentication, rate limit, access, reading and checking the
// body, decoding, and the answer. The endpoints themselves do nothing.
func BenchmarkRequest(b *testing.B) {
	api, _, _ := newAPI(b, func(c *httpapi.Config) { c.AccessLog, c.Limiter = false, &recordingLimiter{} })
	type messageIn struct {
		Body struct {
			To         string            `json:"to" maxLength:"32"`
			Body       string            `json:"body" maxLength:"2000"`
			ExternalID string            `json:"external_id,omitempty" maxLength:"255"`
			Fallback   bool              `json:"fallback,omitempty"`
			Metadata   map[string]string `json:"metadata,omitempty" maxProperties:"50"`
		}
	}
	httpapi.Write(api, httpapi.Route{Method: "POST", Path: "/v1/messages", ID: "send", Access: anybody(), Status: 201, Sending: true},
		func(_ context.Context, _ *httpapi.Call, in *messageIn) (httpapi.WriteResult, error) {
			return httpapi.WriteResult{Body: thing{ID: "msg_1", Name: in.Body.To}, BodyStored: true}, nil
		}, func(context.Context, *httpapi.Call, httpapi.WriteResult) (thing, error) { return thing{}, nil })
	things(api, newRecords())
	bare := gin.New()
	bare.POST("/v1/messages", func(c *gin.Context) {
		var in messageIn
		if err := json.NewDecoder(c.Request.Body).Decode(&in.Body); err != nil {
			b.Fatal(err)
		}
		c.JSON(http.StatusCreated, thing{ID: "msg_1", Name: in.Body.To})
	})
	on := func(handler http.Handler, method, path, key string, payload []byte) func(*testing.B) {
		return func(b *testing.B) {
			request, err := http.NewRequestWithContext(b.Context(), method, path, nil)
			if err != nil {
				b.Fatal(err)
			}
			request.RemoteAddr = "192.0.2.1:1234"
			request.Header.Set("authorization", "Bearer all")
			request.Header.Set("content-type", "application/json")
			if key != "" {
				request.Header.Set("idempotency-key", key)
			}
			b.ReportAllocs()
			for b.Loop() {
				reader := &body{}
				reader.Reset(payload)
				request.Body, request.ContentLength = io.ReadCloser(reader), int64(len(payload))
				writer := &sink{header: make(http.Header, 8)}
				handler.ServeHTTP(writer, request)
				if writer.status >= 300 {
					b.Fatal(writer.status)
				}
			}
		}
	}
	message := []byte(`{"to":"+12125550123","body":"Your order has left the house and will be with you tomorrow between nine and noon.","external_id":"order-4711","metadata":{"order":"4711"}}`)
	b.Run("bare gin post", on(bare, "POST", "/v1/messages", "", message))
	b.Run("get", on(api.Handler(), "GET", "/v1/things/thg_1234", "", nil))
	b.Run("post", on(api.Handler(), "POST", "/v1/messages", "", message))
	b.Run("post with key", on(api.Handler(), "POST", "/v1/messages", "k1", message))
}
