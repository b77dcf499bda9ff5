package httpapi

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// Schemas are the JSON Schemas of an endpoint's body and of its answer. Each is self-contained: the schemas that it
// refers to are in its $defs.
type Schemas struct {
	Body, Answer json.RawMessage
}

// SchemasOf returns the schemas of a registered POST endpoint with a body: those that are documented and checked.
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
	tree, err := d.render(schema)
	if err != nil {
		return nil, err
	}
	if len(d.schemas) > 0 {
		tree["$defs"] = d.schemas
	}
	text, err := json.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("httpapi: render a schema: %w", err)
	}
	return text, nil
}

// definitions collects the schemas that a schema refers to, by name.
type definitions struct {
	registry huma.Registry
	schemas  map[string]any
}

// render returns a schema as a JSON object whose references point into $defs.
func (d *definitions) render(schema *huma.Schema) (map[string]any, error) {
	text, err := json.Marshal(schema)
	if err != nil {
		return nil, fmt.Errorf("httpapi: render a schema: %w", err)
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, fmt.Errorf("httpapi: read a schema: %w", err)
	}
	return tree, d.redirect(tree)
}

// redirect changes the references below value, and adds the schemas that they refer to.
func (d *definitions) redirect(value any) (err error) {
	switch v := value.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok {
			name := strings.TrimPrefix(ref, schemaPrefix)
			v["$ref"] = "#/$defs/" + name
			if _, known := d.schemas[name]; !known {
				d.schemas[name] = true // stops the recursion when the schema refers to itself
				if d.schemas[name], err = d.render(d.registry.SchemaFromRef(ref)); err != nil {
					return err
				}
			}
		}
		for _, below := range v {
			if err := d.redirect(below); err != nil {
				return err
			}
		}
	case []any:
		for _, below := range v {
			if err := d.redirect(below); err != nil {
				return err
			}
		}
	}
	return nil
}
