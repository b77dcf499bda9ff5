// Package csvfile writes CSV files that open right in a spreadsheet, and reads those that people send. What a Writer
// wrote, a Reader gives back to the letter.
//
// The form is that of RFC 4180 in UTF-8: commas, quotes doubled within quotes, line breaks allowed within quotes. It is
// not encoding/csv because that changes line breaks inside cells in both directions, and has no bound on what one
// record may hold.
package csvfile

import "fmt"

// MaxColumns is how many columns a file may have.
const MaxColumns = 1000

// byteOrderMark tells spreadsheets that a file is UTF-8.
const byteOrderMark = "\ufeff"

// The problems of a file that make it unreadable.
const (
	Empty           = "empty"            // no header
	WrongSeparator  = "wrong_separator"  // columns are separated by something other than commas
	TooManyColumns  = "too_many_columns" // more than MaxColumns
	UnexpectedQuote = "unexpected_quote" // a quote inside a cell that does not begin with one, or text behind the closing one
	UnclosedQuote   = "unclosed_quote"   // a quoted cell that does not end
	InvalidEncoding = "invalid_encoding" // not UTF-8, or NUL characters
)

// Error says why a file cannot be read. Its message is for the person who sent it and quotes nothing of the file.
type Error struct {
	Problem string
	Row     int // as spreadsheets number them; 0 when it is about the whole file
	Message string
}

// Error implements error.
func (e *Error) Error() string { return "csvfile: " + e.MessageWithRow() }

// MessageWithRow is the message with its place.
func (e *Error) MessageWithRow() string {
	if e.Row > 0 {
		return fmt.Sprintf("Row %d: %s", e.Row, e.Message)
	}
	return e.Message
}
