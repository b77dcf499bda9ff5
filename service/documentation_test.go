package service_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"

	"ledgerline/service"
)

// document is the part of an OpenAPI document that the tests look at.
type document struct {
	Info struct{ Description string }
	Tags []struct{ Name, Description string }
	// Paths and webhooks by path and method.
	Paths, Webhooks map[string]map[string]struct {
		OperationID string
		Tags        []string
		RequestBody struct {
			Content map[string]struct {
				Schema  json.RawMessage
				Example any
			}
		}
	}
	Components struct {
		Schemas map[string]struct {
			AdditionalProperties any
			Properties           map[string]struct {
				Ref         string `json:"$ref"`
				Description string
				Enum        []any
				Items       struct{ Enum []any }
				OneOf       []struct{ Enum []any }
			}
		}
	}
}

func openAPI(t *testing.T) (text []byte, parsed document) {
	t.Helper()
	text, err := service.OpenAPI("test", "")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &parsed))
	return text, parsed
}

func TestEveryPropertyAndTagOfTheDocumentIsDescribed(t *testing.T) {
	t.Parallel()
	_, d := openAPI(t)
	require.NotEmpty(t, d.Info.Description)
	for name, schema := range d.Components.Schemas {
		for property, p := range schema.Properties {
			require.True(t, p.Description != "" || p.Ref != "", "describe %s.%s at its type or in documentation.go", name, property)
		}
	}
	described := map[string]bool{}
	for _, tag := range d.Tags {
		require.NotEmpty(t, tag.Description, tag.Name)
		described[tag.Name] = true
	}
	for path, methods := range d.Paths {
		for method, op := range methods {
			require.Len(t, op.Tags, 1, "%s %s", method, path)
			require.True(t, described[op.Tags[0]], "describe the tag %s in documentation.go", op.Tags[0])
		}
	}
}

func TestEveryBodyHasAnExampleThatFitsItsSchema(t *testing.T) {
	t.Parallel()
	text, d := openAPI(t)
	for _, methods := range d.Paths {
		for _, op := range methods {
			body, ok := op.RequestBody.Content["application/json"]
			if !ok {
				continue
			}
			require.NotNil(t, body.Example, "add an example for %s to documentation.go", op.OperationID)
			resolved, err := schemaOf(t, text, body.Schema).Resolve(nil)
			require.NoError(t, err, op.OperationID)
			require.NoError(t, resolved.Validate(body.Example), op.OperationID)
		}
	}
}

// schemaOf returns a schema of the document with the components that it may refer to.
func schemaOf(t *testing.T, text []byte, schema json.RawMessage) *jsonschema.Schema {
	t.Helper()
	var d struct {
		Components struct{ Schemas map[string]json.RawMessage }
	}
	require.NoError(t, json.Unmarshal(text, &d))
	all := map[string]any{"$defs": d.Components.Schemas, "allOf": []json.RawMessage{schema}}
	standalone, err := json.Marshal(all)
	require.NoError(t, err)
	var s jsonschema.Schema
	require.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(string(standalone), "#/components/schemas/", "#/$defs/")), &s))
	return &s
}

func TestNoSchemaHasTheNameThatGeneratorsGiveToTheEnumOfAProperty(t *testing.T) {
	t.Parallel()
	_, d := openAPI(t)
	for name, schema := range d.Components.Schemas {
		for property, p := range schema.Properties {
			if len(p.Enum) == 0 && len(p.Items.Enum) == 0 && len(p.OneOf) == 0 {
				continue
			}
			generated := name
			for _, word := range strings.Split(property, "_") {
				generated += strings.ToUpper(word[:1]) + word[1:]
			}
			require.NotContains(t, d.Components.Schemas, generated, "rename the type: %s.%s has an enum", name, property)
		}
	}
}

func TestNoEnumOfTheDocumentListsNull(t *testing.T) {
	t.Parallel()
	_, d := openAPI(t)
	for name, schema := range d.Components.Schemas {
		for property, p := range schema.Properties {
			require.NotContains(t, p.Enum, nil, "%s.%s", name, property)
		}
	}
}

func TestSchemasOfAnswersAllowFurtherPropertiesAndThoseOfRequestsDoNot(t *testing.T) {
	t.Parallel()
	_, d := openAPI(t)
	closed := 0
	for name, schema := range d.Components.Schemas {
		isBody := strings.HasSuffix(name, "Body") || strings.HasSuffix(name, "Input")
		if schema.AdditionalProperties == false {
			require.True(t, isBody, "%s is part of an answer", name)
			closed++
		}
	}
	require.NotZero(t, closed)
}

func TestEverySchemaOfTheDocumentIsUsed(t *testing.T) {
	t.Parallel()
	text, d := openAPI(t)
	for name := range d.Components.Schemas {
		require.Contains(t, string(text), `"$ref":"#/components/schemas/`+name+`"`)
	}
}
