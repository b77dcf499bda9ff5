package eventstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// RecomputeBlocks replaces the hashes and signatures of all blocks by those that fit the events, as an attacker does
// who has the keyring as, which may be one of the attacker's own. With tags it replaces the tags of the events as
// well.
func (l *Ledger) RecomputeBlocks(ctx context.Context, shard int, as *Keyring, tags bool) error {
	return pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `set local session_replication_role = replica`); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, blocksSQL, shard, 1, 1<<40)
		if err != nil {
			return err
		}
		blocks, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (b Block, err error) {
			err = row.Scan(&b.Shard, &b.Number, &b.From, &b.To, &b.Leaves, &b.EventsRoot, &b.Nodes, &b.Head.Root, &b.Head.At, &b.Head.Signature)
			return b, err
		})
		if err != nil {
			return err
		}
		tree := merkleRanges.NewEmptyRange(0)
		for i := range blocks {
			b := &blocks[i]
			rows, err := tx.Query(ctx, verifySQL, shard, b.From, b.To)
			if err != nil {
				return err
			}
			found, err := pgx.CollectRows(rows, scanEvent)
			if err != nil {
				return err
			}
			if int64(len(found)) != b.To-b.From+1 {
				return fmt.Errorf("block %d: %d events", b.Number, len(found))
			}
			b.Leaves = nil
			for i := range found {
				leaf := leafHash(&found[i])
				b.Leaves = append(b.Leaves, leaf...)
				if tags {
					if _, err := tx.Exec(ctx, `update ledger_events set tag = $3 where shard = $1 and position = $2`, shard, found[i].Position, as.tag(leaf)); err != nil {
						return err
					}
				}
			}
			if b.EventsRoot, err = merkleRoot(b.Leaves); err != nil {
				return err
			}
			if b.Nodes, err = addBlock(tree, b.hash()); err != nil {
				return err
			}
			b.Head.Shard, b.Head.Size, b.Head.Position = shard, b.Number, b.To
			if b.Head.Root, err = rootOf(tree); err != nil {
				return err
			}
			as.signHead(&b.Head)
			if _, err := tx.Exec(ctx, `update ledger_blocks set leaves = $3, events_root = $4, nodes = $5, root = $6, signature = $7 where shard = $1 and number = $2`,
				shard, b.Number, b.Leaves, b.EventsRoot, b.Nodes, b.Head.Root, b.Head.Signature); err != nil {
				return err
			}
		}
		return nil
	})
}

// LockHeadAndFreeze leaves a transaction of a committer open that holds the lock on a shard's head, as a node does that
// is frozen in the middle of an append.
func (l *Ledger) LockHeadAndFreeze(ctx context.Context, shard int) error {
	conn, err := l.writers.Acquire(ctx)
	if err != nil {
		return err
	}
	frozen := conn.Hijack() // not returned to the pool
	if _, err := frozen.Exec(ctx, "begin"); err != nil {
		return err
	}
	_, err = frozen.Exec(ctx, lockHeadSQL, shard)
	return err
}
