package input

import (
	"math"
	"net/mail"
	"net/url"
	"slices"
	"sort"

	"github.com/danielgtaylor/huma/v2"
)

// MayBeEmpty is the extension of a schema with a format that also accepts "".
const MayBeEmpty = "x-may-be-empty"

// Check validates the body against its schema and adds the issues, sorted by location. It finds what Huma finds, and
// what Huma accepts although the API does not: null for an optional property that is not nullable, "Name <address>" for
// an e-mail address, other spellings of a UUID or a time, URIs without a host, and numbers beyond the bounds of rule
// API-5.
func (b *Body) Check(registry huma.Registry, schema *huma.Schema) {
	result := huma.ValidateResult{}
	path := huma.NewPathBuffer(make([]byte, 0, 64), 0)
	path.Push("body")
	huma.Validate(registry, schema, path, huma.ModeWriteToServer, b.tree, &result)
	for _, problem := range result.Errors[:min(len(result.Errors), MaxIssues+1)] {
		b.Issues = append(b.Issues, IssueOf(problem))
	}
	b.checkStrictly(registry, schema, b.tree, nil)
	if len(b.inexact) > 0 {
		b.addInexact()
	}
	if len(b.Issues) > 1 {
		sort.SliceStable(b.Issues, func(i, j int) bool { return b.Issues[i].Path < b.Issues[j].Path })
	}
}

// checkStrictly adds the issues that Huma does not find.
func (b *Body) checkStrictly(registry huma.Registry, schema *huma.Schema, value any, at *location) {
	schema = resolve(registry, schema)
	if schema == nil {
		return
	}
	switch v := value.(type) {
	case int64:
		if schema.Type == huma.TypeInteger {
			b.checkInteger(schema, float64(v), true, at)
		}
	case float64:
		if schema.Type == huma.TypeInteger {
			b.checkInteger(schema, v, false, at)
		}
	case string:
		b.checkFormat(schema, v, at)
	case []any:
		if schema.Items == nil {
			return
		}
		for i, item := range v {
			b.checkStrictly(registry, schema.Items, item, &location{parent: at, index: i, isIndex: true})
		}
	case map[string]any:
		b.checkProperties(registry, schema, v, at)
	}
}

func (b *Body) checkProperties(registry huma.Registry, schema *huma.Schema, object map[string]any, at *location) {
	for name, item := range object {
		property := schema.Properties[name]
		declared := property != nil
		if !declared {
			if property, _ = schema.AdditionalProperties.(*huma.Schema); property == nil {
				continue
			}
			name = keyUnescaper.Replace(name)
		}
		here := location{parent: at, name: name}
		// Huma itself refuses null for a required property.
		if item == nil && declared && !slices.Contains(schema.Required, name) && refusesNull(registry, property) {
			b.addAt(&here, "null_not_allowed", "This property may be left out, but it cannot be null.")
			continue
		}
		b.checkStrictly(registry, property, item, &here)
	}
}

func (b *Body) checkFormat(schema *huma.Schema, text string, at *location) {
	if text == "" && schema.Extensions[MayBeEmpty] == true {
		return
	}
	switch schema.Format {
	case "email":
		if address, err := mail.ParseAddress(text); err == nil && address.Address != text {
			b.addAt(at, "invalid_format", "Expected an e-mail address.")
		}
	case "uuid":
		if len(text) == 32 || len(text) == 38 || len(text) == 45 { // without hyphens, in braces, as a URN
			b.addAt(at, "invalid_format", "Expected a UUID.")
		}
	case "uri":
		address, err := url.Parse(text)
		if err == nil && (address.Host == "" || address.Scheme != "http" && address.Scheme != "https") {
			b.addAt(at, "invalid_format", "Expected an http or https address.")
		}
	case "date-time":
		if code, message := timeIssue(text); code != "" {
			b.addAt(at, code, message)
		}
	}
}

// checkInteger checks the value of an integer property. plain says that it was written without fraction and exponent:
// 1.0 is a whole number, but encoding/json does not decode it as an integer.
func (b *Body) checkInteger(schema *huma.Schema, v float64, plain bool, at *location) {
	switch {
	case v > maxInteger:
		if schema.Maximum == nil {
			b.addAt(at, "too_large", "Expected at most 9007199254740991.")
		}
	case v < -maxInteger:
		if schema.Minimum == nil {
			b.addAt(at, "too_small", "Expected at least -9007199254740991.")
		}
	case !plain && v == math.Trunc(v):
		b.addAt(at, "invalid_type", "Expected a whole number without fraction and exponent.")
	}
}

// addInexact reports the numbers that would not be stored as they were written, unless another issue names them.
func (b *Body) addInexact() {
	reported := map[string]bool{}
	for _, issue := range b.Issues {
		reported[issue.Path] = true
	}
	for _, at := range b.inexact[:min(len(b.inexact), MaxIssues+1)] {
		if !reported[at.String()] {
			b.addAt(at, "out_of_range", "Expected a number from -9007199254740991 to 9007199254740991. Send others as text.")
		}
	}
}

func refusesNull(registry huma.Registry, schema *huma.Schema) bool {
	schema = resolve(registry, schema)
	return schema.Type != "" && !schema.Nullable
}

// resolve follows the references of a schema.
func resolve(registry huma.Registry, schema *huma.Schema) *huma.Schema {
	for schema != nil && schema.Ref != "" {
		schema = registry.SchemaFromRef(schema.Ref)
	}
	return schema
}
