package input

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
	// DefaultMaxBody is the largest body in bytes, unless the route allows another size (rule API-26).
	DefaultMaxBody = 1 << 20
	// maxDiscarded is how much of a refused body is still read. A client that may finish sending sees the refusal instead
	// of a broken connection.
	maxDiscarded = 4 << 20
	// MaxIssues is how many issues an answer lists (rule API-10).
	MaxIssues = 100
	// maxInteger bounds every number that has no tighter bound (rule API-5).
	maxInteger = 1<<53 - 1
)

// Body is a JSON body that was read. The endpoint decodes Canonical and not the bytes as they came, so that it uses
// exactly what was checked.
type Body struct {
	Present   bool
	Canonical []byte        // sorted keys, numbers as they were written
	Issues    []fault.Issue // what is wrong with it; may exceed MaxIssues by one

	// tree is the decoded body for validation: whole numbers are int64, other and larger ones float64; keys are escaped by
	// keyEscaper.
	tree any
	// inexact are the locations of numbers that a float64 may not hold as they were written.
	inexact []*location
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// ReadBody reads and decodes a body of at most limit bytes. It returns fault payload_too_large, unsupported_media_type
// or bad_request; a body whose form passes a bound is refused while it is read. Texts and numbers that cannot be stored
// are issues of the result.
func ReadBody(r *http.Request, limit int64) (*Body, error) {
	buffer, _ := buffers.Get().(*bytes.Buffer)
	buffer.Reset()
	defer func() {
		if buffer.Cap() <= DefaultMaxBody {
			buffers.Put(buffer)
		}
	}()
	if err := readText(r, buffer, limit); err != nil {
		return nil, err
	}
	if buffer.Len() == 0 {
		return &Body{}, nil
	}
	if err := checkMediaType(r.Header); err != nil {
		return nil, err
	}
	return decodeBody(buffer.Bytes())
}

// ReadText reads a JSON body of at most limit bytes and checks its form, but neither its content type nor that it is
// valid. It returns fault payload_too_large or bad_request.
func ReadText(r *http.Request, limit int64) ([]byte, error) {
	var buffer bytes.Buffer
	err := readText(r, &buffer, limit)
	return buffer.Bytes(), err
}

func readText(r *http.Request, buffer *bytes.Buffer, limit int64) error {
	if r.ContentLength > limit {
		return tooLarge(r, limit)
	}
	large, err := readAll(r.Body, buffer, r.ContentLength, limit)
	if large {
		return tooLarge(r, limit)
	}
	if err != nil {
		discard(r)
	}
	return err
}

// discard reads what the client is still sending of a refused body, up to maxDiscarded.
func discard(r *http.Request) {
	_, _ = io.CopyN(io.Discard, r.Body, maxDiscarded) // an error means that the client has disconnected
}

func tooLarge(r *http.Request, limit int64) error {
	discard(r)
	return fault.New(fault.PayloadTooLarge, "The body is larger than %d bytes.", limit)
}

// checkMediaType accepts JSON in UTF-8. A body without a content type is treated as JSON.
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

// decodeBody decodes JSON whose form has been checked.
func decodeBody(raw []byte) (*Body, error) {
	if !utf8.Valid(raw) {
		raw = markInvalid(raw)
	}
	if !json.Valid(raw) {
		return nil, malformed(raw)
	}
	body := &Body{Present: true}
	var duplicates []string
	body.tree, duplicates = decodeJSON(raw)
	for _, pointer := range duplicates {
		body.Add(pointer, "duplicate_property", "This property is given more than once.")
	}
	body.Canonical = appendCanonical(make([]byte, 0, len(raw)), body.tree)
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

// markInvalid replaces every byte that is not UTF-8 by an escaped NUL. JSON allows that only within a string, where
// normalise finds it and can report the location. The decoder would replace such bytes by U+FFFD without an error.
// After MaxIssues of them it writes a question mark, so that the text does not grow.
func markInvalid(raw []byte) []byte {
	marked, found := make([]byte, 0, len(raw)+6*MaxIssues+64), 0
	for len(raw) > 0 {
		r, size := utf8.DecodeRune(raw)
		if r == utf8.RuneError && size == 1 {
			if found++; found <= MaxIssues {
				marked = append(marked, `\u0000`...)
			} else {
				marked = append(marked, '?')
			}
		} else {
			marked = append(marked, raw[:size]...)
		}
		raw = raw[size:]
	}
	return marked
}

// normalise prepares a decoded tree for validation. It converts numbers to int64 or float64, escapes keys, and reports
// texts and numbers that cannot be stored.
func (b *Body) normalise(value any, at *location) any {
	switch v := value.(type) {
	case json.Number:
		return b.number(v, at)
	case string:
		if strings.IndexByte(v, 0) >= 0 {
			b.addAt(at, "invalid_characters", "This text must be valid UTF-8 without NUL characters.")
		}
	case []any:
		for i, item := range v {
			v[i] = b.normalise(item, &location{parent: at, index: i, isIndex: true})
		}
	case map[string]any:
		var toEscape map[string]any
		for name, item := range v {
			here := location{parent: at, name: name}
			if strings.IndexByte(name, 0) >= 0 {
				b.addAt(&here, "invalid_characters", "A property name must be valid UTF-8 without NUL characters.")
			}
			v[name] = b.normalise(item, &here)
			if strings.ContainsAny(name, ".[]") {
				if toEscape == nil {
					toEscape = map[string]any{}
				}
				toEscape[name] = v[name]
			}
		}
		for name, item := range toEscape {
			delete(v, name)
			v[keyEscaper.Replace(name)] = item
		}
	}
	return value
}

// number converts a number for validation. A number that would not be stored as it was written is reported, also in
// metadata, custom fields and other values of any shape.
func (b *Body) number(v json.Number, at *location) any {
	if whole, err := v.Int64(); err == nil {
		if whole > maxInteger || whole < -maxInteger {
			b.inexact = append(b.inexact, at)
		}
		return whole
	}
	number, err := v.Float64()
	switch {
	case err != nil:
		b.addAt(at, "out_of_range", "This number is too large.")
	case math.Abs(number) > maxInteger && !strings.ContainsAny(v.String(), "eE"):
		b.inexact = append(b.inexact, at)
	}
	return number
}

// Add reports an issue at a JSON pointer. Beyond MaxIssues it does nothing.
func (b *Body) Add(pointer, code, message string) {
	if len(b.Issues) <= MaxIssues {
		b.Issues = append(b.Issues, fault.Issue{Location: "body", Path: pointer, Code: code, Message: message})
	}
}

// addAt is Add for a location. It makes no pointer that Add would not keep.
func (b *Body) addAt(at *location, code, message string) {
	if len(b.Issues) <= MaxIssues {
		b.Add(at.String(), code, message)
	}
}
