package workflow

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
)

// The codes of the issues of a publication (rule WFL-6).
const (
	IssueTriggerMissing   = "trigger_missing"
	IssueTriggerDuplicate = "trigger_duplicate"
	IssueNodeDuplicate    = "node_duplicate"
	IssueEdgeUnknownNode  = "edge_unknown_node"
	IssueEdgeLabel        = "edge_label"
	IssueUnreachable      = "unreachable"
	IssueLoop             = "loop"
	IssueConfig           = "config_invalid"
	IssueReference        = "reference_missing"
)

// ReferenceKind is what a reference names.
type ReferenceKind string

// The kinds of references.
const (
	ReferenceLine    ReferenceKind = "line"
	ReferencePool    ReferenceKind = "pool"
	ReferenceSegment ReferenceKind = "segment"
	ReferenceLabel   ReferenceKind = "label"
	ReferenceUser    ReferenceKind = "user"
	ReferenceTeam    ReferenceKind = "team"
	ReferenceAgent   ReferenceKind = "agent"
)

// Reference is a resource that a draft names. The caller of Check finds out whether it exists.
type Reference struct {
	Kind ReferenceKind
	ID   string // of a label: its name
	Path string // JSON pointer into the draft
}

// Issue is the issue of a reference that leads nowhere.
func (r Reference) Issue() fault.Issue {
	return fault.Issue{Location: "body", Path: r.Path, Code: IssueReference, Message: fmt.Sprintf("There is no such %s.", r.Kind)}
}

// checker collects what is wrong with a draft, and what it refers to.
type checker struct {
	issues     []fault.Issue
	references []Reference
}

func (c *checker) wrong(path, code, format string, args ...any) {
	c.issues = append(c.issues, fault.Issue{Location: "body", Path: path, Code: code, Message: fmt.Sprintf(format, args...)})
}

func (c *checker) refer(kind ReferenceKind, id, path string) {
	c.references = append(c.references, Reference{kind, id, path})
}

// object reads the properties of a JSON object. Each read marks the property as known; unknown reports the others.
type object struct {
	*checker
	path   string
	values map[string]any
	known  []string
}

func (c *checker) object(values map[string]any, path string) *object {
	return &object{checker: c, path: path, values: values}
}

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// EscapePointer returns a name as it stands in a JSON pointer.
func EscapePointer(name string) string { return pointerEscaper.Replace(name) }

func (o *object) at(name string) string { return o.path + "/" + EscapePointer(name) }

func (o *object) invalid(name, format string, args ...any) {
	path := o.path
	if name != "" {
		path = o.at(name)
	}
	o.wrong(path, IssueConfig, format, args...)
}

// unknown reports the properties that were not read.
func (o *object) unknown() {
	var names []string
	for name := range o.values {
		if !slices.Contains(o.known, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		o.invalid(name, "This property is not known here.")
	}
}

// value returns a property; ok is false when it is not given.
func (o *object) value(name string) (value any, ok bool) {
	o.known = append(o.known, name)
	value, ok = o.values[name]
	return value, ok
}

// read returns a property of type T. ok is false when it is not given, or given with another type, which is reported.
func read[T any](o *object, name, expected string) (value T, ok bool) {
	given, is := o.value(name)
	if !is {
		return value, false
	}
	if value, ok = given.(T); !ok {
		o.invalid(name, "Expected %s.", expected)
	}
	return value, ok
}

func (o *object) text(name string) (string, bool) { return read[string](o, name, "a text") }
func (o *object) flag(name string) (bool, bool)   { return read[bool](o, name, "true or false") }

// texts returns a list of texts with at most limit items.
func (o *object) texts(name string, limit int) []string {
	list, ok := read[[]any](o, name, "a list of texts")
	if !ok {
		return nil
	}
	if len(list) > limit {
		o.invalid(name, "Expected at most %d items.", limit)
		return nil
	}
	texts := make([]string, 0, len(list))
	for i, item := range list {
		text, ok := item.(string)
		if !ok || text == "" {
			o.wrong(fmt.Sprintf("%s/%d", o.at(name), i), IssueConfig, "Expected a text.")
			continue
		}
		texts = append(texts, text)
	}
	return texts
}

// ids returns a list of ids and refers to each.
func (o *object) ids(name string, kind ReferenceKind) []string {
	ids := o.texts(name, maxIDs)
	for i, id := range ids {
		o.refer(kind, id, fmt.Sprintf("%s/%d", o.at(name), i))
	}
	return ids
}

// maxIDs is the largest number of lines or pools that a trigger names.
const maxIDs = 100

// reference returns the id of a resource with a prefixed id, and refers to it; nil when there is none.
func (o *object) reference(name string, kind ReferenceKind) *string {
	id, ok := o.text(name)
	if !ok {
		return nil
	}
	o.refer(kind, id, o.at(name))
	return &id
}

// uuid returns the id of a resource and refers to it; nil when there is none.
func (o *object) uuid(name string, kind ReferenceKind) *uuid.UUID {
	text, ok := o.text(name)
	if !ok {
		return nil
	}
	id, err := uuid.Parse(text)
	if err != nil || len(text) != len(id.String()) {
		o.invalid(name, "Expected a UUID.")
		return nil
	}
	o.refer(kind, id.String(), o.at(name))
	return &id
}

// duration returns a duration within the limits of waits; 0 when there is none, or an invalid one.
func (o *object) duration(name string) time.Duration {
	text, ok := o.text(name)
	if !ok {
		return 0
	}
	d, err := ParseDuration(text)
	if err != nil {
		o.invalid(name, "%s", err)
		return 0
	}
	return d
}

// time returns a time in RFC 3339.
func (o *object) time(name string) (time.Time, bool) {
	text, ok := o.text(name)
	if !ok {
		return time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || at.UTC().Year() < 1 || at.UTC().Year() > 9999 {
		o.invalid(name, "Expected a time in RFC 3339.")
		return time.Time{}, false
	}
	return at.UTC().Truncate(time.Millisecond), true
}

// given counts those of the properties that are given.
func (o *object) given(names ...string) int {
	count := 0
	for _, name := range names {
		if _, ok := o.values[name]; ok {
			count++
		}
	}
	return count
}

// exactlyOne reports, at the object, when none or several of the properties are given.
func (o *object) exactlyOne(names ...string) bool {
	if o.given(names...) == 1 {
		return true
	}
	o.known = append(o.known, names...)
	o.invalid("", "Exactly one of %s is needed.", strings.Join(names, ", "))
	return false
}

// empty reports whether a property is not given, or an empty text or list.
func (o *object) empty(name string) bool {
	switch v := o.values[name].(type) {
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	}
	_, given := o.values[name]
	return !given
}

func characters(text string) int { return utf8.RuneCountInString(text) }
