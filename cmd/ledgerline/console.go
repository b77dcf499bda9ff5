package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"sync"
)

// console is the output of a command: results go to out, messages and logs to err.
type console struct {
	out, err io.Writer
	level    string // of the log; "" means the command's default

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
