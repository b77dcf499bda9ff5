package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"sync"
)

// console is where a command speaks: results to out, everything else to err.
type console struct {
	out, err io.Writer
	level    string // "" is the command's own

	mu sync.Mutex
}

// say writes a line for people.
func (c *console) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = fmt.Fprintf(c.err, format+"\n", args...) // nobody is left to be told
}

// print writes a result: one JSON value on one line.
func (c *console) print(value any) error {
	if err := json.NewEncoder(c.out).Encode(value); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// logger makes the process's logger: lines for people, or JSON for machines.
func (c *console) logger(machines bool, fallback slog.Level) *slog.Logger {
	level := fallback
	if c.level != "" {
		_ = level.UnmarshalText([]byte(c.level)) // one of the four that the flag takes
	}
	options := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewTextHandler(c.err, options)
	if machines {
		handler = slog.NewJSONHandler(c.err, options)
	}
	logger := slog.New(handler)
	slog.SetDefault(logger)
	return logger
}
