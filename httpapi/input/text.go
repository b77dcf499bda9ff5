package input

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Storable reports whether PostgreSQL can store the text: valid UTF-8 without NUL.
func Storable(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// IsVisibleASCII reports whether the text has only printable ASCII characters and no spaces.
func IsVisibleASCII(s string) bool {
	for i := range len(s) {
		if s[i] < '!' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Printable returns the text without invalid bytes and control characters, cut to limit characters.
func Printable(s string, limit int) string {
	if len(s) <= limit && IsVisibleASCII(s) {
		return s
	}
	count := 0
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) || count >= limit {
			return -1
		}
		count++
		return r
	}, s)
}
