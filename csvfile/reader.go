package csvfile

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Reader reads the rows of a file that is in memory. Cells share the memory of the file where possible, and a row has
// at most as many cells as the header, so a row costs little more than the list of its cells.
type Reader struct {
	text   string
	header []string
	row    int // number of the row that was read last
	cells  []string
}

// Row is one row of a file.
type Row struct {
	// Number is the row's number in a spreadsheet: the header is 1 unless blank lines come before it, blank rows count,
	// and line breaks within a cell do not count.
	Number int
	// Cells are at most as many as the header has. They are valid until the next row is read.
	Cells []string
	// Width is how many cells the row has in the file.
	Width int
}

// NewReader reads the header of a file. It returns an *Error when the file cannot be read.
func NewReader(text string) (*Reader, error) {
	text = strings.TrimPrefix(text, byteOrderMark)
	if !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 {
		return nil, &Error{Problem: InvalidEncoding, Message: "The file must be text in UTF-8 without NUL characters."}
	}
	r := &Reader{text: text}
	if name := otherSeparator(text); name != "" {
		return nil, &Error{Problem: WrongSeparator, Message: "The columns are separated by " + name + ". They must be separated by commas."}
	}
	header, err := r.readRow(MaxColumns)
	for err == nil && blank(header.Cells) {
		header, err = r.readRow(MaxColumns)
	}
	switch {
	case err == io.EOF: //nolint:errorlint // as readRow returns it
		return nil, &Error{Problem: Empty, Message: "The file has no header."}
	case err != nil:
		return nil, err
	case header.Width > MaxColumns:
		return nil, &Error{Problem: TooManyColumns, Row: header.Number, Message: "The file has too many columns."}
	}
	r.header = append([]string(nil), header.Cells...)
	return r, nil
}

// Header is the names of the columns, as written in the file.
func (r *Reader) Header() []string { return r.header }

// Next reads the next row that is not blank. It returns io.EOF at the end, and an *Error when the rest of the file
// cannot be read. A row that is wider or narrower than the header is no error.
func (r *Reader) Next() (Row, error) {
	for {
		row, err := r.readRow(len(r.header))
		if err != nil || row.Width > len(row.Cells) || !blank(row.Cells) {
			return row, err
		}
	}
}

func blank(cells []string) bool {
	for _, c := range cells {
		if c != "" {
			return false
		}
	}
	return true
}

// readRow reads one row and keeps its first maxCells cells.
func (r *Reader) readRow(maxCells int) (Row, error) {
	if r.text == "" {
		return Row{}, io.EOF
	}
	r.row++
	row := Row{Number: r.row}
	r.cells = r.cells[:0]
	for {
		cell, ended, err := r.cell()
		if err != nil {
			return Row{}, err
		}
		if row.Width++; row.Width <= maxCells {
			r.cells = append(r.cells, UnescapeFormula(cell))
		}
		if ended {
			row.Cells = r.cells
			return row, nil
		}
	}
}

// cell reads one cell and the separator after it; ended is true when the row ends there.
func (r *Reader) cell() (cell string, ended bool, err error) {
	if strings.HasPrefix(r.text, `"`) {
		if cell, err = r.quoted(); err != nil {
			return "", false, err
		}
		if r.text != "" && !strings.ContainsRune(",\r\n", rune(r.text[0])) {
			return "", false, &Error{Problem: UnexpectedQuote, Row: r.row, Message: "A quote stands inside a cell. Within a quoted cell it must be doubled."}
		}
	} else {
		end := strings.IndexAny(r.text, ",\r\n\"")
		if end < 0 {
			end = len(r.text)
		}
		if cell = r.text[:end]; end < len(r.text) && r.text[end] == '"' {
			return "", false, &Error{Problem: UnexpectedQuote, Row: r.row, Message: "A quote stands inside a cell. Such a cell must be quoted, and the quote doubled."}
		}
		r.text = r.text[end:]
	}
	switch {
	case strings.HasPrefix(r.text, ","):
		r.text = r.text[1:]
		return cell, false, nil
	case strings.HasPrefix(r.text, "\r\n"):
		r.text = r.text[2:]
	case r.text != "":
		r.text = r.text[1:]
	}
	return cell, true, nil
}

// quoted reads a quoted cell with its closing quote.
func (r *Reader) quoted() (string, error) {
	var parts strings.Builder
	rest := r.text[1:]
	for {
		end := strings.IndexByte(rest, '"')
		if end < 0 {
			return "", &Error{Problem: UnclosedQuote, Row: r.row, Message: "A quoted cell does not end."}
		}
		if !strings.HasPrefix(rest[end+1:], `"`) {
			r.text = rest[end+1:]
			if parts.Len() == 0 {
				return rest[:end], nil
			}
			parts.WriteString(rest[:end])
			return parts.String(), nil
		}
		parts.WriteString(rest[:end+1])
		rest = rest[end+2:]
	}
}

// otherSeparator names the separator of a file whose first line has no commas, for an error message; "" when the file
// may have just one column.
func otherSeparator(text string) string {
	text = strings.TrimLeft(text, "\r\n")
	if end := strings.IndexAny(text, "\r\n"); end >= 0 {
		text = text[:end]
	}
	if strings.ContainsRune(text, ',') {
		return ""
	}
	for _, other := range []struct{ separator, name string }{{";", "semicolons"}, {"\t", "tabs"}, {"|", "bars"}} {
		if strings.Contains(text, other.separator) {
			return other.name
		}
	}
	return ""
}
