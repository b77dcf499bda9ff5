package input

import (
	"bytes"
	"io"

	"ledgerline/domain/fault"
)

const (
	// maxDepth bounds the nesting of bodies. PostgreSQL rejects JSON that is some thousand levels deep.
	maxDepth = 100
	// maxValues bounds the values of a body (rule API-7). A decoded value takes up to a hundred times the memory of its
	// text: without the bound, 30 MiB of empty lists become 1.5 GB.
	maxValues = 20_000
	// readChunk is how much of a body is read before its form is checked again.
	readChunk = 32 << 10
)

// form checks the form of JSON as it is read, without decoding it: how deep it is nested and how many values it has. It
// does not find out whether the JSON is valid. The count is exact for valid JSON without empty lists and objects, and
// never too low.
type form struct {
	depth, values     int
	inString, escaped bool
}

// check looks at the next piece of a body. It returns fault bad_request as soon as a bound is passed.
func (f *form) check(piece []byte) error {
	for _, b := range piece {
		switch {
		case f.escaped:
			f.escaped = false
		case f.inString:
			f.inString, f.escaped = b != '"', b == '\\'
		case b == '"':
			f.inString = true
		case b == ',':
			f.values++
		case b == '{' || b == '[':
			f.values++
			f.depth++
		case b == '}' || b == ']':
			f.depth--
		}
		if f.depth > maxDepth {
			return fault.New(fault.BadRequest, "The body is nested deeper than %d levels.", maxDepth)
		}
		if f.values > maxValues {
			return fault.New(fault.BadRequest, "The body has more than %d values.", maxValues)
		}
	}
	return nil
}

// readAll reads a body of at most limit bytes into the buffer and checks its form meanwhile. size is the declared
// length; -1 when it is not known. tooLarge reports that the body is larger than limit.
func readAll(r io.Reader, buffer *bytes.Buffer, size, limit int64) (tooLarge bool, err error) {
	if size >= 0 {
		buffer.Grow(int(min(size, limit)) + readChunk)
	}
	var f form
	for {
		buffer.Grow(readChunk)
		piece := buffer.AvailableBuffer()[:readChunk]
		n, err := r.Read(piece)
		buffer.Write(piece[:n]) // in place
		if int64(buffer.Len()) > limit {
			return true, nil
		}
		if wrong := f.check(piece[:n]); wrong != nil {
			return false, wrong
		}
		if err == io.EOF { //nolint:errorlint // readers return it unwrapped
			return false, nil
		}
		if err != nil {
			return false, &fault.Fault{Code: fault.BadRequest, Message: "The body could not be read.", Cause: err}
		}
	}
}
