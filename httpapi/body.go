package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"ledgerline/domain/fault"
)

const (
	// defaultMaxBody is what a body may weigh unless its route says otherwise (decisions, section 3).
	defaultMaxBody = 1 << 20
	// drained is how much of an oversized body is still read, so that its sender gets to see the 413 instead of a
	// broken connection.
	drained = 4 << 20
	// maxDepth keeps bodies shallower than any consumer's own limit; Postgres gives up on JSON some thousand levels deep.
	maxDepth = 100
)

// jsonBody is a body that was read: the tree is for checking, canonical for everything else. Decoding from canonical
// and not from the bytes as they came makes sure that what was checked is what is used.
type jsonBody struct {
	present   bool
	tree      any    // whole numbers are int64, others and too large ones float64; keys are escaped, see keyEscaper
	canonical []byte // sorted keys, numbers as they were written
	issues    []fault.Issue
	huge      []*place // of numbers that float64 may not hold as they were written
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// readBody reads and decodes a body of at most limit bytes. It returns payload_too_large, unsupported_media_type or
// bad_request; strings that cannot be stored are issues of the result.
func readBody(r *http.Request, limit int64) (*jsonBody, error) {
	if r.ContentLength > limit {
		return nil, tooLarge(r, limit)
	}
	buffer, _ := buffers.Get().(*bytes.Buffer)
	buffer.Reset()
	defer func() {
		if buffer.Cap() <= defaultMaxBody {
			buffers.Put(buffer)
		}
	}()
	if _, err := buffer.ReadFrom(io.LimitReader(r.Body, limit+1)); err != nil {
		return nil, &fault.Fault{Code: fault.BadRequest, Message: "The body could not be read.", Cause: err}
	}
	if int64(buffer.Len()) > limit {
		return nil, tooLarge(r, limit)
	}
	if buffer.Len() == 0 {
		return &jsonBody{}, nil
	}
	if err := checkMediaType(r.Header); err != nil {
		return nil, err
	}
	return decodeBody(buffer.Bytes())
}

func tooLarge(r *http.Request, limit int64) error {
	_, _ = io.CopyN(io.Discard, r.Body, drained) // what fails here fails again for the sender
	return fault.New(fault.PayloadTooLarge, "The body is larger than %d bytes.", limit)
}

// checkMediaType accepts JSON in UTF-8. A body without a content type is taken for JSON.
func checkMediaType(header http.Header) error {
	values := header["Content-Type"]
	if len(values) == 0 || len(values) == 1 && values[0] == "application/json" {
		return nil
	}
	kind, params, err := mime.ParseMediaType(values[0])
	if err != nil || len(values) > 1 || kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return fault.New(fault.UnsupportedMediaType, "The body must be JSON: content-type application/json.")
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return fault.New(fault.UnsupportedMediaType, "The body must be JSON in UTF-8.")
	}
	return nil
}

func decodeBody(raw []byte) (*jsonBody, error) {
	if !utf8.Valid(raw) {
		raw = markInvalid(raw)
	}
	if nesting(raw) > maxDepth {
		return nil, fault.New(fault.BadRequest, "The body is nested deeper than %d levels.", maxDepth)
	}
	if !json.Valid(raw) {
		return nil, malformed(raw)
	}
	body := &jsonBody{present: true}
	var twice []string
	body.tree, twice = decodeJSON(raw)
	for _, at := range twice {
		body.add(at, "duplicate_property", "This property is given more than once.")
	}
	body.canonical = appendCanonical(make([]byte, 0, len(raw)), body.tree)
	body.tree = body.normalise(body.tree, nil)
	return body, nil
}

func malformed(raw []byte) error {
	err := json.Unmarshal(raw, new(any))
	f := &fault.Fault{Code: fault.BadRequest, Message: "The body is not valid JSON.", Cause: err}
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		f.Message = "The body is not valid JSON: see byte " + strconv.FormatInt(syntax.Offset, 10) + "."
	}
	return f
}

// markInvalid replaces every byte that is not UTF-8 by an escaped NUL, which the decoder accepts only within a string,
// where normalise finds it and can tell the place. Left alone, such bytes would silently become U+FFFD.
func markInvalid(raw []byte) []byte {
	marked := make([]byte, 0, len(raw)+64)
	for len(raw) > 0 {
		r, size := utf8.DecodeRune(raw)
		if r == utf8.RuneError && size == 1 {
			marked = append(marked, `\u0000`...)
		} else {
			marked = append(marked, raw[:size]...)
		}
		raw = raw[size:]
	}
	return marked
}

// nesting is the greatest depth of arrays and objects, counted before anything recursive touches the body.
func nesting(raw []byte) int {
	depth, deepest, inside := 0, 0, false
	for i := 0; i < len(raw); i++ {
		switch b := raw[i]; {
		case inside && b == '\\':
			i++
		case b == '"':
			inside = !inside
		case inside:
		case b == '{' || b == '[':
			if depth++; depth > deepest {
				deepest = depth
			}
		case b == '}' || b == ']':
			depth--
		}
	}
	return deepest
}

// normalise makes a decoded tree ready for the schema: numbers become float64, keys are escaped, and what cannot be
// stored is noted.
func (b *jsonBody) normalise(value any, at *place) any {
	switch v := value.(type) {
	case json.Number:
		return b.number(v, at)
	case string:
		if strings.IndexByte(v, 0) >= 0 {
			b.note(at, "invalid_characters", "This text must be valid UTF-8 without NUL characters.")
		}
	case []any:
		for i, item := range v {
			v[i] = b.normalise(item, &place{above: at, index: i, isIndex: true})
		}
	case map[string]any:
		var renamed map[string]any
		for name, item := range v {
			here := place{above: at, name: name}
			if strings.IndexByte(name, 0) >= 0 {
				b.note(&here, "invalid_characters", "A property name must be valid UTF-8 without NUL characters.")
			}
			v[name] = b.normalise(item, &here)
			if strings.ContainsAny(name, ".[]") {
				if renamed == nil {
					renamed = map[string]any{}
				}
				renamed[name] = v[name]
			}
		}
		for name, item := range renamed {
			delete(v, name)
			v[keyEscaper.Replace(name)] = item
		}
	}
	return value
}

// number is a number as the schema is held against it. What would not be kept as it was written is an issue: also in
// metadata, custom fields and other values of any shape.
func (b *jsonBody) number(v json.Number, at *place) any {
	if whole, err := v.Int64(); err == nil {
		if whole > maxInteger || whole < -maxInteger {
			b.huge = append(b.huge, at)
		}
		return whole
	}
	number, err := v.Float64()
	switch {
	case err != nil:
		b.note(at, "out_of_range", "This number is too large.")
	case math.Abs(number) > maxInteger && !strings.ContainsAny(v.String(), "eE"):
		b.huge = append(b.huge, at)
	}
	return number
}

// place is where in a body something lies. It becomes a JSON pointer only when there is something to tell about it.
type place struct {
	above   *place // nil for the root
	name    string
	index   int
	isIndex bool
}

func (p *place) String() string {
	if p == nil {
		return ""
	}
	if p.isIndex {
		return p.above.String() + "/" + strconv.Itoa(p.index)
	}
	return p.above.String() + "/" + pointerEscaper.Replace(p.name)
}

// note is add for what a client can make many of, below names of any length.
func (b *jsonBody) note(at *place, code, message string) {
	if len(b.issues) <= maxIssues {
		b.add(at.String(), code, message)
	}
}

func (b *jsonBody) add(pointer, code, message string) {
	b.issues = append(b.issues, fault.Issue{Location: "body", Path: pointer, Code: code, Message: message})
}

// Huma tells places as body.media[0].url and cannot tell its own dots and brackets from those in a client's keys. So
// they are replaced while it looks, by code points that are no characters, and put back when its places are read.
var (
	keyEscaper     = strings.NewReplacer(".", "\uFDD0", "[", "\uFDD1", "]", "\uFDD2")
	keyUnescaper   = strings.NewReplacer("\uFDD0", ".", "\uFDD1", "[", "\uFDD2", "]")
	pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")
)
