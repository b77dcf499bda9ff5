package input

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"ledgerline/domain/fault"
)

// searchParam is the only parameter that may be empty: clients send the content of a search box, which may be empty.
const searchParam = "q"

// CheckQuery returns the issues that Huma does not find in a query string: parameters that cannot be stored, that the
// endpoint does not know, that are given twice or that have no value, and times out of range. Without these checks, a
// mistyped ?dryrun=true or ?dry_run= would send a message.
func CheckQuery(query string, params []*huma.Param) []fault.Issue {
	if query == "" {
		return nil
	}
	var issues []fault.Issue
	values, err := url.ParseQuery(query)
	if err != nil {
		issues = append(issues, fault.Issue{
			Location: "query", Code: "invalid_format", Message: "The query is not well formed.",
		})
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		code, message := parameterIssue(params, name, values[name])
		if code != "" {
			pointer := "/" + pointerEscaper.Replace(strings.ToValidUTF8(name, "\uFFFD"))
			issues = append(issues, fault.Issue{Location: "query", Path: pointer, Code: code, Message: message})
		}
	}
	return issues
}

// parameterIssue returns the code and message of what is wrong with a parameter; "" when nothing is.
func parameterIssue(params []*huma.Param, name string, values []string) (code, message string) {
	storable := Storable(name) && !slices.ContainsFunc(values, func(value string) bool { return !Storable(value) })
	if !storable {
		return "invalid_characters", "This text must be valid UTF-8 without NUL characters."
	}
	at := slices.IndexFunc(params, func(p *huma.Param) bool { return p.In == "query" && p.Name == name })
	if at < 0 {
		return "unknown_parameter", "This parameter is not known here."
	}
	if len(values) > 1 {
		return "duplicate_parameter", "This parameter is given more than once."
	}
	param, value := params[at], values[0]
	switch {
	case value == "" && name != searchParam && !param.Required: // Huma reports an empty required parameter
		return "too_short", "Expected a value, or no such parameter."
	case param.Schema != nil && param.Schema.Format == "date-time":
		return timeIssue(value)
	}
	return "", ""
}

// dateTime is RFC 3339 to the letter. The time package also accepts a comma for the point, and hours with one digit.
var dateTime = regexp.MustCompile(
	`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`)

// timeIssue returns what is wrong with a time that the time package accepts: a spelling that RFC 3339 does not allow,
// and years that no answer can show in UTC.
func timeIssue(text string) (code, message string) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return "", "" // Huma has reported it
	}
	if !dateTime.MatchString(text) {
		return "invalid_format", "Expected a date and time as in RFC 3339."
	}
	if year := at.UTC().Year(); year < 0 || year > 9999 {
		return "out_of_range", "Expected a time that in UTC lies in the years 0 to 9999."
	}
	return "", ""
}
