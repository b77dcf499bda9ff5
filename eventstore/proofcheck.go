package eventstore

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
)

// CheckOptions are what the reader of a proof has from elsewhere.
type CheckOptions struct {
	Key   string     // the installation's public key; "": the proof's own, which an attacker may have replaced
	Heads []TreeHead // heads that the installation has published; the proof's tree is compared with one of them
}

// Check recomputes a proof from its own content, and returns everything that is wrong with it; nil when the proof is
// valid.
func (p *Proof) Check(o CheckOptions) []string {
	c := proofCheck{proof: p, blocks: map[int64]*ProofBlock{}}
	if p.Format != ProofFormat {
		c.report("format: this is %q, not %q", p.Format, ProofFormat)
		return c.wrong
	}
	if !c.readHead(o.Key) {
		return c.wrong
	}
	c.checkHeads(o.Heads)
	for i := range p.Blocks {
		b := &p.Blocks[i]
		if err := c.checkBlock(b); err != nil {
			c.report("blocks/%d: %v", i, err)
		}
		c.blocks[b.Number] = b
	}
	if len(p.Entries) == 0 {
		c.report("entries: there is no event: that the number was never seen cannot be proven")
	}
	c.checkEntries()
	return c.wrong
}

type proofCheck struct {
	proof  *Proof
	head   TreeHead
	blocks map[int64]*ProofBlock
	wrong  []string
}

func (c *proofCheck) report(format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

// readHead reads the signed head; false when nothing can be checked against it.
func (c *proofCheck) readHead(key string) bool {
	p := c.proof
	if key = strings.TrimSpace(key); key != "" && key != p.PublicKey {
		c.report("public_key: it is not the given key")
		return false
	}
	if p.Head == "" && len(p.Entries) == 0 {
		return true // a ledger without events
	}
	heads, err := ReadHeads(p.Head, p.PublicKey)
	if err == nil && len(heads) != 1 {
		err = errors.New("it is not one tree head")
	}
	if err != nil {
		c.report("head: %v", err)
		return false
	}
	if c.head = heads[0]; c.head.Shard != p.Shard {
		c.report("head: it is that of shard %d", c.head.Shard)
	}
	return true
}

// checkHeads compares the head of the proof with published ones.
func (c *proofCheck) checkHeads(heads []TreeHead) {
	older, compared, some := int64(0), false, false
	for i := range heads {
		h := &heads[i]
		if h.Shard != c.proof.Shard {
			continue
		}
		some = true
		switch x := c.proof.Extends; {
		case h.Size == c.head.Size:
			compared = true
			if !bytes.Equal(h.Root, c.head.Root) {
				c.report("head: the published head of %d blocks has another root", h.Size)
			}
		case x != nil && h.Size == x.Size:
			compared = true
			path, err := decodePath(x.Path)
			if err == nil {
				err = proof.VerifyConsistency(rfc6962.DefaultHasher, uint64(h.Size), uint64(c.head.Size), path, h.Root, c.head.Root) //nolint:gosec // not negative
			}
			if err != nil {
				c.report("extends: the tree does not begin with that of the published head of %d blocks", h.Size)
			}
		case h.Size < c.head.Size:
			older = max(older, h.Size)
		}
	}
	switch {
	case compared || len(heads) == 0:
	case older > 0:
		c.report("extends: fetch the proof with head_size=%d to compare it with the published head of that size", older)
	case some:
		c.report("head: the published heads are all newer than the proof: fetch it again")
	default:
		c.report("head: there is no published head of shard %d", c.proof.Shard)
	}
}

func (c *proofCheck) checkBlock(b *ProofBlock) error {
	root, err := decodeHash(b.Root)
	if err != nil {
		return fmt.Errorf("root: %w", err)
	}
	path, err := decodePath(b.Path)
	if err != nil {
		return fmt.Errorf("path: %w", err)
	}
	if b.Number < 1 || b.Number > c.head.Size || b.To > c.head.Position {
		return errors.New("its number or its positions are not in the tree of the head")
	}
	hash := hashBlock(c.proof.Shard, b.Number, b.From, b.To, root)
	if proof.VerifyInclusion(rfc6962.DefaultHasher, uint64(b.Number-1), uint64(c.head.Size), hash, path, c.head.Root) != nil {
		return errors.New("its hash and path do not lead to the root of the head")
	}
	return nil
}

func (c *proofCheck) checkEntries() {
	next, last := map[string]int{}, int64(0)
	for i := range c.proof.Entries {
		e := &c.proof.Entries[i]
		if len(e.Leaf) != leafColumns || e.Leaf[leafShard] == nil || e.Leaf[leafPosition] == nil || e.Leaf[leafVersion] == nil || e.Leaf[leafStream] == nil {
			c.report("entries/%d/leaf: it does not have the %d columns of an event", i, leafColumns)
			continue
		}
		if err := c.checkEntry(e); err != nil {
			c.report("entries/%d: %v", i, err)
		}
		position, stream := parsePosition(e.Leaf[leafPosition]), *e.Leaf[leafStream]
		if position <= last {
			c.report("entries/%d: its position is not after that of the entry before", i)
		}
		last = position
		next[stream]++
		if *e.Leaf[leafVersion] != strconv.Itoa(next[stream]) {
			c.report("entries/%d: it has version %s of its stream, expected version %d: an event was left out", i, *e.Leaf[leafVersion], next[stream])
		}
	}
	for stream, n := range c.proof.Streams {
		if next[stream] != n {
			c.report("streams/%s: %d events, not %d", stream, next[stream], n)
		}
	}
	for stream := range next {
		if _, known := c.proof.Streams[stream]; !known {
			c.report("streams: %s is not listed", stream)
		}
	}
}

func (c *proofCheck) checkEntry(e *ProofEntry) error {
	b := c.blocks[e.Block]
	if b == nil {
		return fmt.Errorf("there is no block %d", e.Block)
	}
	position := parsePosition(e.Leaf[leafPosition])
	if position < b.From || position > b.To || *e.Leaf[leafShard] != strconv.Itoa(c.proof.Shard) {
		return fmt.Errorf("its shard or position is not in block %d", e.Block)
	}
	root, err := decodeHash(b.Root)
	if err != nil {
		return fmt.Errorf("the root of its block: %w", err)
	}
	path, err := decodePath(e.Path)
	if err != nil {
		return fmt.Errorf("path: %w", err)
	}
	place := [3]string{*e.Leaf[leafShard], *e.Leaf[leafPosition], *e.Leaf[leafVersion]}
	leaf := hashLeaf(place, hashContent(e.Leaf[len(place):]))
	if proof.VerifyInclusion(rfc6962.DefaultHasher, uint64(position-b.From), uint64(b.To-b.From+1), leaf[:], path, root) != nil {
		return fmt.Errorf("its hash and path do not lead to the root of block %d", e.Block)
	}
	return nil
}
