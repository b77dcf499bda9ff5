package csvfile

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// EscapeFormula gives a cell that no spreadsheet runs as a formula: with an apostrophe in front if it would, else as it is. What
// counts is the first character that is seen; what is invisible in front of it (spaces, controls, marks of direction) is
// dropped by some programs before they look, so it makes no difference here. No kind of cell is excepted: a phone number
// with its plus would be computed too, and come back from the spreadsheet rounded.
//
// A cell that looks as if it had been guarded already gets one more apostrophe, so that Unguard gives back the very text.
func EscapeFormula(cell string) string {
	if runs(strings.TrimLeft(cell, "'")) {
		return "'" + cell
	}
	return cell
}

// UnescapeFormula takes off what Guard put in front, and nothing else: other apostrophes belong to the text.
func UnescapeFormula(cell string) string {
	if strings.HasPrefix(cell, "'") && runs(strings.TrimLeft(cell, "'")) {
		return cell[1:]
	}
	return cell
}

// runs tells whether a spreadsheet may take the text for something to compute.
func runs(text string) bool {
	for text != "" {
		r, size := utf8.DecodeRuneInString(text)
		switch r {
		case '=', '+', '-', '@',
			'＝', '＋', '－', '＠', // full width, which East Asian editions read as the plain ones
			'﹦', '﹢', '﹣', '﹫': // small forms, the same
			return true
		case '\t', '\r', '\n':
			return true
		}
		if !unicode.IsSpace(r) && !unicode.IsControl(r) && !unicode.Is(unicode.Cf, r) {
			return false
		}
		text = text[size:]
	}
	return false
}
