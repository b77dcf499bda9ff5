package csvfile

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Writer writes a file with a header, for spreadsheets and for Readers: UTF-8 with a byte order mark, lines that end in
// CRLF, cells escaped by EscapeFormula. It buffers; call Flush at the end.
type Writer struct {
	out *bufio.Writer
}

const bufferSize = 32 << 10

// NewWriter begins a file. Nothing is written to w before the buffer is full, so the caller can still answer
// differently when something fails early.
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

// Write writes a row.
func (f *Writer) Write(cells ...string) error {
	for i, cell := range cells {
		if i > 0 {
			_ = f.out.WriteByte(',') // the buffer keeps the error and the last write returns it
		}
		f.cell(EscapeFormula(cell))
	}
	if _, err := f.out.WriteString("\r\n"); err != nil {
		return fmt.Errorf("csvfile: %w", err)
	}
	return nil
}

func (f *Writer) cell(cell string) {
	// Some programs keep leading and trailing spaces only within quotes.
	if !strings.ContainsAny(cell, ",\"\r\n") && strings.TrimSpace(cell) == cell {
		_, _ = f.out.WriteString(cell)
		return
	}
	_ = f.out.WriteByte('"')
	_, _ = f.out.WriteString(strings.ReplaceAll(cell, `"`, `""`))
	_ = f.out.WriteByte('"')
}

// Flush writes the buffered rest to the underlying writer.
func (f *Writer) Flush() error {
	if err := f.out.Flush(); err != nil {
		return fmt.Errorf("csvfile: %w", err)
	}
	return nil
}
