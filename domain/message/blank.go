package message

import (
	"strings"
	"unicode"
)

// Blank tells that a body shows nothing: it has only spaces, controls and characters without a shape.
func Blank(body string) bool {
	return !strings.ContainsFunc(body, func(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) })
}
