package eventstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// ProofFormat names the format of a Proof.
const ProofFormat = "ledgerline proof 1"

// Proof shows to an outsider that events are part of the ledger in this form, and that no event of their streams is
// left out. Hashes are in hex.
type Proof struct {
	Format  string         `json:"format"`
	Shard   int            `json:"shard"`
	Head    string         `json:"head" doc:"Hash of the newest block: what a copy kept elsewhere is compared with"`
	Entries []ProofEntry   `json:"entries" nullable:"false" doc:"The events, in the order of the ledger"`
	Blocks  []ProofBlock   `json:"blocks" nullable:"false" doc:"Every block from the one with the first of the events to the newest"`
	Streams map[string]int `json:"streams" doc:"How many events each of the streams has"`
}

// ProofEntry is one event as it was hashed, and the path from it to the root of its block's tree.
type ProofEntry struct {
	Leaf  []string   `json:"leaf" nullable:"false" doc:"The event's columns as they are hashed: shard, position, id, stream, version, type, schema, organisation_id, workspace_id, occurred_at, actor_type, actor_id, request_id, causation_id, correlation_id, data, subject, sealed (base64)"`
	Block int64      `json:"block"`
	Path  []PathStep `json:"path" nullable:"false" doc:"From the leaf up to the block's root"`
}

// PathStep is one step up the tree: the sibling of the hash that was computed so far.
type PathStep struct {
	Side string `json:"side" enum:"left,right" doc:"On which side of the carried hash it stands"`
	Hash string `json:"hash"`
}

// ProofBlock is a block without its leaves.
type ProofBlock struct {
	Number   int64  `json:"number"`
	From     int64  `json:"from_position"`
	To       int64  `json:"to_position"`
	Root     string `json:"root"`
	Previous string `json:"previous"`
	Hash     string `json:"hash"`
}

// Indexes of the columns of a leaf that Check reads, and their number.
const (
	leafPosition = 1
	leafStream   = 3
	leafVersion  = 4
	leafColumns  = 18
)

const (
	proofLeavesSQL = `select distinct b.number, b.from_position, b.to_position, b.leaves from unnest($2::bigint[]) p
		cross join lateral (select * from ledger_blocks b where b.shard = $1 and b.to_position >= p order by b.to_position limit 1) b
		where b.from_position <= p order by b.number`
	proofBlocksSQL = `select number, from_position, to_position, encode(root, 'hex'), encode(previous, 'hex'), encode(hash, 'hex')
		from ledger_blocks where shard = $1 and number >= $2 order by number`
	lastNumberSQL = `select coalesce(max(number), 0) from ledger_blocks where shard = $1`
)

// Prove closes the open block and returns the proof of whole streams of a shard. A stream that does not exist adds no
// entries.
func (l *Ledger) Prove(ctx context.Context, shard int, streams ...string) (Proof, error) {
	p := Proof{Format: ProofFormat, Shard: shard, Entries: []ProofEntry{}, Blocks: []ProofBlock{}, Streams: map[string]int{}}
	var all []Recorded
	for _, stream := range streams {
		found, err := l.Load(ctx, stream, 0)
		if err != nil {
			return p, err
		}
		if len(found) > 0 {
			p.Streams[stream] = len(found)
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, func(a, b Recorded) int { return int(a.Position - b.Position) })
	if _, err := l.CloseBlocks(ctx, shard); err != nil {
		return p, err
	}
	positions := make([]int64, len(all))
	for i := range all {
		positions[i] = all[i].Position
	}
	blocks, err := l.blocksOf(ctx, shard, positions)
	if err != nil {
		return p, err
	}
	at := 0
	for i := range all {
		for at < len(blocks) && blocks[at].To < all[i].Position {
			at++
		}
		if at == len(blocks) || all[i].Position < blocks[at].From {
			return p, fmt.Errorf("eventstore: position %d of shard %d is in no block: run audit verify", all[i].Position, shard)
		}
		b := &blocks[at]
		p.Entries = append(p.Entries, ProofEntry{Leaf: leafFields(&all[i]), Block: b.Number, Path: auditPath(b.Leaves, int(all[i].Position-b.From))})
	}
	err = l.addChain(ctx, &p)
	return p, err
}

// blocksOf reads the blocks that contain these positions, with their leaves.
func (l *Ledger) blocksOf(ctx context.Context, shard int, positions []int64) ([]Block, error) {
	rows, err := l.pool.Query(ctx, proofLeavesSQL, shard, positions)
	if err != nil {
		return nil, fmt.Errorf("eventstore: blocks: %w", err)
	}
	blocks, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (b Block, err error) {
		err = row.Scan(&b.Number, &b.From, &b.To, &b.Leaves)
		return b, err
	})
	if err != nil {
		return nil, fmt.Errorf("eventstore: blocks: %w", err)
	}
	return blocks, nil
}

// addChain adds the blocks from the one with the first event to the newest.
func (l *Ledger) addChain(ctx context.Context, p *Proof) error {
	var first int64
	if len(p.Entries) > 0 {
		first = p.Entries[0].Block
	} else if err := l.pool.QueryRow(ctx, lastNumberSQL, p.Shard).Scan(&first); err != nil {
		return fmt.Errorf("eventstore: blocks: %w", err)
	}
	rows, err := l.pool.Query(ctx, proofBlocksSQL, p.Shard, first)
	if err != nil {
		return fmt.Errorf("eventstore: blocks: %w", err)
	}
	if p.Blocks, err = pgx.CollectRows(rows, pgx.RowToStructByPos[ProofBlock]); err != nil {
		return fmt.Errorf("eventstore: blocks: %w", err)
	}
	if n := len(p.Blocks); n > 0 {
		p.Head = p.Blocks[n-1].Hash
	}
	return nil
}

// auditPath returns the audit path of RFC 6962 from a leaf to the root, beginning with the leaf's sibling.
func auditPath(leaves []byte, index int) []PathStep {
	n := len(leaves) / sha256.Size
	if n <= 1 {
		return []PathStep{}
	}
	split := 1
	for split*2 < n {
		split *= 2
	}
	left, right := leaves[:split*sha256.Size], leaves[split*sha256.Size:]
	if index < split {
		return append(auditPath(left, index), PathStep{"right", hex.EncodeToString(subtree(right))})
	}
	return append(auditPath(right, index-split), PathStep{"left", hex.EncodeToString(subtree(left))})
}

// subtree returns the root of the tree over one or more leaves.
func subtree(leaves []byte) []byte {
	root, err := merkleRoot(leaves)
	if err != nil {
		panic(err) // cannot happen: leaves consist of whole hashes
	}
	return root
}

// Check recomputes a proof from its own content and returns everything that is wrong with it; nil when the proof is
// valid. anchor is the hash of a block that the reader kept outside the ledger: the chain must contain that block. An
// empty anchor is not checked.
func (p *Proof) Check(anchor string) []string {
	var wrong []string
	report := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if p.Format != ProofFormat {
		report("format: this is %q, not %q", p.Format, ProofFormat)
		return wrong
	}
	blocks := p.checkChain(report)
	if anchor != "" && !slices.ContainsFunc(p.Blocks, func(b ProofBlock) bool { return b.Hash == anchor }) {
		report("blocks: none has the expected hash")
	}
	next, last := map[string]int{}, int64(0)
	for i := range p.Entries {
		e := &p.Entries[i]
		if len(e.Leaf) != leafColumns {
			report("entries/%d/leaf: %d columns, not %d", i, len(e.Leaf), leafColumns)
			continue
		}
		position, _ := strconv.ParseInt(e.Leaf[leafPosition], 10, 64)
		b := blocks[e.Block]
		switch root, err := rootFromPath(hashLeaf(e.Leaf), e.Path); {
		case b == nil:
			report("entries/%d/block: there is no block %d", i, e.Block)
		case err != nil:
			report("entries/%d/path: %v", i, err)
		case root != b.Root:
			report("entries/%d: its hash and path do not lead to the root of block %d", i, e.Block)
		case position < b.From || position > b.To || e.Leaf[0] != strconv.Itoa(p.Shard):
			report("entries/%d/leaf: its shard or position is not in block %d", i, e.Block)
		}
		if position <= last {
			report("entries/%d: its position is not after that of the entry before", i)
		}
		last = position
		next[e.Leaf[leafStream]]++
		if e.Leaf[leafVersion] != strconv.Itoa(next[e.Leaf[leafStream]]) {
			report("entries/%d: it has version %s of its stream, expected version %d: an event was left out", i, e.Leaf[leafVersion], next[e.Leaf[leafStream]])
		}
	}
	for stream, n := range p.Streams {
		if next[stream] != n {
			report("streams/%s: %d events, not %d", stream, next[stream], n)
		}
	}
	for stream := range next {
		if _, known := p.Streams[stream]; !known {
			report("streams: %s is not listed", stream)
		}
	}
	return wrong
}

// checkChain checks the blocks and returns them by number.
func (p *Proof) checkChain(report func(string, ...any)) map[int64]*ProofBlock {
	blocks := map[int64]*ProofBlock{}
	for i := range p.Blocks {
		b := &p.Blocks[i]
		hash, err := b.rehash(p.Shard)
		switch {
		case err != nil:
			report("blocks/%d: %v", i, err)
		case hash != b.Hash:
			report("blocks/%d/hash: it is not the hash of this block", i)
		case i > 0 && (b.Previous != p.Blocks[i-1].Hash || b.Number != p.Blocks[i-1].Number+1 || b.From != p.Blocks[i-1].To+1):
			report("blocks/%d: its number, first position or previous hash does not follow from the block before", i)
		}
		blocks[b.Number] = b
	}
	if n := len(p.Blocks); n > 0 && p.Blocks[n-1].Hash != p.Head || n == 0 && p.Head != "" {
		report("head: it is not the hash of the last block")
	}
	return blocks
}

// rehash recomputes the hash of a block.
func (b *ProofBlock) rehash(shard int) (string, error) {
	root, err1 := hex.DecodeString(b.Root)
	previous, err2 := hex.DecodeString(b.Previous)
	if err := errors.Join(err1, err2); err != nil {
		return "", err
	}
	return hex.EncodeToString(blockHash(&Block{Shard: shard, Number: b.Number, From: b.From, To: b.To, Root: root, Previous: previous})), nil
}

// rootFromPath recomputes the root of a tree from a leaf's hash and its path.
func rootFromPath(hash []byte, path []PathStep) (string, error) {
	for _, step := range path {
		sibling, err := hex.DecodeString(step.Hash)
		if err != nil || len(sibling) != sha256.Size {
			return "", errors.New("a step is not a hash")
		}
		var pair [][]byte
		switch step.Side {
		case "left":
			pair = [][]byte{{1}, sibling, hash}
		case "right":
			pair = [][]byte{{1}, hash, sibling}
		default:
			return "", errors.New("the side of a step is neither left nor right")
		}
		sum := sha256.Sum256(bytes.Join(pair, nil))
		hash = sum[:]
	}
	return hex.EncodeToString(hash), nil
}
