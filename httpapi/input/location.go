package input

import (
	"strconv"
	"strings"
)

// location is where a value lies in a body. It becomes a JSON pointer only when there is an issue to report.
type location struct {
	parent  *location // nil at the top level
	name    string    // of a property
	index   int       // of an item, when isIndex
	isIndex bool
}

// String returns the JSON pointer; "" for the whole body.
func (l *location) String() string {
	if l == nil {
		return ""
	}
	if l.isIndex {
		return l.parent.String() + "/" + strconv.Itoa(l.index)
	}
	return l.parent.String() + "/" + pointerEscaper.Replace(l.name)
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
