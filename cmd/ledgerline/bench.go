package main

import (
	"context"
	"io"
	"os"
	"time"

	"ledgerline/test/bench"
)

// benchCommand measures the service beside raw baselines. docs/measurements.md explains the figures.
type benchCommand struct {
	Only    []string      `help:"Measure only these: append, messages, visible, delivery, waiting, replay, inbox, export, import, contacts, webhooks, idle."`
	For     time.Duration `help:"How long each timed part runs." default:"10s"`
	Callers int           `help:"Concurrent callers and connections." default:"64"`
	Events  int           `help:"Size of the ledger that is replayed, and number of deferred messages." default:"1000000"`
	Data    string        `help:"Directory for the private PostgreSQL. Default: a temporary one." type:"path"`
	JSON    string        `help:"Also write the figures to this file, one JSON object per line." type:"path"`
}

// Run implements the command.
func (b *benchCommand) Run(ctx context.Context, con *console) error {
	if b.For < time.Second || b.Callers < 1 || b.Callers > 256 || b.Events < 1000 {
		return usage("--for takes at least 1s, --callers 1 to 256, --events at least 1000")
	}
	cfg := bench.Config{Only: b.Only, For: b.For, Callers: b.Callers, Events: b.Events, DataDir: b.Data, Out: con.out, Log: con.err}
	if b.JSON != "" {
		f, err := os.Create(b.JSON)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		cfg.JSON = io.Writer(f)
	}
	return bench.Run(ctx, cfg)
}
