package httpapi

import (
	"net/url"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// searchBox is the one parameter that may be empty: a client sends what was typed into a box, also when it is nothing.
const searchBox = "q"

// checkQuery finds what Huma lets pass in a query: what cannot be stored, a known parameter without a value (?dry_run= must
// not send a message), and times beyond the calendar. Unknown parameters are nobody's business.
func (q *request) checkQuery(known []*huma.Param) {
	raw := q.gin.Request.URL.RawQuery
	if raw == "" {
		return
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		q.issue("query", "", "invalid_format", "The query is not well formed.")
	}
	for name, list := range values {
		ok := storable(name)
		for _, value := range list {
			ok = ok && storable(value)
		}
		if !ok {
			q.issue("query", "/"+pointerEscaper.Replace(strings.ToValidUTF8(name, "\uFFFD")), "invalid_characters",
				"This text must be valid UTF-8 without NUL characters.")
		}
	}
	for _, p := range known {
		if p.In != "query" {
			continue
		}
		for _, value := range values[p.Name] {
			if code, message := oddValue(p, value); code != "" {
				q.issue("query", "/"+p.Name, code, message)
				break
			}
		}
	}
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
