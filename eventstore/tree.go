package eventstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
)

// The blocks of a shard are the leaves of a Merkle tree as in RFC 6962: leaf i is the hash of block i+1. A row of a
// block stores the nodes that the block completes, which never change again: its own hash, the node above it if the
// block is the right child, and so on. So the node at a level and index is in the row of block (index+1)*2^level, and
// a proof in a tree of any size reads as many rows as the tree has levels.

// treeNodes returns the stored nodes with these ids.
type treeNodes func(ctx context.Context, ids []compact.NodeID) ([][]byte, error)

var errNodeMissing = errors.New("eventstore: a node of the tree of blocks is missing")

const nodesSQL = `select u.i, coalesce(substring(b.nodes from u.level * 32 + 1 for 32), '')
	from unnest($2::bigint[], $3::int[]) with ordinality u (number, level, i)
	cross join lateral (select nodes from ledger_blocks where shard = $1 and number = u.number offset 0) b`

// nodes reads nodes of a shard's tree of blocks.
func (l *Ledger) nodes(shard int) treeNodes {
	return func(ctx context.Context, ids []compact.NodeID) ([][]byte, error) {
		if len(ids) == 0 {
			return nil, nil
		}
		numbers, levels := make([]int64, len(ids)), make([]int32, len(ids))
		for i, id := range ids {
			numbers[i], levels[i] = int64(id.Index+1)<<id.Level, int32(id.Level) //nolint:gosec // both are small
		}
		rows, err := l.DB(ctx).Query(ctx, nodesSQL, shard, numbers, levels)
		if err != nil {
			return nil, fmt.Errorf("eventstore: tree of blocks: %w", err)
		}
		hashes := make([][]byte, len(ids))
		var i int
		var hash []byte
		_, err = pgx.ForEachRow(rows, []any{&i, &hash}, func() error { hashes[i-1], hash = hash, nil; return nil })
		if err != nil {
			return nil, fmt.Errorf("eventstore: tree of blocks: %w", err)
		}
		for _, h := range hashes {
			if len(h) != sha256.Size {
				return nil, fmt.Errorf("%w: shard %d: run audit verify", errNodeMissing, shard)
			}
		}
		return hashes, nil
	}
}

// blockRange returns the range of the first size blocks, from as many nodes as size has one bits.
func blockRange(ctx context.Context, nodes treeNodes, size int64) (*compact.Range, error) {
	hashes, err := nodes(ctx, compact.RangeNodes(0, uint64(size), nil)) //nolint:gosec // not negative
	if err != nil {
		return nil, err
	}
	r, err := merkleRanges.NewRange(0, uint64(size), hashes) //nolint:gosec // not negative
	if err != nil {
		return nil, fmt.Errorf("eventstore: tree of blocks: %w", err)
	}
	return r, nil
}

// rootOf returns the root of a range that begins with the first leaf; that of no leaves is the hash of nothing.
func rootOf(r *compact.Range) ([]byte, error) {
	if r.End() == 0 {
		return rfc6962.DefaultHasher.EmptyRoot(), nil
	}
	root, err := r.GetRootHash(nil)
	if err != nil {
		return nil, fmt.Errorf("eventstore: tree of blocks: %w", err)
	}
	return root, nil
}

// addBlock appends the hash of a block to a range and returns the nodes that it completes, as a row stores them.
func addBlock(r *compact.Range, hash []byte) (nodes []byte, err error) {
	err = r.Append(hash, func(_ compact.NodeID, node []byte) { nodes = append(nodes, node...) })
	if err != nil {
		return nil, fmt.Errorf("eventstore: tree of blocks: %w", err)
	}
	return nodes, nil
}

// inclusionPaths returns, for each of these blocks, the path by which a reader recomputes the root of the tree of size
// blocks from the block's hash. All nodes are read at once.
func inclusionPaths(ctx context.Context, nodes treeNodes, numbers []int64, size int64) ([][][]byte, error) {
	wanted := make([]proof.Nodes, len(numbers))
	var ids []compact.NodeID
	for i, number := range numbers {
		if number < 1 || number > size {
			return nil, errors.New("eventstore: tree of blocks: no such block")
		}
		var err error
		if wanted[i], err = proof.Inclusion(uint64(number-1), uint64(size)); err != nil { //nolint:gosec // not negative
			return nil, fmt.Errorf("eventstore: tree of blocks: %w", err)
		}
		ids = append(ids, wanted[i].IDs...)
	}
	hashes, err := nodes(ctx, ids)
	if err != nil {
		return nil, err
	}
	paths := make([][][]byte, len(numbers))
	for i := range wanted {
		n := len(wanted[i].IDs)
		if paths[i], err = wanted[i].Rehash(hashes[:n:n], rfc6962.DefaultHasher.HashChildren); err != nil {
			return nil, fmt.Errorf("eventstore: tree of blocks: %w", err)
		}
		hashes = hashes[n:]
	}
	return paths, nil
}

// consistencyPath returns the path by which a reader sees that the tree of size blocks begins with that of older
// blocks.
func consistencyPath(ctx context.Context, nodes treeNodes, older, size int64) ([][]byte, error) {
	if older < 0 || older > size {
		return nil, errors.New("eventstore: tree of blocks: no such size")
	}
	wanted, err := proof.Consistency(uint64(older), uint64(size))
	if err != nil {
		return nil, fmt.Errorf("eventstore: tree of blocks: %w", err)
	}
	hashes, err := nodes(ctx, wanted.IDs)
	if err != nil {
		return nil, err
	}
	path, err := wanted.Rehash(hashes, rfc6962.DefaultHasher.HashChildren)
	if err != nil {
		return nil, fmt.Errorf("eventstore: tree of blocks: %w", err)
	}
	return path, nil
}
