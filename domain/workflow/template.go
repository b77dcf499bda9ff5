package workflow

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// Template is a text with variables: {{name}} and {{name|default}} (rule WFL-16).
type Template struct{ parts []part }

// part is a literal text, or a variable.
type part struct {
	literal    string
	variable   string // "" for a literal
	fallback   string
	defaulted  bool // there is a default, which may be empty
	customKey  string
	triggerPtr []string
}

var (
	errUnclosed = errors.New("A variable begins with {{ and has no }}.")                                                                                           //nolint:staticcheck,revive // shown to people as it is
	errVariable = errors.New("The variables are first_name, last_name, company, email, phone, fields.<key> and trigger.<JSON pointer without the leading slash>.") //nolint:staticcheck,revive // as above
)

// ParseTemplate reads a template. Spaces inside the braces do not count. The error's text is for the author of the
// draft.
func ParseTemplate(text string) (Template, error) {
	var t Template
	for {
		literal, rest, found := strings.Cut(text, "{{")
		if literal != "" {
			t.parts = append(t.parts, part{literal: literal})
		}
		if !found {
			return t, nil
		}
		inside, after, closed := strings.Cut(rest, "}}")
		if !closed {
			return t, errUnclosed
		}
		p, err := parseVariable(inside)
		if err != nil {
			return t, err
		}
		t.parts, text = append(t.parts, p), after
	}
}

func parseVariable(inside string) (part, error) {
	name, fallback, defaulted := strings.Cut(inside, "|")
	p := part{variable: strings.TrimSpace(name), fallback: strings.TrimSpace(fallback), defaulted: defaulted}
	switch p.variable {
	case "first_name", "last_name", "company", "email", "phone":
		return p, nil
	}
	if key, ok := strings.CutPrefix(p.variable, "fields."); ok && key != "" {
		p.customKey = key
		return p, nil
	}
	if pointer, ok := strings.CutPrefix(p.variable, "trigger."); ok && pointer != "" {
		path, err := ParsePointer("/" + pointer)
		p.triggerPtr = path
		return p, err
	}
	return p, errVariable
}

// Values are what the variables of a template stand for. Nil and empty texts are missing.
type Values struct {
	Phone                               string
	FirstName, LastName, Company, Email *string
	Fields                              map[string]any // as JSON decodes it
	Trigger                             map[string]any // the data of the trigger
}

// Render returns the text with the values. ok is false when a variable is empty and has no default.
func (t Template) Render(v Values) (text string, ok bool) {
	var b strings.Builder
	for i := range t.parts {
		p := &t.parts[i]
		if p.variable == "" {
			b.WriteString(p.literal)
			continue
		}
		value := p.value(&v)
		if value == "" {
			if !p.defaulted {
				return "", false
			}
			value = p.fallback
		}
		b.WriteString(value)
	}
	return b.String(), true
}

func (p *part) value(v *Values) string {
	switch {
	case p.customKey != "":
		return shown(v.Fields[p.customKey])
	case p.triggerPtr != nil:
		found, _ := Resolve(v.Trigger, p.triggerPtr)
		return shown(found)
	}
	switch p.variable {
	case "first_name":
		return orEmpty(v.FirstName)
	case "last_name":
		return orEmpty(v.LastName)
	case "company":
		return orEmpty(v.Company)
	case "email":
		return orEmpty(v.Email)
	}
	return v.Phone
}

func orEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// shown is a value as a template shows it: numbers and booleans as JSON writes them. Lists, objects and null are
// missing.
func shown(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case bool, float64:
		text, err := json.Marshal(v)
		if err == nil {
			return string(text)
		}
	}
	return ""
}

var errPointer = errors.New("Expected a JSON pointer, for example /phone.") //nolint:staticcheck,revive // shown to people as it is

// ParsePointer splits a JSON pointer (RFC 6901) into its unescaped parts.
func ParsePointer(pointer string) ([]string, error) {
	rest, ok := strings.CutPrefix(pointer, "/")
	if !ok {
		return nil, errPointer
	}
	parts := strings.Split(rest, "/")
	for i, escaped := range parts {
		if strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(escaped), "~") {
			return nil, errPointer
		}
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(escaped)
	}
	return parts, nil
}

// Resolve finds the value at a pointer in decoded JSON.
func Resolve(value any, pointer []string) (any, bool) {
	for _, name := range pointer {
		switch v := value.(type) {
		case map[string]any:
			below, ok := v[name]
			if !ok {
				return nil, false
			}
			value = below
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(v) || strconv.Itoa(i) != name {
				return nil, false
			}
			value = v[i]
		default:
			return nil, false
		}
	}
	return value, true
}
