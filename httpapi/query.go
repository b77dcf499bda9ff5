package httpapi

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// searchBox is the one parameter that may be empty: a client sends what was typed into a box, also when it is nothing.
const searchBox = "q"

// checkQuery finds what Huma lets pass in a query: what cannot be stored, a parameter that the endpoint does not know, is given
// twice or has no value (?dryrun=true and ?dry_run= must not send a message), and times beyond the calendar.
func (q *request) checkQuery(known []*huma.Param) {
	raw := q.gin.Request.URL.RawQuery
	if raw == "" {
		return
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		q.issue("query", "", "invalid_format", "The query is not well formed.")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		at := slices.IndexFunc(known, func(p *huma.Param) bool { return p.In == "query" && p.Name == name })
		var param *huma.Param
		if at >= 0 {
			param = known[at]
		}
		if code, message := oddParameter(param, name, values[name]); code != "" {
			q.issue("query", "/"+pointerEscaper.Replace(strings.ToValidUTF8(name, "\uFFFD")), code, message)
		}
	}
}

// oddParameter finds what is wrong with a parameter; p is nil for one that the endpoint does not know.
func oddParameter(p *huma.Param, name string, list []string) (code, message string) {
	switch {
	case !storable(name) || slices.ContainsFunc(list, func(value string) bool { return !storable(value) }):
		return "invalid_characters", "This text must be valid UTF-8 without NUL characters."
	case p == nil:
		return "unknown_parameter", "This parameter is not known here."
	case len(list) > 1:
		return "duplicate_parameter", "This parameter is given more than once."
	}
	return oddValue(p, list[0])
}

func oddValue(p *huma.Param, value string) (code, message string) {
	switch {
	case value == "" && p.Name != searchBox && !p.Required: // Huma tells of a required one
		return "too_short", "Expected a value, or no such parameter."
	case p.Schema != nil && p.Schema.Format == "date-time":
		return oddTime(value)
	}
	return "", ""
}

// oddTime finds what is wrong with a time that the library accepts: a spelling that is not RFC 3339's, and years that no
// answer could show in UTC.
func oddTime(text string) (code, message string) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return "", "" // told already
	}
	if !dateTime.MatchString(text) {
		return "invalid_format", "Expected a date and time as in RFC 3339."
	}
	if year := at.UTC().Year(); year < 0 || year > 9999 {
		return "out_of_range", "Expected a time that in UTC lies in the years 0 to 9999."
	}
	return "", ""
}
