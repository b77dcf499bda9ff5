package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"ledgerline/service"
)

// recoverCommand begins, shows and ends a recovery.
type recoverCommand struct {
	installation
	Start   bool   `help:"Begin a recovery: no message leaves any more, and carriers are read again." xor:"what"`
	Since   string `help:"With --start: the time (RFC 3339) up to which the database is certainly complete, for example that of the backup." placeholder:"TIME"`
	Reason  string `help:"With --start: why, for the record." default:"started by the operator" placeholder:"TEXT"`
	Release bool   `help:"End the recovery: messages leave again, each after it was looked up at its carrier." xor:"what"`
	Unread  bool   `name:"without-unread-lines" help:"With --release: also while lines were not read again."`
}

// Run implements the command.
func (c *recoverCommand) Run(ctx context.Context, con *console) error {
	if c.Start != (c.Since != "") {
		return usage("--start and --since TIME belong together")
	}
	w, err := c.open(ctx, con, service.Roles{Read: true}) // a node with carriers
	if err != nil {
		return err
	}
	defer w.Close()
	if c.Start {
		since, err := time.Parse(time.RFC3339Nano, c.Since)
		if err != nil {
			return usage("--since %q is not a time in RFC 3339, for example 2026-03-02T17:00:00Z", c.Since)
		}
		if err := w.StartRecovery(ctx, since, c.Reason); err != nil {
			return err
		}
	}
	report, err := w.Recovery(ctx)
	switch {
	case err != nil:
		return err
	case report == nil:
		return con.print(map[string]any{"recovery": nil})
	}
	if c.Release {
		if len(report.UnreadLines) > 0 && !c.Unread {
			return fmt.Errorf("these lines were not read again yet, so that opt-outs may be missing: %s; wait for their servers, or release with --without-unread-lines",
				strings.Join(report.UnreadLines, ", "))
		}
		if err := w.ReleaseRecovery(ctx); err != nil {
			return err
		}
		if report, err = w.Recovery(ctx); err != nil {
			return err
		}
	}
	return con.print(report)
}
