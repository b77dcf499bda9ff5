package httpapi

import (
	"fmt"
	"math"
	"net/http"
	"net/mail"
	"net/url"
	"regexp"
	"sort"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"ledgerline/domain/fault"
)

// Huma keeps its messages, its error type and a few habits in package variables. They are set once, here, before
// anything is registered. A message carries the issue's code before a bar; issueOf takes the two apart.
func init() { //nolint:gochecknoinits // these are the library's only settings for it
	huma.DefaultArrayNullable = false                               // a list is empty, never null
	huma.ValidateStrictCasing = true                                // "Phone" is not "phone"
	huma.ErrorFormatter = func(format string, args ...any) string { //nolint:reassign // made to be replaced
		if !strings.Contains(format, "%") {
			return format // a message that leaves out the value, which may be somebody's address
		}
		return fmt.Sprintf(format, args...)
	}
	huma.NewErrorWithContext = func(ctx huma.Context, _ int, message string, problems ...error) huma.StatusError {
		return collect(ctx, message, problems)
	}
	huma.NewError = func(int, string, ...error) huma.StatusError { return &refusal{} }

	validation.MsgUnexpectedProperty = "unknown_property|This property is not known."
	validation.MsgExpectedRFC3339DateTime = "invalid_format|Expected a date and time as in RFC 3339."
	validation.MsgExpectedRFC3339Date = "invalid_format|Expected a date as in RFC 3339."
	validation.MsgExpectedRFC3339Time = "invalid_format|Expected a time as in RFC 3339."
	validation.MsgExpectedRFC5322Email = "invalid_format|Expected an e-mail address."
	validation.MsgExpectedRFC3986URI = "invalid_format|Expected a URI."
	validation.MsgExpectedRFC4122UUID = "invalid_format|Expected a UUID."
	validation.MsgExpectedRFCIPAddr = "invalid_format|Expected an IP address."
	validation.MsgExpectedMatchAtLeastOneSchema = "invalid_type|This value has none of the accepted shapes."
	validation.MsgExpectedMatchExactlyOneSchema = "invalid_type|This value must have exactly one of the accepted shapes."
	validation.MsgExpectedNotMatchSchema = "invalid_value|This value is not accepted."
	validation.MsgExpectedBoolean = "invalid_type|Expected true or false."
	validation.MsgExpectedNumber = "invalid_type|Expected a number."
	validation.MsgExpectedInteger = "invalid_type|Expected a whole number."
	validation.MsgExpectedString = "invalid_type|Expected a string."
	validation.MsgExpectedBase64String = "invalid_format|Expected base64."
	validation.MsgExpectedArray = "invalid_type|Expected a list."
	validation.MsgExpectedObject = "invalid_type|Expected an object."
	validation.MsgExpectedArrayItemsUnique = "duplicate_items|The items must differ from each other."
	validation.MsgExpectedOneOf = "invalid_value|Expected one of: %s."
	validation.MsgExpectedMinimumNumber = "too_small|Expected at least %v."
	validation.MsgExpectedExclusiveMinimumNumber = "too_small|Expected more than %v."
	validation.MsgExpectedMaximumNumber = "too_large|Expected at most %v."
	validation.MsgExpectedExclusiveMaximumNumber = "too_large|Expected less than %v."
	validation.MsgExpectedNumberBeMultipleOf = "invalid_value|Expected a multiple of %v."
	validation.MsgExpectedMinLength = "too_short|Expected at least %d characters."
	validation.MsgExpectedMaxLength = "too_long|Expected at most %d characters."
	validation.MsgExpectedBePattern = "invalid_format|Expected %s."
	validation.MsgExpectedMatchPattern = "invalid_format|Expected a text that matches %s."
	validation.MsgExpectedMinItems = "too_few_items|Expected at least %d items."
	validation.MsgExpectedMaxItems = "too_many_items|Expected at most %d items."
	validation.MsgExpectedMinProperties = "too_few_properties|Expected at least %d properties."
	validation.MsgExpectedMaxProperties = "too_many_properties|Expected at most %d properties."
	validation.MsgExpectedRequiredProperty = "required|%s|This property is required."
	validation.MsgExpectedDependentRequiredProperty = "required|%s|This property is required together with %s."
}

// refusal is the error that Huma sees. It is complete when Huma writes it.
type refusal struct {
	ErrorBody
}

func (*refusal) Error() string { return "the request is not valid" }

// GetStatus implements huma.StatusError: whatever Huma itself refuses is a bad request.
func (*refusal) GetStatus() int { return http.StatusBadRequest }

// collect joins what Huma found with what was found before it.
func collect(ctx huma.Context, message string, problems []error) huma.StatusError {
	q, ok := ctx.(*request)
	if !ok {
		return &refusal{ErrorBody{ErrorInfo{Code: string(fault.BadRequest), Message: message}}}
	}
	for _, problem := range problems {
		issue := issueOf(problem)
		if issue.Location == "body" && issue.Code == "" {
			// Decoding failed after the body was checked. When the check found something, that is the reason.
			if len(q.body.issues) > 0 {
				continue
			}
			issue.Code, issue.Message = "invalid_type", "The body does not have the documented shape."
		}
		q.issues = append(q.issues, issue)
	}
	f := q.invalid()
	info := ErrorInfo{Code: string(f.Code), Message: f.Message, RequestID: q.call.RequestID}
	for i, issue := range f.Issues {
		if i == maxIssues {
			break
		}
		info.Details.Issues = append(info.Details.Issues, ErrorIssue(issue))
	}
	return &refusal{ErrorBody{info}}
}

// issueOf reads a problem of Huma's. Problems with parameters have fixed texts and no code.
func issueOf(problem error) fault.Issue {
	detailed, ok := problem.(huma.ErrorDetailer) //nolint:errorlint // Huma never wraps them
	if !ok {
		return fault.Issue{Location: "body"}
	}
	detail := detailed.ErrorDetail()
	issue := fault.Issue{}
	issue.Location, issue.Path = pointerOf(detail.Location)
	parts := strings.Split(detail.Message, "|")
	switch {
	case len(parts) == 3: // a required property is told at the object that lacks it
		issue.Code, issue.Message = parts[0], parts[2]
		issue.Path += "/" + parts[1]
	case len(parts) == 2:
		issue.Code, issue.Message = parts[0], parts[1]
	case issue.Location == "body":
	case strings.HasPrefix(detail.Message, "required "):
		issue.Code, issue.Message = "required", "This parameter is required."
	case detail.Message == "invalid integer":
		issue.Code, issue.Message = "invalid_type", "Expected a whole number."
	case detail.Message == "invalid float":
		issue.Code, issue.Message = "invalid_type", "Expected a number."
	case detail.Message == "invalid boolean":
		issue.Code, issue.Message = "invalid_type", "Expected true or false."
	case strings.HasPrefix(detail.Message, "invalid date/time"):
		issue.Code, issue.Message = "invalid_format", "Expected a date and time as in RFC 3339."
	default:
		issue.Code, issue.Message = "invalid_format", "This value does not have the documented format."
	}
	return issue
}

// pointerOf turns Huma's body.media[0].url into body and /media/0/url.
func pointerOf(place string) (location, pointer string) {
	cut := strings.IndexAny(place, ".[")
	if cut < 0 {
		return place, ""
	}
	var path strings.Builder
	for rest := place[cut:]; rest != ""; {
		closing := strings.IndexAny(rest[1:], ".[")
		segment := rest[1:]
		if closing >= 0 {
			segment = rest[1 : closing+1]
		}
		if rest[0] == '[' {
			segment = strings.TrimSuffix(segment, "]")
		}
		path.WriteByte('/')
		path.WriteString(pointerEscaper.Replace(keyUnescaper.Replace(segment)))
		if closing < 0 {
			break
		}
		rest = rest[closing+1:]
	}
	return place[:cut], path.String()
}

// check holds a decoded body against its schema: what Huma checks, and a few things that it lets pass: null for an
// optional property that is not nullable, "Name <address>" for an address, odd spellings of a UUID or a time, addresses
// without a host, huge integers.
func (b *jsonBody) check(registry huma.Registry, schema *huma.Schema) {
	result := huma.ValidateResult{}
	path := huma.NewPathBuffer(make([]byte, 0, 64), 0)
	path.Push("body")
	huma.Validate(registry, schema, path, huma.ModeWriteToServer, b.tree, &result)
	for _, problem := range result.Errors {
		b.issues = append(b.issues, issueOf(problem))
	}
	b.stricter(registry, schema, b.tree, nil)
	if len(b.huge) > 0 {
		b.inexact()
	}
	if len(b.issues) > 1 {
		sort.SliceStable(b.issues, func(i, j int) bool { return b.issues[i].Path < b.issues[j].Path })
	}
}

func (b *jsonBody) stricter(registry huma.Registry, schema *huma.Schema, value any, at *place) {
	for schema != nil && schema.Ref != "" {
		schema = registry.SchemaFromRef(schema.Ref)
	}
	if schema == nil {
		return
	}
	switch v := value.(type) {
	case int64:
		if schema.Type == huma.TypeInteger {
			b.integer(schema, float64(v), true, at)
		}
	case float64:
		if schema.Type == huma.TypeInteger {
			b.integer(schema, v, false, at)
		}
	case string:
		if v == "" && schema.Extensions[mayBeEmpty] == true {
			return
		}
		switch schema.Format {
		case "email":
			if address, err := mail.ParseAddress(v); err == nil && address.Address != v {
				b.add(at.String(), "invalid_format", "Expected an e-mail address.")
			}
		case "uuid":
			if len(v) == 32 || len(v) == 38 || len(v) == 45 {
				b.add(at.String(), "invalid_format", "Expected a UUID.")
			}
		case "uri":
			if address, err := url.Parse(v); err == nil && (address.Host == "" || address.Scheme != "http" && address.Scheme != "https") {
				b.add(at.String(), "invalid_format", "Expected an http or https address.")
			}
		case "date-time":
			if code, message := oddTime(v); code != "" {
				b.add(at.String(), code, message)
			}
		}
	case []any:
		if schema.Items == nil {
			return
		}
		for i, item := range v {
			b.stricter(registry, schema.Items, item, &place{above: at, index: i, isIndex: true})
		}
	case map[string]any:
		for name, item := range v {
			property := schema.Properties[name]
			declared := property != nil
			if !declared {
				if property, _ = schema.AdditionalProperties.(*huma.Schema); property == nil {
					continue
				}
				name = keyUnescaper.Replace(name)
			}
			here := place{above: at, name: name}
			if item == nil && declared && !required(schema, name) && refusesNull(registry, property) {
				b.add(here.String(), "null_not_allowed", "This property may be left out, but it cannot be null.")
				continue
			}
			b.stricter(registry, property, item, &here)
		}
	}
}

// dateTime is RFC 3339 to the letter: the library also takes a comma for the point, and hours with one digit.
var dateTime = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`)

// maxInteger bounds every integer that has no tighter bound (interface, section 2.1).
const maxInteger = 1<<53 - 1

// inexact tells of numbers that cannot be kept as they were written, where nothing else was found wrong with them.
func (b *jsonBody) inexact() {
	told := map[string]bool{}
	for _, issue := range b.issues {
		told[issue.Path] = true
	}
	for _, at := range b.huge[:min(len(b.huge), maxIssues+1)] {
		if !told[at.String()] {
			b.add(at.String(), "out_of_range", "Expected a number from -9007199254740991 to 9007199254740991. Send others as text.")
		}
	}
}

// integer checks a number where a whole one is expected; plain tells that it was written without fraction and exponent:
// 1.0 is whole, yet no integer to the decoder.
func (b *jsonBody) integer(schema *huma.Schema, v float64, plain bool, at *place) {
	switch {
	case v > maxInteger:
		if schema.Maximum == nil {
			b.add(at.String(), "too_large", "Expected at most 9007199254740991.")
		}
	case v < -maxInteger:
		if schema.Minimum == nil {
			b.add(at.String(), "too_small", "Expected at least -9007199254740991.")
		}
	case !plain && v == math.Trunc(v):
		b.add(at.String(), "invalid_type", "Expected a whole number without fraction and exponent.")
	}
}

// required: Huma itself refuses null for a required property.
func required(schema *huma.Schema, name string) bool {
	for _, have := range schema.Required {
		if have == name {
			return true
		}
	}
	return false
}

func refusesNull(registry huma.Registry, schema *huma.Schema) bool {
	for schema.Ref != "" {
		schema = registry.SchemaFromRef(schema.Ref)
	}
	return schema.Type != "" && !schema.Nullable
}
