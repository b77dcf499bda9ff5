package main

import (
	"context"
	"os"
	"time"

	"ledgerline/test/crash"
)

// crashCommand kills the service and its PostgreSQL under load; docs/measurements.md says what is looked at.
type crashCommand struct {
	Rounds  int           `help:"How often something is killed: the node in odd rounds, PostgreSQL in even ones." default:"20"`
	Shards  []int         `help:"One trial for each number of shards." default:"1,4"`
	Callers int           `help:"Concurrent clients." default:"64"`
	For     time.Duration `help:"How long a round lasts, at least." default:"3s"`
	Seed    uint64        `help:"What is written and when is killed; a run tells its own. Default: by chance."`
	Data    string        `help:"Where the private servers live meanwhile; what had violations stays there." type:"existingdir" default:"/var/tmp"`
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

// crashNodeCommand is the node that crashCommand kills. It is told what to do on its standard input.
type crashNodeCommand struct{}

// Run implements the command.
func (crashNodeCommand) Run(ctx context.Context, con *console) error {
	return crash.Node(ctx, os.Stdin, con.out, con.err)
}
