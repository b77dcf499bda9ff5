package csvfile

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Writer writes a file with a header, for spreadsheets and for Readers: UTF-8 with a byte order mark, CRLF, cells guarded
// against being run as formulas. It buffers; Flush must be called at the end.
type Writer struct {
	out *bufio.Writer
}

const bufferSize = 32 << 10

// NewWriter begins a file. Nothing reaches w before a buffer has filled, so that a failure can still be told in another way.
func NewWriter(w io.Writer, header ...string) (*Writer, error) {
	f := &Writer{bufio.NewWriterSize(w, bufferSize)}
	if _, err := f.out.WriteString(byteOrderMark); err != nil {
		return nil, fmt.Errorf("csvfile: %w", err)
	}
	if err := f.Write(header...); err != nil {
		return nil, err
	}
	return f, nil
}

// Write adds a row.
func (f *Writer) Write(cells ...string) error {
	for i, cell := range cells {
		if i > 0 {
			_ = f.out.WriteByte(',') // the error stays, and the last write tells it
		}
		f.cell(EscapeFormula(cell))
	}
	if _, err := f.out.WriteString("\r\n"); err != nil {
		return fmt.Errorf("csvfile: %w", err)
	}
	return nil
}

func (f *Writer) cell(cell string) {
	// Spaces at the edges are kept by everybody only within quotes.
	if !strings.ContainsAny(cell, ",\"\r\n") && strings.TrimSpace(cell) == cell {
		_, _ = f.out.WriteString(cell)
		return
	}
	_ = f.out.WriteByte('"')
	_, _ = f.out.WriteString(strings.ReplaceAll(cell, `"`, `""`))
	_ = f.out.WriteByte('"')
}

// Flush writes what is buffered.
func (f *Writer) Flush() error {
	if err := f.out.Flush(); err != nil {
		return fmt.Errorf("csvfile: %w", err)
	}
	return nil
}
