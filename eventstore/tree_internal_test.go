package eventstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"

	"ledgerline/events"
)

// largeTree has the nodes of a tree in which all blocks but a few have one and the same hash, so that they need not be
// stored. It counts the nodes that are read.
type largeTree struct {
	size   uint64
	blocks map[uint64][]byte // by index
	same   [][]byte          // nodes over equal blocks, by level
	read   int
}

func newLargeTree(size int64) *largeTree {
	first := sha256.Sum256([]byte("some block"))
	t := &largeTree{size: uint64(size), blocks: map[uint64][]byte{}, same: [][]byte{first[:]}}
	for level := range 40 {
		t.same = append(t.same, rfc6962.DefaultHasher.HashChildren(t.same[level], t.same[level]))
	}
	return t
}

func (t *largeTree) node(level uint, index uint64) []byte {
	for at, hash := range t.blocks {
		if at>>level == index {
			if level == 0 {
				return hash
			}
			return rfc6962.DefaultHasher.HashChildren(t.node(level-1, 2*index), t.node(level-1, 2*index+1))
		}
	}
	return t.same[level]
}

func (t *largeTree) nodes(_ context.Context, ids []compact.NodeID) ([][]byte, error) {
	hashes := make([][]byte, len(ids))
	for i, id := range ids {
		if (id.Index+1)<<id.Level > t.size {
			return nil, fmt.Errorf("node %d of level %d is not complete in a tree of %d blocks", id.Index, id.Level, t.size)
		}
		hashes[i] = t.node(id.Level, id.Index)
		t.read++
	}
	return hashes, nil
}

// TestProofFromAYearOfBlocksIsSmallAndNeedsFewNodes proves 20 events, each in a block of 1,000 events of its own, in
// the tree of a year with a block each second.
func TestProofFromAYearOfBlocksIsSmallAndNeedsFewNodes(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	const size, proven, older = 365 * 24 * 3600, 20, 1_000_003
	keyring, _, err := NewKeyring()
	require.NoError(t, err)
	tree := newLargeTree(size)
	var blocks []Block
	var all []Recorded
	for i := range proven {
		number := int64(size/proven*i + 7*i + 1)
		b := Block{Number: number, From: (number-1)*BlockSize + 1, To: number * BlockSize}
		r := Recorded{
			Position: b.From + int64(37*i), ID: newID(), Stream: "ctc_1", Version: i + 1, Type: "contact.updated", Schema: 1, OrganisationID: uuid.New(), WorkspaceID: uuid.New(),
			OccurredAt: time.Unix(number, 0), Actor: events.Actor{Type: "key", ID: "key_1"}, RequestID: "req_1", CorrelationID: uuid.New(),
			Data: bytes.Repeat([]byte("x"), 300), Subject: "ctc_1", Sealed: bytes.Repeat([]byte{1}, 200),
		}
		for position := b.From; position <= b.To; position++ {
			leaf := sha256.Sum256([]byte(strconv.FormatInt(position, 10)))
			if position == r.Position {
				copy(leaf[:], leafHash(&r))
			}
			b.Leaves = append(b.Leaves, leaf[:]...)
		}
		b.EventsRoot, err = merkleRoot(b.Leaves)
		require.NoError(t, err)
		tree.blocks[uint64(number-1)] = b.hash() //nolint:gosec // small
		blocks, all = append(blocks, b), append(all, r)
	}
	headOf := func(n int64) TreeHead {
		r, err := blockRange(ctx, tree.nodes, n)
		require.NoError(t, err)
		root, err := rootOf(r)
		require.NoError(t, err)
		h := TreeHead{Size: n, Root: root, Position: n * BlockSize, At: time.Unix(n, 0)}
		keyring.signHead(&h)
		return h
	}
	head, before := headOf(size), headOf(older)
	tree.read = 0
	p := Proof{Format: ProofFormat, Head: keyring.Note(&head), PublicKey: keyring.HeadKey(), Streams: map[string]int{"ctc_1": proven}}
	require.NoError(t, p.addEntries(ctx, tree.nodes, size, blocks, all))
	path, err := consistencyPath(ctx, tree.nodes, older, size)
	require.NoError(t, err)
	p.Extends = &ProofExtension{older, encodePath(path)}
	require.LessOrEqual(t, tree.read, (proven+1)*2*25, "at most two nodes for each of the 25 levels")

	text, err := json.Marshal(struct {
		Proof
		PhoneHash string `json:"phone_hash"`
		OptedOut  bool   `json:"opted_out"`
		Consent   []any  `json:"consent"`
	}{p, "h", false, []any{}})
	require.NoError(t, err)
	t.Logf("%d events in a tree of %d blocks: %d nodes read, %d bytes", proven, size, tree.read, len(text))
	require.Less(t, len(text), 100_000)
	require.Empty(t, p.Check(CheckOptions{Key: keyring.HeadKey(), Heads: []TreeHead{before}}))
	forged := before
	forged.Root = bytes.Repeat([]byte{1}, 32)
	require.NotEmpty(t, p.Check(CheckOptions{Heads: []TreeHead{forged}}))

	python, err := exec.LookPath("python3")
	if err != nil {
		return
	}
	file, heads := filepath.Join(t.TempDir(), "proof.json"), filepath.Join(t.TempDir(), "heads.txt")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	require.NoError(t, os.WriteFile(heads, []byte(keyring.Note(&before)), 0o600))
	out, err := exec.CommandContext(ctx, python, "../docs/verify_proof.py", file, keyring.HeadKey(), heads).CombinedOutput()
	require.NoError(t, err, string(out))
}

// TestPathsOfAllSizesVerify compares the paths from stored nodes with the library's verification, for every block and
// every older head of small trees.
func TestPathsOfAllSizesVerify(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	keyring, _, err := NewKeyring()
	require.NoError(t, err)
	for size := int64(1); size <= 20; size++ {
		tree := newLargeTree(size)
		roots := []TreeHead{}
		for n := int64(1); n <= size; n++ {
			hash := hashBlock(0, n, n, n, tree.same[0])
			tree.blocks[uint64(n-1)] = hash //nolint:gosec // small
		}
		for n := int64(1); n <= size; n++ {
			r, err := blockRange(ctx, tree.nodes, n)
			require.NoError(t, err)
			root, err := rootOf(r)
			require.NoError(t, err)
			h := TreeHead{Size: n, Root: root, Position: n}
			keyring.signHead(&h)
			roots = append(roots, h)
		}
		for n := int64(1); n <= size; n++ {
			p := Proof{Format: ProofFormat, Head: keyring.Note(&roots[size-1]), PublicKey: keyring.HeadKey()}
			paths, err := inclusionPaths(ctx, tree.nodes, []int64{n}, size)
			require.NoError(t, err)
			p.Blocks = []ProofBlock{{n, n, n, encodeHash(tree.same[0]), encodePath(paths[0])}}
			older, err := consistencyPath(ctx, tree.nodes, n, size)
			require.NoError(t, err)
			p.Extends = &ProofExtension{n, encodePath(older)}
			wrong := p.Check(CheckOptions{Heads: roots[n-1 : n]})
			require.Len(t, wrong, 1, "block %d of %d", n, size)
			require.Contains(t, wrong[0], "there is no event", "this proof has blocks only")
			p.Blocks[0].Number = n + 1
			require.Greater(t, len(p.Check(CheckOptions{})), 1)
		}
	}
}

func TestPublishedHeadsAreReadOnlyWithTheirSignature(t *testing.T) {
	t.Parallel()
	keyring, _, err := NewKeyring()
	require.NoError(t, err)
	stranger, _, err := NewKeyring()
	require.NoError(t, err)
	var heads []TreeHead
	var text string
	for n := range int64(3) {
		h := TreeHead{Shard: int(n), Size: n + 1, Root: bytes.Repeat([]byte{byte(n)}, 32), Position: 10 * n, At: time.Unix(n, 1000).UTC()}
		keyring.signHead(&h)
		heads = append(heads, h)
		text += keyring.Note(&h)
		if n == 1 {
			text += "\n\n"
		}
	}
	read, err := ReadHeads(text, keyring.HeadKey())
	require.NoError(t, err)
	require.Equal(t, heads, read)
	none, err := ReadHeads(" \n", keyring.HeadKey())
	require.NoError(t, err)
	require.Empty(t, none)
	_, err = ReadHeads(text, stranger.HeadKey())
	require.ErrorContains(t, err, "line 1")
	_, err = ReadHeads(text, "x")
	require.Error(t, err)
	forged := stranger.Note(&heads[1])
	_, err = ReadHeads(keyring.Note(&heads[0])+forged, keyring.HeadKey())
	require.ErrorContains(t, err, "line 8")
	require.NotPanics(t, func() {
		for i := range text {
			_, _ = ReadHeads(text[:i], keyring.HeadKey())
		}
	})
}

func TestNullsEmptyTextsAndZerosAreHashedApart(t *testing.T) {
	t.Parallel()
	plain := Recorded{ID: newID(), Stream: "s", Version: 1, Position: 1, Type: "t", Data: []byte("{}")}
	seen := map[string]string{}
	for name, change := range map[string]func(*Recorded){
		"nothing":                 func(*Recorded) {},
		"empty sealed data":       func(r *Recorded) { r.Sealed = []byte{} },
		"empty subject":           func(r *Recorded) { r.unusual |= emptySubject },
		"workspace of zeros":      func(r *Recorded) { r.unusual |= zeroWorkspace },
		"causation of zeros":      func(r *Recorded) { r.unusual |= zeroCausation },
		"infinite time":           func(r *Recorded) { r.unusual |= infiniteFuture },
		"infinite past":           func(r *Recorded) { r.unusual |= infinitePast },
		"text moved to the next":  func(r *Recorded) { r.Actor.Type, r.Actor.ID = "", "x" },
		"text moved back":         func(r *Recorded) { r.Actor.Type, r.Actor.ID = "x", "" },
		"a text like a null":      func(r *Recorded) { r.Actor.Type = "-:," },
		"another place":           func(r *Recorded) { r.Position = 2 },
		"another version":         func(r *Recorded) { r.Version = 2 },
		"position after version":  func(r *Recorded) { r.Position, r.Version = 11, 1 },
		"version after position":  func(r *Recorded) { r.Position, r.Version = 1, 11 },
		"another shard":           func(r *Recorded) { r.Shard = 1 },
		"the workspace, not null": func(r *Recorded) { r.WorkspaceID = uuid.Max },
	} {
		r := plain
		change(&r)
		hash := string(leafHash(&r))
		require.Empty(t, seen[hash], name)
		seen[hash] = name
	}
}
