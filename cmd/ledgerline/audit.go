package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"ledgerline/eventstore"
	"ledgerline/service"
)

// auditCommand proves things about the ledger.
type auditCommand struct {
	Verify auditVerifyCommand `cmd:"" help:"Recompute every hash. Exits with 1 and names the first position that is not as it was written."`
}

type auditVerifyCommand struct {
	installation
	Shard  *int   `help:"This shard only. Default: all." placeholder:"N"`
	Expect string `help:"The head that an earlier run printed, kept elsewhere: the chain must still contain it. With several shards, name one with --shard." placeholder:"HASH"`
}

// shardAudit is what was found in a shard.
type shardAudit struct {
	eventstore.Verified
	// What is wrong, when something is.
	Position int64  `json:"tampered_position,omitempty"`
	What     string `json:"what,omitempty"`
}

// Run implements the command.
func (c *auditVerifyCommand) Run(ctx context.Context, con *console) error {
	anchor, err := c.anchor()
	if err != nil {
		return err
	}
	w, err := c.open(ctx, con, service.Roles{})
	if err != nil {
		return err
	}
	defer w.Close()
	shards, err := c.shards(w.Ledger.Shards(), anchor != nil)
	if err != nil {
		return err
	}
	intact, found := true, make([]shardAudit, 0, len(shards))
	for _, shard := range shards {
		verified, err := w.Ledger.Verify(ctx, shard, anchor)
		one := shardAudit{Verified: verified}
		if tampering := (*eventstore.Tampering)(nil); errors.As(err, &tampering) {
			intact, one.Position, one.What = false, tampering.Position, tampering.What
			con.say("NOT INTACT: %v", tampering)
		} else if err != nil {
			return err
		}
		found = append(found, one)
	}
	if err := con.print(map[string]any{"intact": intact, "shards": found}); err != nil {
		return err
	}
	if !intact {
		return errTold
	}
	return nil
}

func (c *auditVerifyCommand) anchor() ([]byte, error) {
	if c.Expect == "" {
		return nil, nil
	}
	anchor, err := hex.DecodeString(c.Expect)
	if err != nil || len(anchor) != sha256.Size {
		return nil, usage("--expect takes a head as audit verify prints it: 64 hexadecimal digits")
	}
	return anchor, nil
}

func (c *auditVerifyCommand) shards(all int, anchored bool) ([]int, error) {
	if c.Shard != nil {
		if *c.Shard < 0 || *c.Shard >= all {
			return nil, usage("there is no shard %d: the installation has %d, from 0", *c.Shard, all)
		}
		return []int{*c.Shard}, nil
	}
	if anchored && all > 1 {
		return nil, usage("a head belongs to one shard: name it with --shard")
	}
	list := make([]int, all)
	for i := range list {
		list[i] = i
	}
	return list, nil
}
