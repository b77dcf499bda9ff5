package httpapi

import (
	"maps"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// Documentation is what the OpenAPI document says besides the routes and their types.
type Documentation struct {
	Description string // of the whole interface; Markdown
	Tags        []Tag  // in the order in which they are shown
	// Properties describes properties that have no description at their type: by "Schema.property", else by "property"
	// alone, which fits wherever the property has the same meaning.
	Properties map[string]string
	// Examples are complete request bodies by operation id.
	Examples map[string]any
}

// Tag is a group of operations.
type Tag struct{ Name, Description string }

func (d Documentation) tags() []*huma.Tag {
	tags := make([]*huma.Tag, len(d.Tags))
	for i, tag := range d.Tags {
		tags[i] = &huma.Tag{Name: tag.Name, Description: tag.Description}
	}
	return tags
}

const schemaPrefix = "#/components/schemas/"

// completeSchemas prepares the components of the document for programs that generate clients:
//
//   - a schema that nothing refers to is left out;
//   - a schema of answers allows further properties, so that a client that validates answers takes those of a later
//     version (schemas of requests allow none, and the service refuses unknown properties);
//   - an enum of an answer that may be null is a choice between the enum and null, since generators make a value of the
//     null in the list;
//   - a property without a description gets the one of Documentation.
func (a *API) completeSchemas() {
	document := a.huma.OpenAPI()
	schemas := a.registry.Map()
	requests, all := schemaSet{schemas, map[string]bool{}}, schemaSet{schemas, map[string]bool{}}
	for _, item := range document.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Patch, item.Put, item.Delete} {
			if op != nil {
				requests.addBody(op)
				all.addBody(op)
				all.addAnswers(op)
			}
		}
	}
	for _, item := range document.Webhooks {
		all.addBody(item.Post)
	}
	for _, name := range slices.Collect(maps.Keys(schemas)) {
		if !all.names[name] {
			delete(schemas, name)
			continue
		}
		if schema := schemas[name]; !requests.names[name] && schema.AdditionalProperties == false {
			schema.AdditionalProperties = nil
		}
		for property, schema := range schemas[name].Properties {
			a.describe(schema, name, property)
			if last := len(schema.Enum) - 1; last >= 0 && schema.Enum[last] == nil && !requests.names[name] {
				values := &huma.Schema{Type: schema.Type, Enum: schema.Enum[:last]}
				schemas[name].Properties[property] = &huma.Schema{Description: schema.Description, OneOf: []*huma.Schema{values, {Type: "null"}}}
			}
		}
	}
}

// describe gives a property of the schema with this name a description if it has none.
func (a *API) describe(schema *huma.Schema, name, property string) {
	if schema.Description != "" || schema.Ref != "" {
		return
	}
	described := a.cfg.Documentation.Properties
	if schema.Description = described[name+"."+property]; schema.Description == "" {
		schema.Description = described[property]
	}
}

// schemaSet collects the names of schemas that are referred to, directly and through others.
type schemaSet struct {
	schemas map[string]*huma.Schema
	names   map[string]bool
}

func (s schemaSet) addBody(op *huma.Operation) {
	if op.RequestBody != nil {
		s.addContent(op.RequestBody.Content)
	}
}

func (s schemaSet) addAnswers(op *huma.Operation) {
	for _, response := range op.Responses {
		s.addContent(response.Content)
	}
}

func (s schemaSet) addContent(content map[string]*huma.MediaType) {
	for _, media := range content {
		s.add(media.Schema)
	}
}

func (s schemaSet) add(schema *huma.Schema) {
	if schema == nil {
		return
	}
	if name, ok := strings.CutPrefix(schema.Ref, schemaPrefix); ok {
		if !s.names[name] {
			s.names[name] = true
			s.add(s.schemas[name])
		}
		return
	}
	for _, property := range schema.Properties {
		s.add(property)
	}
	s.add(schema.Items)
	if values, ok := schema.AdditionalProperties.(*huma.Schema); ok {
		s.add(values)
	}
	for _, several := range [][]*huma.Schema{schema.OneOf, schema.AnyOf, schema.AllOf} {
		for _, one := range several {
			s.add(one)
		}
	}
	s.add(schema.Not)
}
