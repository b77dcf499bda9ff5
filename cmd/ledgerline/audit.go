package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"ledgerline/eventstore"
	"ledgerline/projections"
	"ledgerline/service"
)

// auditCommand verifies the ledger and proofs from it (rules LED-18 to LED-21).
type auditCommand struct {
	Verify auditVerifyCommand `cmd:"" help:"Recompute every hash. Exits with 1 and names the first position that was changed."`
	Proof  auditProofCommand  `cmd:"" help:"Check a proof of a number's consent history from GET /v1/compliance/proof. Exits with 1 and prints what is wrong."`
}

type auditProofCommand struct {
	installation
	File   string `arg:"" help:"The proof; - reads it from the standard input."`
	Expect string `help:"Hash of a block that was stored elsewhere; the proof's chain must contain it." placeholder:"HASH"`
	Ledger bool   `help:"Also compare the proof with the installation's own chain."`
}

// proofFile holds the properties of a proof that are checked.
type proofFile struct {
	eventstore.Proof
	PhoneHash string                     `json:"phone_hash"`
	OptedOut  bool                       `json:"opted_out"`
	Consent   []projections.ConsentEvent `json:"consent"`
}

// maxProof is the largest proof in bytes.
const maxProof = 1 << 30

// Run implements the command.
func (c *auditProofCommand) Run(ctx context.Context, con *console) error {
	in := io.Reader(os.Stdin)
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	var proof proofFile
	if err := json.NewDecoder(io.LimitReader(in, maxProof)).Decode(&proof); err != nil {
		return fmt.Errorf("%s is not a proof: %w", c.File, err)
	}
	wrong := append(proof.Check(c.Expect), proof.checkConsent()...)
	if c.Ledger {
		found, err := c.compareWithLedger(ctx, con, &proof.Proof)
		if err != nil {
			return err
		}
		wrong = append(wrong, found...)
	}
	for _, w := range wrong {
		con.say("NOT PROVEN: %s", w)
	}
	if err := con.print(map[string]any{
		"proven": len(wrong) == 0, "events": len(proof.Entries), "consent_events": len(proof.Consent), "blocks": len(proof.Blocks), "head": proof.Head,
		"opted_out": proof.OptedOut,
	}); err != nil {
		return err
	}
	if len(wrong) > 0 {
		return errReported
	}
	return nil
}

// compareWithLedger returns what is wrong if the proof's newest block is not a block of the ledger.
func (c *auditProofCommand) compareWithLedger(ctx context.Context, con *console, proof *eventstore.Proof) ([]string, error) {
	head, err := hex.DecodeString(proof.Head)
	if err != nil || len(head) != sha256.Size {
		return []string{"head: it is not a hash"}, nil
	}
	w, err := c.open(ctx, con, service.Roles{})
	if err != nil {
		return nil, err
	}
	defer w.Close()
	_, err = w.Ledger.Verify(ctx, proof.Shard, head)
	if tampering := (*eventstore.Tampering)(nil); errors.As(err, &tampering) {
		return []string{tampering.Error()}, nil
	}
	return nil, err
}

// checkConsent compares the readable consent events with the events that the hashes prove, and returns the differences.
func (p *proofFile) checkConsent() []string {
	var wrong []string
	consent := map[int64]map[string]any{}
	optedOut := false
	for _, e := range p.Entries {
		const position, id, kind, occurred, actor, data = 1, 2, 5, 9, 10, 15 // indexes of an event's columns in its leaf
		if len(e.Leaf) <= data {
			continue // Proof.Check reports it
		}
		switch e.Leaf[kind] {
		case "number.opted_out":
			optedOut = true
		case "number.opted_in":
			optedOut = false
		case "contact.opted_in", "contact.opted_out", "contact.consent_cleared":
			facts := map[string]any{}
			if err := json.Unmarshal([]byte(e.Leaf[data]), &facts); err != nil || facts["number_hash"] != p.PhoneHash {
				continue // it is about another number of the contact
			}
			at, _ := strconv.ParseInt(e.Leaf[position], 10, 64)
			when := e.Leaf[occurred]
			if n := len("2026-01-02T15:04:05.000"); len(when) > n { // a forged proof may have less
				when = when[:n]
			}
			facts["id"], facts["occurred"], facts["actor"] = e.Leaf[id], when, e.Leaf[actor]
			consent[at] = facts
		}
	}
	if optedOut != p.OptedOut {
		wrong = append(wrong, "opted_out: the number's events say otherwise")
	}
	orNone := func(v any) any {
		if s, ok := v.(*string); ok && s != nil {
			return *s
		}
		return nil
	}
	for i := range p.Consent {
		e := &p.Consent[i]
		facts := consent[e.Position]
		if facts == nil {
			wrong = append(wrong, fmt.Sprintf("consent/%d: there is no such event", i))
			continue
		}
		delete(consent, e.Position)
		for name, shown := range map[string]any{
			"id": e.ID, "contact_id": e.ContactID, "from": e.FromStatus, "to": e.ToStatus, "occurred": strings.TrimSuffix(e.OccurredAt, "Z"),
			"actor": e.Actor.Type, "source": orNone(e.Source), "keyword": orNone(e.Keyword), "message_id": orNone(e.MessageID),
			"line_id": orNone(e.LineID), "channel": orNone(e.Channel),
		} {
			if facts[name] != shown {
				wrong = append(wrong, fmt.Sprintf("consent/%d: its %s is not what is proven", i, name))
			}
		}
	}
	for position := range consent {
		wrong = append(wrong, fmt.Sprintf("consent: the event at position %d was left out", position))
	}
	return wrong
}

type auditVerifyCommand struct {
	installation
	Shard  *int   `help:"This shard only. Default: all." placeholder:"N"`
	Expect string `help:"Head that an earlier run printed and that was stored elsewhere; the chain must still contain it. With several shards, name one with --shard." placeholder:"HASH"`
}

// shardAudit is the result for one shard.
type shardAudit struct {
	eventstore.VerifyResult
	// The first position that was changed and what is wrong there, if the shard was changed.
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
		one := shardAudit{VerifyResult: verified}
		if tampering := (*eventstore.Tampering)(nil); errors.As(err, &tampering) {
			intact, one.Position, one.What = false, tampering.Position, tampering.Problem
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
		return errReported
	}
	return nil
}

// anchor returns the hash of --expect, and nil without it.
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

// shards lists the shards to verify. all is their number, anchored says that there is an anchor.
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
