package csvfile

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// formulaStarts are the characters with which a formula begins. The wide and small forms are read as the plain ones by
// East Asian editions.
const formulaStarts = "=+-@＝＋－＠﹦﹢﹣﹫"

// innerSeparators are the characters behind which a program that reads the file with another separator begins a new
// cell or row, in spite of the quotes around the cell. A comma is not among them: where it separates, quotes count.
const innerSeparators = ";\t\r\n"

// EscapeFormula returns a cell that no spreadsheet takes for a formula: it puts an apostrophe in front of every part of
// the cell that a spreadsheet might compute. A part begins with the cell and behind each inner separator. Its first
// visible character decides; quotes and invisible characters before it (spaces, control characters, direction marks)
// are ignored, because some programs drop them first. Phone numbers are escaped too: a spreadsheet would compute and
// round them because of their plus sign.
//
// A part that looks escaped already gets one more apostrophe, so that UnescapeFormula returns exactly the original
// text.
func EscapeFormula(cell string) string {
	return eachPart(cell, func(b *strings.Builder, part string) {
		b.WriteByte('\'')
		b.WriteString(part)
	})
}

// UnescapeFormula removes the apostrophes that EscapeFormula has put in. Other apostrophes belong to the text.
func UnescapeFormula(cell string) string {
	return eachPart(cell, func(b *strings.Builder, part string) { b.WriteString(strings.TrimPrefix(part, "'")) })
}

// eachPart copies a cell and lets write copy the parts that are formulas behind their apostrophes.
func eachPart(cell string, write func(b *strings.Builder, part string)) string {
	if !strings.ContainsAny(cell, formulaStarts+innerSeparators) {
		return cell
	}
	var b strings.Builder
	for first, rest := true, cell; rest != "" || first; first = false {
		part := rest
		if end := strings.IndexAny(rest, innerSeparators); end >= 0 {
			part = rest[:end+1]
		}
		if isFormula(strings.TrimLeft(part, "'"), first) {
			write(&b, part)
		} else {
			b.WriteString(part)
		}
		rest = rest[len(part):]
	}
	return b.String()
}

// isFormula tells whether a spreadsheet may take a part of a cell for a formula. The first part is one also when a tab
// or a line break leads it: the formula behind it may lose that.
func isFormula(part string, first bool) bool {
	for part != "" {
		r, size := utf8.DecodeRuneInString(part)
		switch {
		case strings.ContainsRune(formulaStarts, r):
			return true
		case r == '\t' || r == '\r' || r == '\n':
			return first
		case r != '"' && !unicode.IsSpace(r) && !unicode.IsControl(r) && !unicode.Is(unicode.Cf, r):
			return false
		}
		part = part[size:]
	}
	return false
}
