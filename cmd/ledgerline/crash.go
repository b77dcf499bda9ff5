package main

import (
	"context"
	"os"
	"time"

	"ledgerline/test/crash"
)

// crashCommand kills the service and its PostgreSQL under load. docs/measurements.md explains what is checked.
type crashCommand struct {
	Rounds  int           `help:"Number of kills: the node in odd rounds, PostgreSQL in even ones." default:"20"`
	Shards  []int         `help:"Numbers of shards; each gets a trial of its own." default:"1,4"`
	Callers int           `help:"Concurrent clients." default:"64"`
	For     time.Duration `help:"Least duration of a round." default:"3s"`
	Seed    uint64        `help:"Seed of what is written and when is killed; every run prints its own. Default: random."`
	Data    string        `help:"Directory for the private servers; a trial with violations leaves its data there." type:"existingdir" default:"/var/tmp"`
}

// Run implements the command.
func (c *crashCommand) Run(ctx context.Context, con *console) error {
	if c.Rounds < 1 || c.Callers < 1 || c.Callers > 256 || c.For < 100*time.Millisecond {
		return usage("--rounds takes at least 1, --callers 1 to 256, --for at least 100ms")
	}
	for _, shards := range c.Shards {
		if shards < 1 || shards > 16 {
			return usage("--shards takes numbers from 1 to 16")
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	_, err = crash.Run(ctx, crash.Config{
		Rounds: c.Rounds, Shards: c.Shards, Callers: c.Callers, For: c.For, Seed: c.Seed, Node: []string{self, "crash-node"},
		DataDir: c.Data, Out: con.out, Log: con.err,
	})
	return err
}

// crashNodeCommand is the node that crashCommand kills. It reads its configuration from the standard input.
type crashNodeCommand struct{}

// Run implements the command.
func (crashNodeCommand) Run(ctx context.Context, con *console) error {
	return crash.Node(ctx, os.Stdin, con.out, con.err)
}
