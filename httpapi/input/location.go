package input

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// location is where a value lies in a body. It becomes a JSON pointer only when there is an issue to report.
type location struct {
	parent  *location // nil at the top level
	name    string    // of a property
	index   int       // of an item, when isIndex
	isIndex bool
}

// String returns the JSON pointer, cut to MaxPath bytes; "" for the whole body.
func (l *location) String() string {
	var steps []*location
	for at := l; at != nil; at = at.parent {
		steps = append(steps, at)
	}
	var p pointer
	for _, step := range slices.Backward(steps) {
		if step.isIndex {
			p.index(step.index)
		} else {
			p.property(step.name)
		}
	}
	return p.String()
}

// MaxPath is the length in bytes at which a JSON pointer is cut (rule API-10). Names of properties are the client's, of
// any length and number: an answer that repeated them all could be many times as large as the request.
const MaxPath = 512

// pointer builds a JSON pointer. It takes no more steps once it is longer than MaxPath.
type pointer struct{ text []byte }

func (p *pointer) index(i int) {
	if len(p.text) <= MaxPath {
		p.text = strconv.AppendInt(append(p.text, '/'), int64(i), 10)
	}
}

func (p *pointer) property(name string) {
	if len(p.text) <= MaxPath {
		p.text = append(append(p.text, '/'), pointerEscaper.Replace(name[:min(len(name), MaxPath+utf8.UTFMax)])...)
	}
}

func (p *pointer) String() string { return Cut(string(p.text), MaxPath) }

// Cut returns a text of at most limit bytes as it is, and the beginning of a longer one with an ellipsis.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return strings.Clone(text[:limit]) + "…"
}

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// Huma writes locations as body.media[0].url, in which dots and brackets of a client's own keys are ambiguous. The keys
// of a body therefore have these characters replaced by Unicode noncharacters during validation; pointerOf restores
// them.
var (
	keyEscaper   = strings.NewReplacer(".", "\uFDD0", "[", "\uFDD1", "]", "\uFDD2")
	keyUnescaper = strings.NewReplacer("\uFDD0", ".", "\uFDD1", "[", "\uFDD2", "]")
)

// pointerOf splits Huma's body.media[0].url into body and /media/0/url.
func pointerOf(huma string) (in, pointer string) {
	cut := strings.IndexAny(huma, ".[")
	if cut < 0 {
		return huma, ""
	}
	var path strings.Builder
	for rest := huma[cut:]; rest != ""; {
		end := strings.IndexAny(rest[1:], ".[")
		segment := rest[1:]
		if end >= 0 {
			segment = rest[1 : end+1]
		}
		if rest[0] == '[' {
			segment = strings.TrimSuffix(segment, "]")
		}
		path.WriteByte('/')
		path.WriteString(pointerEscaper.Replace(keyUnescaper.Replace(segment)))
		if end < 0 {
			break
		}
		rest = rest[end+1:]
	}
	return huma[:cut], path.String()
}
