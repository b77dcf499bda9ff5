package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"
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

// progressOf returns a function that prints how far a run over the ledger is, at most every reportEvery, when messages
// go to a terminal. Otherwise it returns nil.
func (c *console) progressOf(name string) func(position, last int64) {
	f, ok := c.err.(*os.File)
	if !ok {
		return nil
	}
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
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
