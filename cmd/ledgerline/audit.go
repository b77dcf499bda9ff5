package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"ledgerline/adapters/treeheads"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
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
	File   string   `arg:"" help:"The proof; - reads it from the standard input."`
	Key    string   `help:"The installation's public key, as ledgerline keys public prints it. Default: the proof's own, which shows nothing about who made the proof." placeholder:"KEY"`
	Heads  []string `help:"Where the installation publishes its tree heads: a file, a directory or a URL; may be repeated. The proof must agree with one of them." placeholder:"SOURCE"`
	Ledger bool     `help:"Also verify the installation's ledger, and that it contains the proof's tree head."`
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
	key := c.Key
	if key == "" {
		key = proof.PublicKey
	}
	heads, err := readHeads(ctx, c.Heads, key)
	if err != nil {
		return err
	}
	if len(c.Heads) > 0 && len(heads) == 0 {
		return fmt.Errorf("there are no published tree heads in %s", strings.Join(c.Heads, ", "))
	}
	wrong := append(proof.Check(eventstore.CheckOptions{Key: c.Key, Heads: heads}), proof.checkConsent()...)
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
		"proven": len(wrong) == 0, "events": len(proof.Entries), "consent_events": len(proof.Consent), "head": proof.Head,
		"signed_by_given_key": c.Key != "", "compared_with_published_heads": len(heads) > 0, "opted_out": proof.OptedOut,
	}); err != nil {
		return err
	}
	if len(wrong) > 0 {
		return errReported
	}
	return nil
}

// readHeads reads the published tree heads of all sources.
func readHeads(ctx context.Context, sources []string, key string) ([]eventstore.TreeHead, error) {
	var all []eventstore.TreeHead
	for _, source := range sources {
		text, err := treeheads.Read(ctx, source)
		if err != nil {
			return nil, err
		}
		heads, err := eventstore.ReadHeads(text, key)
		if err != nil {
			return nil, fmt.Errorf("the tree heads of %s: %w", source, err)
		}
		all = append(all, heads...)
	}
	return all, nil
}

// compareWithLedger returns what is wrong if the ledger does not verify or does not contain the proof's tree head.
func (c *auditProofCommand) compareWithLedger(ctx context.Context, con *console, proof *eventstore.Proof) ([]string, error) {
	w, err := c.open(ctx, con, service.Roles{})
	if err != nil {
		return nil, err
	}
	defer w.Close()
	heads, err := eventstore.ReadHeads(proof.Head, w.Ledger.Keyring().HeadKey())
	if err != nil {
		return []string{"head: this installation did not sign it"}, nil
	}
	if proof.Shard < 0 || proof.Shard >= w.Ledger.Shards() {
		return []string{"shard: the installation does not have it"}, nil
	}
	_, err = w.Ledger.Verify(ctx, proof.Shard, eventstore.VerifyOptions{Heads: heads})
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
		const position, id, kind, occurred, actor, data = 1, 3, 5, 9, 10, 15 // indexes of an event's columns in its leaf
		leaf := make([]string, max(len(e.Leaf), data+1))                     // Proof.Check reports a leaf of another length
		for i, column := range e.Leaf {
			if column != nil {
				leaf[i] = *column
			}
		}
		switch leaf[kind] {
		case "number.opted_out":
			optedOut = true
		case "number.opted_in":
			optedOut = false
		case "contact.opted_in", "contact.opted_out", "contact.consent_cleared":
			facts := map[string]any{}
			if err := json.Unmarshal([]byte(leaf[data]), &facts); err != nil || facts["number_hash"] != p.PhoneHash {
				continue // it is about another number of the contact
			}
			at, _ := strconv.ParseInt(leaf[position], 10, 64)
			when := leaf[occurred]
			if n := len("2026-01-02T15:04:05.000"); len(when) > n { // a forged proof may have less
				when = when[:n]
			}
			facts["id"], facts["occurred"], facts["actor"] = leaf[id], when, leaf[actor]
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
	Shard    *int     `help:"This shard only. Default: all." placeholder:"N"`
	Heads    []string `help:"Where the installation publishes its tree heads: a file, a directory or a URL; may be repeated. The ledger must contain all of them. Default: heads.txt in the data directory." env:"LEDGERLINE_HEADS" placeholder:"SOURCE"`
	Continue bool     `help:"Read only the events after the newest published tree head of each shard. What is before it was verified by an earlier run."`
	Workers  int      `help:"How many connections read and hash at the same time. Default: the number of processors." placeholder:"N"`
}

// shardAudit is the result for one shard.
type shardAudit struct {
	eventstore.VerifyResult
	// The first position that was changed and what is wrong there, if the shard was changed.
	Position *int64 `json:"tampered_position,omitempty"`
	What     string `json:"what,omitempty"`
}

// Run implements the command.
func (c *auditVerifyCommand) Run(ctx context.Context, con *console) error {
	w, err := c.open(ctx, con, service.Roles{})
	if err != nil {
		return err
	}
	defer w.Close()
	shards, err := c.shards(w.Ledger.Shards())
	if err != nil {
		return err
	}
	sources := c.Heads
	if len(sources) == 0 && exists(c.dir().heads()) {
		sources = []string{c.dir().heads()}
	}
	heads, err := readHeads(ctx, sources, w.Ledger.Keyring().HeadKey())
	if err != nil {
		return err
	}
	if c.Continue && len(heads) == 0 {
		return usage("--continue needs the published tree heads: name them with --heads SOURCE")
	}
	intact, found := true, make([]shardAudit, 0, len(shards))
	for _, shard := range shards {
		verified, err := w.Ledger.Verify(ctx, shard, eventstore.VerifyOptions{
			Heads: heads, Continue: c.Continue, Workers: c.Workers, Progress: con.progressOf(fmt.Sprintf("shard %d", shard)),
		})
		one := shardAudit{VerifyResult: verified}
		if tampering := (*eventstore.Tampering)(nil); errors.As(err, &tampering) {
			intact, one.Position, one.What = false, &tampering.Position, tampering.Problem
			con.say("NOT INTACT: %v", tampering)
		} else if err != nil {
			return err
		}
		found = append(found, one)
	}
	problems, err := c.references(ctx, w)
	if err != nil {
		return err
	}
	for _, problem := range problems {
		intact = false
		con.say("NOT INTACT: %s", problem)
	}
	if len(heads) == 0 {
		con.say("no published tree heads were compared: that the end was cut off would not be found; see --heads")
	}
	if err := con.print(map[string]any{"intact": intact, "shards": found, "problems": problems}); err != nil {
		return err
	}
	if !intact {
		return errReported
	}
	return nil
}

// references compares what refers to events with the events.
func (c *auditVerifyCommand) references(ctx context.Context, w *workbench) ([]string, error) {
	problems := []string{}
	found, err := w.Ledger.VerifyReferences(ctx)
	if err != nil {
		return nil, err
	}
	problems = append(problems, found...)
	foreign, err := feed.ForeignCheckpoints(ctx, w.Ledger)
	if err != nil {
		return nil, err
	}
	for i := range foreign {
		problems = append(problems, foreign[i].String())
	}
	return problems, nil
}

// shards lists the shards to verify. all is their number.
func (c *auditVerifyCommand) shards(all int) ([]int, error) {
	if c.Shard != nil {
		if *c.Shard < 0 || *c.Shard >= all {
			return nil, usage("there is no shard %d: the installation has %d, from 0", *c.Shard, all)
		}
		return []int{*c.Shard}, nil
	}
	list := make([]int, all)
	for i := range list {
		list[i] = i
	}
	return list, nil
}
