package httpapi

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// Schemas are the JSON Schemas of an endpoint's body and of its answer. Each stands by itself: what it refers to lies in
// its $defs.
type Schemas struct {
	Body, Answer json.RawMessage
}

// SchemasOf gives those of a registered POST endpoint with a body: the very schemas that are documented and checked.
func (a *API) SchemasOf(path string) (Schemas, error) {
	item := a.huma.OpenAPI().Paths[path]
	if item == nil || item.Post == nil || item.Post.RequestBody == nil {
		return Schemas{}, fmt.Errorf("httpapi: no endpoint with a body at POST %s", path)
	}
	body, err := a.standalone(item.Post.RequestBody.Content["application/json"].Schema)
	if err != nil {
		return Schemas{}, err
	}
	answer, err := a.standalone(item.Post.Responses[strconv.Itoa(item.Post.DefaultStatus)].Content["application/json"].Schema)
	return Schemas{body, answer}, err
}

func (a *API) standalone(schema *huma.Schema) (json.RawMessage, error) {
	for schema.Ref != "" {
		schema = a.registry.SchemaFromRef(schema.Ref)
	}
	d := definitions{a.registry, map[string]any{}}
	tree, err := d.take(schema)
	if err != nil {
		return nil, err
	}
	if len(d.taken) > 0 {
		tree["$defs"] = d.taken
	}
	text, err := json.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("httpapi: render a schema: %w", err)
	}
	return text, nil
}

// definitions are the schemas that one refers to, by name.
type definitions struct {
	registry huma.Registry
	taken    map[string]any
}

// take gives a schema as JSON, with its references led into the definitions.
func (d *definitions) take(schema *huma.Schema) (map[string]any, error) {
	text, err := json.Marshal(schema)
	if err != nil {
		return nil, fmt.Errorf("httpapi: render a schema: %w", err)
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, fmt.Errorf("httpapi: read a schema: %w", err)
	}
	return tree, d.lead(tree)
}

func (d *definitions) lead(value any) (err error) {
	switch v := value.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok {
			name := strings.TrimPrefix(ref, "#/components/schemas/")
			v["$ref"] = "#/$defs/" + name
			if _, known := d.taken[name]; !known {
				d.taken[name] = true // it may refer to itself
				if d.taken[name], err = d.take(d.registry.SchemaFromRef(ref)); err != nil {
					return err
				}
			}
		}
		for _, below := range v {
			if err := d.lead(below); err != nil {
				return err
			}
		}
	case []any:
		for _, below := range v {
			if err := d.lead(below); err != nil {
				return err
			}
		}
	}
	return nil
}
