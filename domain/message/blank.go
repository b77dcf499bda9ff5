package message

import (
	"strings"
	"unicode"
)

// Blank reports whether a body shows nothing: it holds only spaces, control characters and invisible characters. Such
// a body counts as no body (rule SND-6).
func Blank(body string) bool {
	return !strings.ContainsFunc(body, func(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) })
}
