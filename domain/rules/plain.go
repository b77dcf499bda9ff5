package rules

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// plain normalises a text to what a reader sees (rule SND-15): compatibility forms such as fullwidth letters become
// plain ones, digits of all scripts become 0 to 9, dashes, spaces and full stops become the usual ones, and invisible
// characters are removed.
func plain(text string) string {
	if ascii(text) {
		return text
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r < utf8.RuneSelf:
			return r
		case unicode.Is(unicode.Nd, r):
			return digit(r)
		case unicode.Is(unicode.Pd, r), r == '\u2212': // minus
			return '-'
		case unicode.Is(unicode.Zs, r):
			return ' '
		case unicode.Is(unicode.Cf, r):
			return -1
		}
		switch r {
		case '\u3002', '\u06d4', '\u0964', '\u1362', '\u166e', '\u1803', '\ua4ff': // the full stops of other scripts
			return '.'
		}
		return r
	}, norm.NFKC.String(text))
}

func ascii(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// digit gives 0 to 9 for a decimal digit of any script. In Unicode the ten digits of a script follow each other, from
// zero.
func digit(r rune) rune {
	const ten = 10
	for _, block := range unicode.Nd.R16 {
		if lo := rune(block.Lo); lo <= r && r <= rune(block.Hi) {
			return '0' + (r-lo)%ten
		}
	}
	for _, block := range unicode.Nd.R32 {
		if lo := rune(block.Lo); lo <= r && r <= rune(block.Hi) { //nolint:gosec // it is a rune
			return '0' + (r-lo)%ten
		}
	}
	return r
}
