package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// console is the output of a command: results go to out, messages and logs to err.
type console struct {
	out, err io.Writer
	tables   bool   // lists are printed as tables
	level    string // of the log; "" means the command's default
	operator string // name of whoever runs an operator's command; "" when it is not given

	mu sync.Mutex
}

// say prints a message for people.
func (c *console) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = fmt.Fprintf(c.err, format+"\n", args...) // there is no other place to report it
}

// print prints a result as one JSON value on one line.
func (c *console) print(value any) error {
	if err := json.NewEncoder(c.out).Encode(value); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// printList prints a list: as one JSON array, or as a table of the named JSON properties when con prints tables. A
// table shows null and empty values as "-". It returns an error when an entry lacks a property.
func printList[T any](con *console, list []T, columns ...string) error {
	if !con.tables {
		return con.print(list)
	}
	table := tabwriter.NewWriter(con.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, strings.ToUpper(strings.Join(columns, "\t"))) // Flush reports what fails
	for i := range list {
		text, err := json.Marshal(list[i])
		if err != nil {
			return fmt.Errorf("write the result: %w", err)
		}
		var properties map[string]any
		if err := json.Unmarshal(text, &properties); err != nil {
			return fmt.Errorf("write the result: %w", err)
		}
		cells := make([]string, len(columns))
		for at, column := range columns {
			value, ok := properties[column]
			if !ok {
				return fmt.Errorf("the entries of the list have no %s", column)
			}
			cells[at] = cell(value)
		}
		_, _ = fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// cell is a JSON value as a table shows it.
func cell(value any) string {
	switch value := value.(type) {
	case nil:
		return "-"
	case []any:
		parts := make([]string, len(value))
		for i, part := range value {
			parts[i] = cell(part)
		}
		return cmp.Or(strings.Join(parts, ","), "-")
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64)
	}
	return cmp.Or(fmt.Sprint(value), "-")
}

// logger makes the logger of the process, as text or as JSON, and sets it as the default. level is used unless the
// command line names another one.
func (c *console) logger(asJSON bool, level slog.Level) *slog.Logger {
	if c.level != "" {
		_ = level.UnmarshalText([]byte(c.level)) // the flag accepts only valid levels
	}
	options := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewTextHandler(c.err, options)
	if asJSON {
		handler = slog.NewJSONHandler(c.err, options)
	}
	logger := slog.New(handler)
	slog.SetDefault(logger)
	return logger
}

// progressOf returns a function that prints how far a run over the ledger is, at most every reportEvery, when messages
// go to a terminal. Otherwise it returns nil.
func (c *console) progressOf(name string) func(position, last int64) {
	if !isTerminal(c.err) {
		return nil
	}
	reported := time.Now()
	return func(position, last int64) {
		if time.Since(reported) < reportEvery {
			return
		}
		reported = time.Now()
		c.say("%s: %d of %d positions (%d %%)", name, position, last, 100*position/max(last, 1))
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
