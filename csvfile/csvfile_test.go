package csvfile_test

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"ledgerline/csvfile"
)

func read(t *testing.T, text string) (header []string, rows [][]string, numbers []int) {
	t.Helper()
	r, err := csvfile.NewReader(text)
	require.NoError(t, err)
	for {
		row, err := r.Next()
		if errors.Is(err, io.EOF) {
			return r.Header(), rows, numbers
		}
		require.NoError(t, err)
		rows, numbers = append(rows, slices.Clone(row.Cells)), append(numbers, row.Number)
	}
}

func TestEveryKindOfLineEndQuoteAndMarkIsRead(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"LF":              "a,b\n1,\"x\"\n3,4\n",
		"CRLF":            "a,b\r\n1,x\r\n3,4\r\n",
		"CR":              "a,b\r1,x\r3,4",
		"byte order mark": "\ufeffa,b\n1,x\n3,4",
	} {
		header, rows, numbers := read(t, text)
		require.Equal(t, []string{"a", "b"}, header, name)
		require.Equal(t, [][]string{{"1", "x"}, {"3", "4"}}, rows, name)
		require.Equal(t, []int{2, 3}, numbers, name)
	}
	_, rows, _ := read(t, "a,b\n\"one\r\ntwo\nthree\rfour\",\"say \"\"hi\"\"\"\n\"\"\"\",\n")
	require.Equal(t, [][]string{{"one\r\ntwo\nthree\rfour", `say "hi"`}, {`"`, ""}}, rows)
}

func TestRowsAreNumberedAsASpreadsheetDoes(t *testing.T) {
	t.Parallel()
	_, rows, numbers := read(t, "\n\na,b\n\n1,2\n,\n\"3\n3\",4\n5,6\n\n")
	require.Equal(t, [][]string{{"1", "2"}, {"3\n3", "4"}, {"5", "6"}}, rows)
	require.Equal(t, []int{5, 7, 8}, numbers)
}

func TestARowOfAnotherWidthReportsItsWidthAndKeepsNoMoreCellsThanTheHeader(t *testing.T) {
	t.Parallel()
	r, err := csvfile.NewReader("a,b\n1\n1,2,3\n" + strings.Repeat(",", 100_000) + "\n")
	require.NoError(t, err)
	for _, want := range []struct{ cells, width int }{{1, 1}, {2, 3}, {2, 100_001}} {
		row, err := r.Next()
		require.NoError(t, err)
		require.Len(t, row.Cells, want.cells)
		require.Equal(t, want.width, row.Width)
	}
}

func TestAFileThatCannotBeReadIsRefusedWithProblemAndRow(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]csvfile.Error{
		"":                              {Problem: csvfile.Empty},
		"\ufeff":                        {Problem: csvfile.Empty},
		"\n\r\n\n":                      {Problem: csvfile.Empty},
		",,\n":                          {Problem: csvfile.Empty},
		"a;b\n1;2":                      {Problem: csvfile.WrongSeparator},
		"\"a\";\"b\"\n":                 {Problem: csvfile.WrongSeparator},
		"\r\na\tb\n1\t2":                {Problem: csvfile.WrongSeparator},
		"a|b":                           {Problem: csvfile.WrongSeparator},
		strings.Repeat(",", 9_999):      {Problem: csvfile.Empty},
		"a" + strings.Repeat(",", 1000): {Problem: csvfile.TooManyColumns, Row: 1},
		"a,b\n1,2\n\"3,4\n5,6":          {Problem: csvfile.UnclosedQuote, Row: 3},
		"a,b\n1,\"":                     {Problem: csvfile.UnclosedQuote, Row: 2},
		"a,b\n1,2\"3":                   {Problem: csvfile.UnexpectedQuote, Row: 2},
		"a,b\n1,\"2\"3\n":               {Problem: csvfile.UnexpectedQuote, Row: 2},
		"a,b\n1,\xff":                   {Problem: csvfile.InvalidEncoding},
		"a,b\n1,\x00":                   {Problem: csvfile.InvalidEncoding},
	} {
		r, err := csvfile.NewReader(text)
		for err == nil {
			_, err = r.Next()
		}
		var found *csvfile.Error
		require.ErrorAs(t, err, &found, "%.20q", text)
		require.Equal(t, want.Problem, found.Problem, "%.20q", text)
		require.Equal(t, want.Row, found.Row, "%.20q", text)
		require.NotEmpty(t, found.Message)
	}
}

func TestAFileWithOneColumnIsAccepted(t *testing.T) {
	t.Parallel()
	header, rows, _ := read(t, "phone\n+1;2\n")
	require.Equal(t, []string{"phone"}, header)
	require.Equal(t, [][]string{{"+1;2"}}, rows)
}

func TestCellsThatASpreadsheetWouldComputeAreEscaped(t *testing.T) {
	t.Parallel()
	for _, cell := range []string{
		"=1+1", "+14155550123", "-5", "@sum(1)", "\tx", "\rx", " =1", "\u00a0+1", "\u200b=1", "\ufeff@x", "\x01=1",
		"＝1+1", "＋1", "－1", "＠x", "﹦1", "=cmd|' /C calc'!A0", "-", "'=1", "''+1", "\"=1", " \"\" +1",
	} {
		guarded := csvfile.EscapeFormula(cell)
		require.Equal(t, "'"+cell, guarded, "%q", cell)
		require.Equal(t, cell, csvfile.UnescapeFormula(guarded), "%q", cell)
	}
	for _, cell := range []string{"", " ", "Anna", "O'Neil", "'tis", "'", "''", "a=b", "1-2", "5", "🙂", "http://x", "a;b", "a; b\nc", "a,=1", "1;2", "#N/A"} {
		require.Equal(t, cell, csvfile.EscapeFormula(cell), "%q", cell)
		require.Equal(t, cell, csvfile.UnescapeFormula(cell), "%q", cell)
	}
}

func TestFormulaInsideOfACellIsEscaped(t *testing.T) {
	t.Parallel()
	for cell, want := range map[string]string{
		"a;=1": "a;'=1", "a\t=1": "a\t'=1", "a\n=1": "a\n'=1", "a\r\n+1": "a\r\n'+1", "a\"; \"=1": "a\";' \"=1", "=1;-2\n@x": "'=1;'-2\n'@x",
		";=1": ";'=1", "\t=1": "'\t'=1", "a;'=1": "a;''=1", "a;b;－1": "a;b;'－1",
	} {
		escaped := csvfile.EscapeFormula(cell)
		require.Equal(t, want, escaped, "%q", cell)
		require.Equal(t, cell, csvfile.UnescapeFormula(escaped), "%q", cell)
	}
}

func TestAFileOpensCorrectlyInASpreadsheet(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w, err := csvfile.NewWriter(&out, "name", "note")
	require.NoError(t, err)
	require.NoError(t, w.Write("=1", "a,b"))
	require.NoError(t, w.Write(" x ", "say \"hi\"\nthere"))
	require.Zero(t, out.Len(), "nothing is sent before it must be")
	require.NoError(t, w.Flush())
	require.Equal(t, "\ufeffname,note\r\n'=1,\"a,b\"\r\n\" x \",\"say \"\"hi\"\"\nthere\"\r\n", out.String())
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestAWriterReturnsTheErrorOfTheUnderlyingWriter(t *testing.T) {
	t.Parallel()
	w, err := csvfile.NewWriter(broken{}, "a")
	require.NoError(t, err)
	require.ErrorIs(t, w.Flush(), io.ErrClosedPipe)
	require.ErrorIs(t, w.Write("x"), io.ErrClosedPipe)
}

func FuzzWrittenCellsAreReadBackUnchanged(f *testing.F) {
	f.Add("Anna", "=1+1", "a\r\nb\"c,")
	f.Add("'", "''=x", "\ufeff\t")
	f.Add(";", "", " ")
	f.Add("a;=1", "a\n'-1;\t@x", "\"=;'\r\n=")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		for _, cell := range []string{a, b, c} {
			if !utf8.ValidString(cell) || strings.IndexByte(cell, 0) >= 0 {
				t.Skip("no text")
			}
		}
		var out bytes.Buffer
		w, err := csvfile.NewWriter(&out, "first", "second", "third")
		require.NoError(t, err)
		require.NoError(t, w.Write(a, b, c))
		require.NoError(t, w.Write("x", b, a))
		require.NoError(t, w.Flush())
		header, rows, _ := read(t, out.String())
		require.Equal(t, []string{"first", "second", "third"}, header)
		want := [][]string{{a, b, c}, {"x", b, a}}
		if a == "" && b == "" && c == "" {
			want = want[1:]
		}
		require.Equal(t, want, rows)
	})
}

// FuzzAnyTextIsReadAsTheStandardLibraryDoes compares the reader with encoding/csv on texts that both accept.
func FuzzAnyTextIsReadAsTheStandardLibraryDoes(f *testing.F) {
	for _, text := range []string{"a,b\n1,2\n", "a\n\"x\"\"y\"\n", "a,b\n\n\"1\n2\",3", "a;b", "\"", "a\n\"b\"c", ",\n,\n", "a,b,\n1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := csvfile.NewReader(text)
		var rows [][]string
		if err == nil {
			rows = append(rows, r.Header())
		}
		for err == nil {
			var row csvfile.Row
			if row, err = r.Next(); err == nil {
				require.LessOrEqual(t, len(row.Cells), row.Width)
				rows = append(rows, slices.Clone(row.Cells))
			}
		}
		var problem *csvfile.Error
		whole := errors.Is(err, io.EOF)
		require.True(t, whole || errors.As(err, &problem))
		if strings.ContainsAny(text, "\r'\ufeff\x00") || !utf8.ValidString(text) {
			return // deliberately read differently
		}
		standard := csv.NewReader(strings.NewReader(text))
		standard.FieldsPerRecord = -1
		all, failed := standard.ReadAll()
		if !whole {
			require.True(t, failed != nil || problem.Problem != csvfile.UnclosedQuote && problem.Problem != csvfile.UnexpectedQuote, "%q", text)
			return
		}
		require.NoError(t, failed, "%q", text)
		var want [][]string
		for _, record := range all {
			if slices.ContainsFunc(record, func(c string) bool { return c != "" }) || len(want) > 0 && len(record) > len(want[0]) {
				want = append(want, record)
			}
		}
		for i := range want[1:] {
			want[i+1] = want[i+1][:min(len(want[i+1]), len(want[0]))]
		}
		require.Equal(t, want, rows, "%q", text)
	})
}
