package eventstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/transparency-dev/merkle/compact"
)

const (
	// BlockSize is the largest number of events in a block.
	BlockSize = 1000
	// BlockAge is how long the notary waits after an append before it closes a block.
	BlockAge = time.Second
)

const (
	lastHeadSQL = `select b.number, b.to_position, b.root, b.closed_at, b.signature from ledger_blocks b where shard = $1 order by number desc limit 1`
	// The time is that of the database: a block is closed in real time, whatever the service's clock says.
	wallClockSQL = `select clock_timestamp()`
	// Only if the block before it ($12 root) and its last event ($11) are still what they were when they were read.
	insertBlockSQL = `insert into ledger_blocks (shard, number, from_position, to_position, leaves, events_root, nodes, root, closed_at, signature)
		select $1::smallint, $2::bigint, $3::bigint, $4::bigint, $5, $6, $7, $8, $9::timestamptz, $10 from ledger_events e where e.shard = $1 and e.position = $4 and e.id = $11
		and ($2 = 1 or exists (select from ledger_blocks b where b.shard = $1 and b.number = $2 - 1 and b.root = $12))`
)

// CloseBlocks closes blocks up to the head of a shard and returns how many. It signs only what the service appended: an
// event without its tag, a missing event, or a tree that does not have the root that was signed last, is an error.
// Several processes may call it at the same time: the number of a block is unique, and a process whose insert fails
// continues after the block of the other one.
func (l *Ledger) CloseBlocks(ctx context.Context, shard int) (closed int, err error) {
	head, err := l.Head(ctx, shard)
	if err != nil {
		return 0, err
	}
	var last TreeHead
	var tree *compact.Range
	for {
		if tree == nil {
			if last, tree, err = l.lastTree(ctx, shard); err != nil {
				return closed, err
			}
		}
		if last.Position >= head {
			return closed, nil
		}
		added, err := l.closeBlock(ctx, last, tree, min(head, last.Position+BlockSize))
		if err != nil {
			return closed, err
		}
		if added == nil { // another process has closed the block
			tree = nil
			continue
		}
		last = *added
		closed++
	}
}

// LastTreeHead returns the newest signed head of a shard's tree of blocks. Without blocks it is the zero head, which is
// not signed.
func (l *Ledger) LastTreeHead(ctx context.Context, shard int) (TreeHead, error) {
	h := TreeHead{Shard: shard}
	err := l.DB(ctx).QueryRow(ctx, lastHeadSQL, shard).Scan(&h.Size, &h.Position, &h.Root, &h.At, &h.Signature)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return h, fmt.Errorf("eventstore: last block: %w", err)
	}
	return h, nil
}

// lastTree returns the newest signed head with the tree that it signs.
func (l *Ledger) lastTree(ctx context.Context, shard int) (TreeHead, *compact.Range, error) {
	last, err := l.LastTreeHead(ctx, shard)
	if err != nil {
		return last, nil, err
	}
	if last.Size == 0 {
		return last, merkleRanges.NewEmptyRange(0), nil
	}
	tree, err := blockRange(ctx, l.nodes(shard), last.Size)
	if err != nil {
		return last, nil, err
	}
	root, err := rootOf(tree)
	if err != nil {
		return last, nil, err
	}
	if !bytes.Equal(root, last.Root) || !l.keyring.hasSigned(&last) {
		return last, nil, fmt.Errorf("eventstore: shard %d: block %d is not as it was signed: run audit verify", shard, last.Size)
	}
	return last, tree, nil
}

// closeBlock hashes the events after the last block up to a position and inserts the block. It returns nil without an
// error when another process has inserted it.
func (l *Ledger) closeBlock(ctx context.Context, last TreeHead, tree *compact.Range, to int64) (*TreeHead, error) {
	b := Block{Shard: last.Shard, Number: last.Size + 1, From: last.Position + 1, To: to}
	found, err := l.ReadRange(ctx, b.Shard, last.Position, to)
	if err != nil {
		return nil, err
	}
	if int64(len(found)) != to-last.Position {
		return nil, fmt.Errorf("eventstore: shard %d has %d events from %d to %d: run audit verify", b.Shard, len(found), b.From, to)
	}
	for i := range found {
		leaf := leafHash(&found[i])
		if !l.keyring.hasTag(&found[i], leaf) {
			return nil, fmt.Errorf("eventstore: shard %d: the service did not append the event at position %d: run audit verify", b.Shard, found[i].Position)
		}
		b.Leaves = append(b.Leaves, leaf...)
	}
	if b.EventsRoot, err = merkleRoot(b.Leaves); err != nil {
		return nil, err
	}
	if b.Nodes, err = addBlock(tree, b.hash()); err != nil {
		return nil, err
	}
	b.Head = TreeHead{Shard: b.Shard, Size: b.Number, Position: to}
	if b.Head.Root, err = rootOf(tree); err != nil {
		return nil, err
	}
	if err := l.DB(ctx).QueryRow(ctx, wallClockSQL).Scan(&b.Head.At); err != nil {
		return nil, fmt.Errorf("eventstore: close block: %w", err)
	}
	l.keyring.signHead(&b.Head)
	inserted, err := l.DB(ctx).Exec(ctx, insertBlockSQL, b.Shard, b.Number, b.From, b.To, b.Leaves, b.EventsRoot, b.Nodes, b.Head.Root, b.Head.At, b.Head.Signature,
		found[len(found)-1].ID, last.Root)
	if isUniqueViolation(err) {
		return nil, nil //nolint:nilnil // see above
	}
	if err != nil {
		return nil, fmt.Errorf("eventstore: close block: %w", err)
	}
	if inserted.RowsAffected() == 0 {
		return nil, fmt.Errorf("eventstore: close block %d of shard %d: %w", b.Number, b.Shard, ErrRewound)
	}
	return &b.Head, nil
}

// RunNotary closes the blocks of all shards, BlockAge after an append, until ctx ends. Without appends it does nothing.
// It waits in real time, whatever the service's clock says.
func (l *Ledger) RunNotary(ctx context.Context) {
	grown := make(chan struct{}, 1)
	var stops []func()
	for shard := range l.shards {
		stops = append(stops, l.OnAppend(shard, func() {
			select {
			case grown <- struct{}{}:
			default:
			}
		}))
	}
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()
	for {
		for shard := range l.shards {
			if _, err := l.CloseBlocks(ctx, shard); err != nil && ctx.Err() == nil {
				l.log.Error("eventstore: cannot close a block", "shard", shard, "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-grown:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(BlockAge):
		}
	}
}

const hashesSQL = `select p, substring(b.leaves from ((p - b.from_position) * 32 + 1)::int for 32)
	from unnest($2::bigint[]) p
	cross join lateral (select * from ledger_blocks b where b.shard = $1 and b.to_position >= p order by b.to_position limit 1) b
	where b.from_position <= p`

// LeafHashes returns the hashes of events by position. Events whose block is not closed yet are not in the map.
func (l *Ledger) LeafHashes(ctx context.Context, shard int, positions []int64) (map[int64][]byte, error) {
	rows, err := l.DB(ctx).Query(ctx, hashesSQL, shard, positions)
	if err != nil {
		return nil, fmt.Errorf("eventstore: leaf hashes: %w", err)
	}
	found := make(map[int64][]byte, len(positions))
	var position int64
	var hash []byte
	if _, err := pgx.ForEachRow(rows, []any{&position, &hash}, func() error { found[position] = bytes.Clone(hash); return nil }); err != nil {
		return nil, fmt.Errorf("eventstore: leaf hashes: %w", err)
	}
	return found, nil
}
