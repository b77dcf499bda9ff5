// Package csvfile writes CSV files that open correctly in spreadsheets, and reads CSV files that people send. A Reader
// returns exactly the text that a Writer has written.
//
// The format is that of RFC 4180 in UTF-8: commas, quotes doubled within quotes, line breaks allowed within quotes. The
// package does not use encoding/csv, which changes line breaks inside cells and does not limit the size of a record.
package csvfile

import "fmt"

// MaxColumns is the largest number of columns of a file.
const MaxColumns = 1000

// byteOrderMark tells spreadsheets that a file is UTF-8.
const byteOrderMark = "\ufeff"

// Values of Error.Problem: why a file cannot be read.
const (
	Empty           = "empty"            // no header
	WrongSeparator  = "wrong_separator"  // columns are separated by something other than commas
	TooManyColumns  = "too_many_columns" // more than MaxColumns
	UnexpectedQuote = "unexpected_quote" // a quote inside a cell that does not begin with one, or text behind the closing one
	UnclosedQuote   = "unclosed_quote"   // a quoted cell that does not end
	InvalidEncoding = "invalid_encoding" // not UTF-8, or with NUL characters
)

// Error is why a file cannot be read. Its message is for the person who sent the file and does not quote the file.
type Error struct {
	Problem string
	Row     int // as spreadsheets number rows; 0 when the problem is the whole file
	Message string
}

// Error implements error.
func (e *Error) Error() string { return "csvfile: " + e.MessageWithRow() }

// MessageWithRow is the message, with the number of the row if there is one.
func (e *Error) MessageWithRow() string {
	if e.Row > 0 {
		return fmt.Sprintf("Row %d: %s", e.Row, e.Message)
	}
	return e.Message
}
