package eventstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// BlockSize is the largest number of events in a block.
	BlockSize = 1000
	// BlockAge is how long the notary waits after an append before it closes a block.
	BlockAge = time.Second
)

const (
	lastBlockSQL   = `select number, to_position, hash from ledger_blocks where shard = $1 order by number desc limit 1`
	insertBlockSQL = `insert into ledger_blocks (shard, number, from_position, to_position, leaves, root, previous, hash, closed_at)
		values ($1, $2, $3, $4, $5, $6, $7, $8, now())`
)

// CloseBlocks closes blocks up to the head of a shard and returns how many. Several processes may call it at the same
// time: the number of a block is unique, and a process whose insert fails continues after the block of the other one.
func (l *Ledger) CloseBlocks(ctx context.Context, shard int) (closed int, err error) {
	head, err := l.Head(ctx, shard)
	if err != nil {
		return 0, err
	}
	for {
		last, err := l.lastBlock(ctx, shard)
		if err != nil {
			return closed, err
		}
		if last.To >= head {
			return closed, nil
		}
		if err := l.closeBlock(ctx, last, min(head, last.To+BlockSize)); err != nil {
			return closed, err
		}
		closed++
	}
}

func (l *Ledger) lastBlock(ctx context.Context, shard int) (Block, error) {
	b := Block{Shard: shard, Hash: make([]byte, sha256.Size)}
	err := l.pool.QueryRow(ctx, lastBlockSQL, shard).Scan(&b.Number, &b.To, &b.Hash)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return b, fmt.Errorf("eventstore: last block: %w", err)
	}
	return b, nil
}

// closeBlock hashes the events after the last block up to a position and inserts the block.
func (l *Ledger) closeBlock(ctx context.Context, last Block, to int64) error {
	b := Block{Shard: last.Shard, Number: last.Number + 1, From: last.To + 1, To: to, Previous: last.Hash}
	found, err := l.ReadRange(ctx, b.Shard, last.To, to)
	if err != nil {
		return err
	}
	if int64(len(found)) != to-last.To {
		return fmt.Errorf("eventstore: shard %d has %d events from %d to %d: run audit verify", b.Shard, len(found), b.From, to)
	}
	for i := range found {
		b.Leaves = append(b.Leaves, leafHash(&found[i])...)
	}
	if b.Root, err = merkleRoot(b.Leaves); err != nil {
		return err
	}
	b.Hash = blockHash(&b)
	_, err = l.pool.Exec(ctx, insertBlockSQL, b.Shard, b.Number, b.From, b.To, b.Leaves, b.Root, b.Previous, b.Hash)
	if isUniqueViolation(err) {
		return nil // another process has closed it
	}
	if err != nil {
		return fmt.Errorf("eventstore: close block: %w", err)
	}
	return nil
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
	rows, err := l.pool.Query(ctx, hashesSQL, shard, positions)
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
