package eventstore

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// ProofFormat names the format of a Proof.
const ProofFormat = "ledgerline proof 2"

// Proof shows to an outsider that events are part of the ledger in this form, and that no event of their streams is
// left out. Hashes are in base64. Its size grows with the number of events, and with the logarithm of the ledger's
// size.
type Proof struct {
	Format    string          `json:"format"`
	Shard     int             `json:"shard"`
	Head      string          `json:"head" doc:"Signed head of the tree of blocks, as a signed note; empty when the ledger has no events"`
	PublicKey string          `json:"public_key" doc:"The key that verifies the signature of the head: compare it with the installation's key that was handed over before"`
	Entries   []ProofEntry    `json:"entries" nullable:"false" doc:"The events, in the order of the ledger"`
	Blocks    []ProofBlock    `json:"blocks" nullable:"false" doc:"The blocks that contain the events"`
	Streams   map[string]int  `json:"streams" doc:"How many events each of the streams has"`
	Extends   *ProofExtension `json:"extends" doc:"Shows that the tree begins with that of an older head; null when head_size was not given"`
}

// ProofEntry is one event as it was hashed, and the path from it to the root of its block's tree.
type ProofEntry struct {
	Leaf  []*string `json:"leaf" nullable:"false" doc:"The event's columns as they are hashed: shard, position, version, id, stream, type, schema, organisation_id, workspace_id, occurred_at, actor_type, actor_id, request_id, causation_id, correlation_id, data, subject, sealed (base64)"`
	Block int64     `json:"block"`
	Path  []string  `json:"path" nullable:"false" doc:"Inclusion path of RFC 6962 from the event's hash to the root of its block"`
}

// ProofBlock is a block without its leaves, and the path from it to the root of the tree of blocks.
type ProofBlock struct {
	Number int64    `json:"number" doc:"From 1"`
	From   int64    `json:"from_position"`
	To     int64    `json:"to_position"`
	Root   string   `json:"root" doc:"Root of the tree of the block's events"`
	Path   []string `json:"path" nullable:"false" doc:"Inclusion path of RFC 6962 from the block's hash to the root of the head"`
}

// ProofExtension shows that the tree of the proof's head begins with the tree of an older head.
type ProofExtension struct {
	Size int64    `json:"size" doc:"Number of blocks of the older head"`
	Path []string `json:"path" nullable:"false" doc:"Consistency path of RFC 6962 from the older head to the head"`
}

// Indexes of columns of a leaf, and their number.
const (
	leafShard    = 0
	leafPosition = 1
	leafVersion  = 2
	leafStream   = 4
	leafColumns  = 18
)

const proofLeavesSQL = `select distinct b.number, b.from_position, b.to_position, b.leaves, b.events_root from unnest($2::bigint[]) p
	cross join lateral (select * from ledger_blocks b where b.shard = $1 and b.to_position >= p order by b.to_position limit 1) b
	where b.from_position <= p order by b.number`

// Prove closes the open block and returns the proof of whole streams of a shard. A stream that does not exist adds no
// entries. With headSize greater than 0 the proof also shows that the ledger extends its head of that many blocks.
func (l *Ledger) Prove(ctx context.Context, shard int, headSize int64, streams ...string) (Proof, error) {
	p := Proof{
		Format: ProofFormat, Shard: shard, PublicKey: l.keyring.HeadKey(),
		Entries: []ProofEntry{}, Blocks: []ProofBlock{}, Streams: map[string]int{},
	}
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
	head, err := l.LastTreeHead(ctx, shard)
	if err != nil || head.Size == 0 {
		return p, err
	}
	p.Head = l.keyring.Note(&head)
	if headSize > 0 {
		if headSize > head.Size {
			return p, &NoSuchHead{Size: headSize, Newest: head.Size}
		}
		path, err := consistencyPath(ctx, l.nodes(shard), headSize, head.Size)
		if err != nil {
			return p, err
		}
		p.Extends = &ProofExtension{headSize, encodePath(path)}
	}
	positions := make([]int64, len(all))
	for i := range all {
		positions[i] = all[i].Position
	}
	blocks, err := l.blocksOf(ctx, shard, positions)
	if err != nil {
		return p, err
	}
	err = p.addEntries(ctx, l.nodes(shard), head.Size, blocks, all)
	return p, err
}

// NoSuchHead is returned for a proof that shall extend a head which the ledger does not have.
type NoSuchHead struct{ Size, Newest int64 }

func (e *NoSuchHead) Error() string {
	return fmt.Sprintf("eventstore: there is no head of %d blocks: the ledger has %d", e.Size, e.Newest)
}

// addEntries adds events and their blocks, both in order, to a proof in the tree of size blocks.
func (p *Proof) addEntries(ctx context.Context, nodes treeNodes, size int64, blocks []Block, all []Recorded) error {
	numbers := make([]int64, len(blocks))
	for i := range blocks {
		numbers[i] = blocks[i].Number
	}
	paths, err := inclusionPaths(ctx, nodes, numbers, size)
	if err != nil {
		return err
	}
	for i, b := range blocks {
		p.Blocks = append(p.Blocks, ProofBlock{b.Number, b.From, b.To, encodeHash(b.EventsRoot), encodePath(paths[i])})
	}
	at := 0
	for i := range all {
		for at < len(blocks) && blocks[at].To < all[i].Position {
			at++
		}
		if at == len(blocks) || all[i].Position < blocks[at].From {
			return fmt.Errorf("eventstore: position %d of shard %d is in no block: run audit verify", all[i].Position, p.Shard)
		}
		b := &blocks[at]
		path := eventPath(b.Leaves, int(all[i].Position-b.From))
		p.Entries = append(p.Entries, ProofEntry{leafOf(&all[i]), b.Number, encodePath(path)})
	}
	return nil
}

// leafOf returns the columns of an event as they are hashed.
func leafOf(r *Recorded) []*string {
	place := placeColumns(r.Shard, r.Position, r.Version)
	return append([]*string{&place[0], &place[1], &place[2]}, contentColumns(r)...)
}

// blocksOf reads the blocks that contain these positions, with their leaves.
func (l *Ledger) blocksOf(ctx context.Context, shard int, positions []int64) ([]Block, error) {
	rows, err := l.DB(ctx).Query(ctx, proofLeavesSQL, shard, positions)
	if err != nil {
		return nil, fmt.Errorf("eventstore: blocks: %w", err)
	}
	blocks, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (b Block, err error) {
		err = row.Scan(&b.Number, &b.From, &b.To, &b.Leaves, &b.EventsRoot)
		return b, err
	})
	if err != nil {
		return nil, fmt.Errorf("eventstore: blocks: %w", err)
	}
	return blocks, nil
}

// eventPath returns the inclusion path of RFC 6962 from a leaf to the root of its block, beginning with the leaf's
// sibling.
func eventPath(leaves []byte, index int) [][]byte {
	n := len(leaves) / sha256.Size
	if n <= 1 {
		return nil
	}
	split := 1
	for split*2 < n {
		split *= 2
	}
	left, right := leaves[:split*sha256.Size], leaves[split*sha256.Size:]
	if index < split {
		return append(eventPath(left, index), subtree(right))
	}
	return append(eventPath(right, index-split), subtree(left))
}

// subtree returns the root of the tree over one or more leaves.
func subtree(leaves []byte) []byte {
	root, err := merkleRoot(leaves)
	if err != nil {
		panic(err) // cannot happen: leaves consist of whole hashes
	}
	return root
}

func encodeHash(hash []byte) string { return base64.StdEncoding.EncodeToString(hash) }

func encodePath(path [][]byte) []string {
	list := make([]string, len(path))
	for i, hash := range path {
		list[i] = encodeHash(hash)
	}
	return list
}

func decodeHash(text string) ([]byte, error) {
	hash, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(hash) != sha256.Size {
		return nil, errors.New("it is not a hash")
	}
	return hash, nil
}

func decodePath(list []string) ([][]byte, error) {
	path := make([][]byte, len(list))
	for i, text := range list {
		hash, err := decodeHash(text)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
		path[i] = hash
	}
	return path, nil
}

func parsePosition(s *string) int64 {
	if s == nil {
		return 0
	}
	n, _ := strconv.ParseInt(*s, 10, 64)
	return n
}
