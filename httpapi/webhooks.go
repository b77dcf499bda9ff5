package httpapi

import (
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// Webhook is one type of event that the service sends to webhook endpoints.
type Webhook struct {
	Type        string // for example message.received
	Summary     string
	Description string // Markdown
	// Body is an example. The schema is that of its type.
	Body any
}

// webhookHeaders are the headers of the Standard Webhooks specification.
var webhookHeaders = []struct{ name, doc string }{
	{"webhook-id", "The event's id; the same on every attempt and replay"},
	{"webhook-timestamp", "When this attempt was made, in Unix seconds"},
	{"webhook-signature", "HMAC-SHA256 over id.timestamp.body: v1 and the signature in base64 with a comma between; two of them, with a space between, for 24 hours after the secret was rotated"},
}

// Webhook adds a type of event to the OpenAPI document.
func (a *API) Webhook(w Webhook) {
	document := a.huma.OpenAPI()
	if document.Webhooks == nil {
		document.Webhooks = map[string]*huma.PathItem{}
	}
	kind := reflect.TypeOf(w.Body)
	op := &huma.Operation{
		OperationID: "webhook_" + strings.ReplaceAll(w.Type, ".", "_"), Summary: w.Summary, Description: w.Description, Tags: []string{"webhooks"},
		Security: []map[string][]string{},
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			"application/json": {Schema: a.registry.Schema(kind, true, "Webhook"+strings.ReplaceAll(w.Type, ".", "_")), Example: w.Body},
		}},
		Responses: map[string]*huma.Response{
			"2XX": {Description: "The event was taken. Any other answer, or none within 15 seconds, is an attempt that failed."},
			"410": {Description: "The endpoint is disabled at once."},
		},
	}
	markNullable(a.registry, kind, map[reflect.Type]bool{})
	for _, h := range webhookHeaders {
		op.Parameters = append(op.Parameters, &huma.Param{Name: h.name, In: "header", Required: true, Description: h.doc, Schema: &huma.Schema{Type: huma.TypeString}})
	}
	document.Webhooks[w.Type] = &huma.PathItem{Post: op}
}
