package input

import (
	"encoding/json"
	"strings"
)

// decodeJSON decodes JSON that is known to be valid and not too deep into string, json.Number, bool, nil, []any and
// map[string]any. Unlike encoding/json it also returns the JSON pointers of properties that an object has twice; the
// last one is in the tree. It is faster than encoding/json, because it checks nothing.
func decodeJSON(valid []byte) (tree any, duplicates []string) {
	d := decoder{raw: valid}
	return d.value(), d.duplicates
}

type decoder struct {
	raw        []byte
	offset     int
	path       []segment // to the value that is being decoded
	duplicates []string
}

// segment is one step of a path: a property, or an item of a list.
type segment struct {
	name  string
	index int // -1 for a property
}

func (d *decoder) value() any {
	switch d.next() {
	case '{':
		return d.object()
	case '[':
		return d.list()
	case '"':
		return d.text()
	case 't':
		d.offset += len("true")
		return true
	case 'f':
		d.offset += len("false")
		return false
	case 'n':
		d.offset += len("null")
		return nil
	default:
		return d.number()
	}
}

// next skips white space and returns the byte after it without consuming it.
func (d *decoder) next() byte {
	for {
		switch b := d.raw[d.offset]; b {
		case ' ', '\n', '\t', '\r':
			d.offset++
		default:
			return b
		}
	}
}

// more consumes the opening bracket or a comma and reports whether another member follows. It also consumes the closing
// bracket.
func (d *decoder) more(closing byte) bool {
	if d.next() != closing { // the comma, or the opening bracket
		d.offset++
		if d.next() != closing {
			return true
		}
	}
	d.offset++
	return false
}

func (d *decoder) object() map[string]any {
	object := map[string]any{}
	for d.more('}') {
		name := d.text()
		d.next()
		d.offset++ // the colon
		d.path = append(d.path, segment{name, -1})
		if _, known := object[name]; known && len(d.duplicates) <= MaxIssues {
			d.duplicates = append(d.duplicates, d.pointer())
		}
		object[name] = d.value()
		d.path = d.path[:len(d.path)-1]
	}
	return object
}

func (d *decoder) list() []any {
	list := []any{}
	for d.more(']') {
		d.path = append(d.path, segment{"", len(list)})
		list = append(list, d.value())
		d.path = d.path[:len(d.path)-1]
	}
	return list
}

// text decodes a string; encoding/json decodes those with escapes.
func (d *decoder) text() string {
	start, escaped := d.offset, false
	for d.offset++; d.raw[d.offset] != '"'; d.offset++ {
		if d.raw[d.offset] == '\\' {
			escaped = true
			d.offset++
		}
	}
	d.offset++
	if !escaped {
		return string(d.raw[start+1 : d.offset-1])
	}
	var text string
	_ = json.Unmarshal(d.raw[start:d.offset], &text) // it is valid
	return text
}

func (d *decoder) number() json.Number {
	start := d.offset
	for d.offset < len(d.raw) && strings.IndexByte("+-.0123456789eE", d.raw[d.offset]) >= 0 {
		d.offset++
	}
	return json.Number(d.raw[start:d.offset])
}

// pointer is the JSON pointer of the value that is being decoded, cut to MaxPath bytes.
func (d *decoder) pointer() string {
	var p pointer
	for _, s := range d.path {
		if s.index >= 0 {
			p.index(s.index)
		} else {
			p.property(s.name)
		}
	}
	return p.String()
}
