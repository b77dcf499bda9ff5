package httpapi

import (
	"encoding/json"
	"strconv"
	"strings"
)

// decodeJSON makes a tree of JSON that is known to be valid and not too deep: string, json.Number, bool, nil, []any and
// map[string]any. It differs from the standard library in one thing, which that cannot be asked for: it tells the places
// (JSON pointers) of properties that an object has twice. The last one is in the tree. As it has nothing to check, it is
// also the faster of the two.
func decodeJSON(valid []byte) (tree any, twice []string) {
	r := reading{raw: valid}
	return r.value(), r.twice
}

type reading struct {
	raw   []byte
	at    int
	path  []step // to the value that is being read
	twice []string
}

// step is a property or, with an index, a place in a list.
type step struct {
	name  string
	index int // -1 for a property
}

func (r *reading) value() any {
	switch r.next() {
	case '{':
		return r.object()
	case '[':
		return r.list()
	case '"':
		return r.text()
	case 't':
		r.at += len("true")
		return true
	case 'f':
		r.at += len("false")
		return false
	case 'n':
		r.at += len("null")
		return nil
	default:
		return r.number()
	}
}

// next is the next byte that is no space.
func (r *reading) next() byte {
	for {
		switch b := r.raw[r.at]; b {
		case ' ', '\n', '\t', '\r':
			r.at++
		default:
			return b
		}
	}
}

// more steps over the opening bracket or a comma, and tells whether another member follows; it steps over the end.
func (r *reading) more(end byte) bool {
	if r.next() != end { // the comma, or the opening bracket
		r.at++
		if r.next() != end {
			return true
		}
	}
	r.at++
	return false
}

func (r *reading) object() map[string]any {
	made := map[string]any{}
	for r.more('}') {
		name := r.text()
		r.next()
		r.at++ // the colon
		r.path = append(r.path, step{name, -1})
		if _, known := made[name]; known && len(r.twice) <= maxIssues {
			r.twice = append(r.twice, r.place())
		}
		made[name] = r.value()
		r.path = r.path[:len(r.path)-1]
	}
	return made
}

func (r *reading) list() []any {
	made := []any{}
	for r.more(']') {
		r.path = append(r.path, step{"", len(made)})
		made = append(made, r.value())
		r.path = r.path[:len(r.path)-1]
	}
	return made
}

// text reads a string. What is escaped is left to the library.
func (r *reading) text() string {
	start, escaped := r.at, false
	for r.at++; r.raw[r.at] != '"'; r.at++ {
		if r.raw[r.at] == '\\' {
			escaped = true
			r.at++
		}
	}
	r.at++
	if !escaped {
		return string(r.raw[start+1 : r.at-1])
	}
	var text string
	_ = json.Unmarshal(r.raw[start:r.at], &text) // it is valid
	return text
}

func (r *reading) number() json.Number {
	start := r.at
	for r.at < len(r.raw) && strings.IndexByte("+-.0123456789eE", r.raw[r.at]) >= 0 {
		r.at++
	}
	return json.Number(r.raw[start:r.at])
}

// place is where the value that is being read lies, as a JSON pointer.
func (r *reading) place() string {
	var pointer strings.Builder
	for _, s := range r.path {
		pointer.WriteByte('/')
		if s.index >= 0 {
			pointer.WriteString(strconv.Itoa(s.index))
		} else {
			pointer.WriteString(pointerEscaper.Replace(s.name))
		}
	}
	return pointer.String()
}
