package httpapi

import (
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"ledgerline/httpapi/auth"
)

// operation documents an endpoint: its parameters and body come from in, its answer from out (nil for a download).
// Headers and errors are the same for all endpoints.
func (a *API) operation(e *endpoint, in, out reflect.Type) *huma.Operation {
	op := &huma.Operation{
		Method: e.Method, Path: e.Path, OperationID: e.ID, Summary: e.Summary, Description: e.description(), Tags: e.Tags,
		Deprecated:    e.Deprecated,
		DefaultStatus: e.status(),
		Responses:     map[string]*huma.Response{},
		// Huma gets a body that was read, measured and checked.
		MaxBodyBytes:     -1,
		SkipValidateBody: true,
	}
	if e.Access.PathToken {
		op.Security = []map[string][]string{{}}
	} else {
		op.Parameters = append(op.Parameters, workspaceParam())
	}
	if e.keyed {
		op.Parameters = append(op.Parameters, idempotencyParam())
	}
	errorSchema := a.registry.Schema(reflect.TypeFor[ErrorBody](), true, "Error")
	for _, status := range append(append([]int{}, commonErrors...), e.Errors...) {
		response := &huma.Response{
			Description: http.StatusText(status),
			Headers:     map[string]*huma.Param{"x-request-id": requestIDHeader()},
			Content:     map[string]*huma.MediaType{"application/json": {Schema: errorSchema}},
		}
		if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
			response.Headers["retry-after"] = textHeader("Seconds to wait", huma.TypeInteger)
		}
		if status == http.StatusUnauthorized {
			response.Headers["www-authenticate"] = textHeader("Bearer", huma.TypeString)
		}
		op.Responses[strconv.Itoa(status)] = response
	}
	success := &huma.Response{Description: http.StatusText(e.status()), Headers: map[string]*huma.Param{"x-request-id": requestIDHeader()}}
	switch {
	case out != nil:
		schema := a.registry.Schema(out, true, e.ID+"Response")
		markNullable(a.registry, out, map[reflect.Type]bool{})
		success.Content = map[string]*huma.MediaType{"application/json": {Schema: schema}}
	case e.contentType != "":
		success.Content = map[string]*huma.MediaType{e.contentType: {Schema: &huma.Schema{Type: huma.TypeString}}}
	}
	if e.write && !e.NoIdempotencyKey {
		success.Headers["idempotent-replayed"] = textHeader("true when this is the answer of an earlier request with the same key", huma.TypeString)
	}
	op.Responses[strconv.Itoa(e.status())] = success

	if e.DryRunAnswer != nil {
		schema := a.registry.Schema(e.DryRunAnswer, true, e.ID+"Rehearsal")
		markNullable(a.registry, e.DryRunAnswer, map[reflect.Type]bool{})
		op.Responses["200"] = &huma.Response{
			Description: "What would happen (dry_run=true)", Headers: map[string]*huma.Param{"x-request-id": requestIDHeader()},
			Content: map[string]*huma.MediaType{"application/json": {Schema: schema}},
		}
	}
	if field, ok := in.FieldByName("Body"); ok {
		hint := e.ID + "Request"
		if in.Name() != "" {
			hint = in.Name() + field.Name
		}
		schema := huma.SchemaFromField(a.registry, field, hint)
		e.body, e.bodyRequired = schema, field.Type.Kind() != reflect.Pointer
		op.RequestBody = &huma.RequestBody{
			Required: e.bodyRequired,
			Content:  map[string]*huma.MediaType{"application/json": {Schema: schema}},
		}
		if example, ok := a.cfg.Documentation.Examples[e.ID]; ok {
			op.RequestBody.Content["application/json"].Example = example
		}
	}
	return op
}

// parameters returns the documented parameters of a registered operation.
func (a *API) parameters(op *huma.Operation) []*huma.Param {
	item := a.huma.OpenAPI().Paths[op.Path]
	for _, registered := range []*huma.Operation{item.Get, item.Post, item.Patch, item.Put, item.Delete} {
		if registered != nil && registered.Method == op.Method {
			return registered.Parameters
		}
	}
	return nil
}

// description is the route's description with a sentence about who may call it.
func (e *endpoint) description() string {
	var callers []string
	if e.Access.PathToken {
		callers = append(callers, "whoever has the token; no other credential is read")
	}
	if len(e.Access.Keys) > 0 {
		scopes := make([]string, len(e.Access.Keys))
		for i, scope := range e.Access.Keys {
			scopes[i] = "`" + string(scope) + "`"
		}
		text := "API keys with scope " + strings.Join(scopes, " or ")
		if e.Access.NoTestKeys {
			text += " (no test keys)"
		}
		callers = append(callers, text)
	}
	if e.Access.Roles != 0 {
		var roles []string
		for _, role := range auth.RolesWith(e.Access.Roles) {
			roles = append(roles, string(role))
		}
		callers = append(callers, "signed-in users as "+strings.Join(roles, ", "))
	}
	text := "For " + strings.Join(callers, "; ") + "."
	if e.Description == "" {
		return text
	}
	return e.Description + "\n\n" + text
}

func workspaceParam() *huma.Param {
	return &huma.Param{
		Name: "x-workspace-id", In: "header",
		Description: "Selects the workspace of a signed-in caller with several. An API key has its own.",
		Schema:      &huma.Schema{Type: huma.TypeString},
	}
}

func idempotencyParam() *huma.Param {
	shortest, longest := 1, maxIdempotencyKey
	return &huma.Param{
		Name: "idempotency-key", In: "header",
		Description: "Makes the request safe to repeat for 24 hours: printable characters without spaces, not beginning with " +
			strings.Join(reservedKeyPrefixes, ", ") + ".",
		Schema: &huma.Schema{Type: huma.TypeString, MinLength: &shortest, MaxLength: &longest},
	}
}

func requestIDHeader() *huma.Param {
	return textHeader("The id of this request, which the log of the service names", huma.TypeString)
}

func textHeader(description, kind string) *huma.Param {
	return &huma.Param{Description: description, Schema: &huma.Schema{Type: kind}}
}

// markNullable completes the schema of an answer. Huma does not mark pointers to objects and to types with their own
// schema as nullable, although they are null when they are nil. An enum that may be null has to list null.
func markNullable(registry huma.Registry, t reflect.Type, seen map[reflect.Type]bool) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map || t.Kind() == reflect.Array {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || seen[t] || t.PkgPath() == "time" || reflect.PointerTo(t).Implements(reflect.TypeFor[huma.SchemaProvider]()) {
		return
	}
	seen[t] = true
	schema := registry.Schema(t, false, t.Name())
	for _, field := range reflect.VisibleFields(t) {
		if !field.IsExported() {
			continue
		}
		markNullable(registry, field.Type, seen)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		property := schema.Properties[name]
		if property == nil {
			continue
		}
		if field.Type.Kind() == reflect.Pointer && !strings.Contains(options, "omit") && !property.Nullable {
			property = nullable(registry, property)
			schema.Properties[name] = property
		}
		if property.Nullable && len(property.Enum) > 0 && property.Enum[len(property.Enum)-1] != nil {
			property.Enum = append(property.Enum, nil)
		}
	}
}
