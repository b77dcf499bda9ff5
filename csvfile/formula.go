package csvfile

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// EscapeFormula returns a cell that no spreadsheet takes for a formula: it puts an apostrophe in front of a cell that a
// spreadsheet might compute. The first visible character decides; invisible ones before it (spaces, control characters,
// direction marks) are ignored, because some programs drop them first. Phone numbers are escaped too: a spreadsheet
// would compute and round them because of their plus sign.
//
// A cell that looks escaped already gets one more apostrophe, so that UnescapeFormula returns exactly the original
// text.
func EscapeFormula(cell string) string {
	if isFormula(strings.TrimLeft(cell, "'")) {
		return "'" + cell
	}
	return cell
}

// UnescapeFormula removes the apostrophe that EscapeFormula has put in front. Other apostrophes belong to the text.
func UnescapeFormula(cell string) string {
	if strings.HasPrefix(cell, "'") && isFormula(strings.TrimLeft(cell, "'")) {
		return cell[1:]
	}
	return cell
}

// isFormula tells whether a spreadsheet may take a text for a formula.
func isFormula(text string) bool {
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
