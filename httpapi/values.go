package httpapi

import (
	"bytes"
	"encoding/json"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"ledgerline/httpapi/input"
)

// Optional is a property or query parameter that may be left out; null is refused. Its JSON tag needs omitzero, which
// makes it optional in the schema:
//
//	Name httpapi.Optional[string] `json:"name,omitzero" maxLength:"80"`
type Optional[T any] struct {
	Value T
	Set   bool
}

// Ptr returns nil for an absent value.
func (o Optional[T]) Ptr() *T {
	if !o.Set {
		return nil
	}
	return &o.Value
}

// IsZero reports whether the value is absent.
func (o Optional[T]) IsZero() bool { return !o.Set }

// UnmarshalJSON implements json.Unmarshaler.
func (o *Optional[T]) UnmarshalJSON(data []byte) error {
	o.Set = true
	return json.Unmarshal(data, &o.Value)
}

// MarshalJSON implements json.Marshaler.
func (o Optional[T]) MarshalJSON() ([]byte, error) { return json.Marshal(o.Value) }

// Schema implements huma.SchemaProvider: the schema is that of the value.
func (Optional[T]) Schema(registry huma.Registry) *huma.Schema {
	return registry.Schema(reflect.TypeFor[T](), true, "")
}

// Receiver implements huma.ParamWrapper.
func (o *Optional[T]) Receiver() reflect.Value { return reflect.ValueOf(&o.Value).Elem() }

// OnParamSet implements huma.ParamReactor.
func (o *Optional[T]) OnParamSet(set bool, _ any) { o.Set = set }

// Nullable is a property of a request body that may be left out, null, or a value. Its JSON tag needs omitzero, like
// that of Optional.
type Nullable[T any] struct {
	Value T
	Set   bool // false when it was left out
	Null  bool
}

// Ptr returns nil for null and for an absent value; Set distinguishes the two.
func (n Nullable[T]) Ptr() *T {
	if !n.Set || n.Null {
		return nil
	}
	return &n.Value
}

// IsZero reports whether the value is absent.
func (n Nullable[T]) IsZero() bool { return !n.Set }

// UnmarshalJSON implements json.Unmarshaler.
func (n *Nullable[T]) UnmarshalJSON(data []byte) error {
	n.Set = true
	if bytes.Equal(data, []byte("null")) {
		n.Null = true
		return nil
	}
	return json.Unmarshal(data, &n.Value)
}

// MarshalJSON implements json.Marshaler.
func (n Nullable[T]) MarshalJSON() ([]byte, error) { return json.Marshal(n.Ptr()) }

// Schema implements huma.SchemaProvider.
func (Nullable[T]) Schema(registry huma.Registry) *huma.Schema {
	return nullable(registry, registry.Schema(reflect.TypeFor[T](), true, ""))
}

// nullable returns the schema with null allowed. A reference is replaced by a copy of its schema, because a reference
// cannot be nullable in OpenAPI, and Huma does not check anyOf with null.
func nullable(registry huma.Registry, schema *huma.Schema) *huma.Schema {
	if schema.Ref != "" {
		copied := *registry.SchemaFromRef(schema.Ref)
		schema = &copied
	}
	schema.Nullable = true
	return schema
}

// AddressOrNone is an http or https address in a request body, or "", which removes the present one. A plain text with
// the format uri cannot be empty.
type AddressOrNone string

// Schema implements huma.SchemaProvider.
func (AddressOrNone) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "uri", Extensions: map[string]any{input.MayBeEmpty: true}}
}

// Timestamp is a time as answers show it: UTC, RFC 3339, milliseconds (rule API-3).
type Timestamp struct{ time.Time }

// TimestampOf converts a time.
func TimestampOf(t time.Time) Timestamp { return Timestamp{t} }

const timestampLayout = `"2006-01-02T15:04:05.000Z"`

// MarshalJSON implements json.Marshaler.
func (t Timestamp) MarshalJSON() ([]byte, error) {
	return t.UTC().AppendFormat(make([]byte, 0, len(timestampLayout)), timestampLayout), nil
}

// Schema implements huma.SchemaProvider.
func (Timestamp) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time", Examples: []any{"2026-01-31T16:04:05.123Z"}}
}

// uuidSchema gives uuid.UUID a schema. Huma would document it as a plain text.
type uuidSchema struct{ uuid.UUID }

// Schema implements huma.SchemaProvider.
func (uuidSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "uuid"}
}
