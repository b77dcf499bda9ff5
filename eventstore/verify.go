package eventstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Tampering is the error of Verify: the first position of a shard that is not as it was written.
type Tampering struct {
	Shard    int
	Position int64
	Problem  string // for an operator
}

func (t *Tampering) Error() string {
	return fmt.Sprintf("shard %d, position %d: %s", t.Shard, t.Position, t.Problem)
}

// VerifyResult is what Verify found unchanged.
type VerifyResult struct {
	Shard  int    `json:"shard"`
	Events int64  `json:"events"`
	Blocks int64  `json:"blocks"`
	Head   string `json:"head"` // hash of the last block, hex; kept elsewhere, it later proves that nothing was cut off or rewritten
}

const (
	blocksSQL = `select shard, number, from_position, to_position, leaves, root, previous, hash, closed_at
		from ledger_blocks where shard = $1 and number > $2 order by number limit 64`
	maxPositionSQL = `select coalesce(max(position), 0) from ledger_events where shard = $1`
)

// Verify closes the open block, recomputes every hash of a shard and compares. It returns *Tampering for the first
// event that was changed, removed, moved or added, and, with anchor (the hash of a block, kept elsewhere), when the
// chain does not contain that block.
func (l *Ledger) Verify(ctx context.Context, shard int, anchor []byte) (VerifyResult, error) {
	v := VerifyResult{Shard: shard}
	v.Head = fmt.Sprintf("%x", make([]byte, sha256.Size))
	if _, err := l.CloseBlocks(ctx, shard); err != nil {
		// An event after the last block is missing. verifyEnd below finds which.
		l.log.Debug("eventstore: cannot close the open block", "shard", shard, "error", err)
	}
	previous, anchored := make([]byte, sha256.Size), anchor == nil
	for {
		rows, err := l.pool.Query(ctx, blocksSQL, shard, v.Blocks)
		if err != nil {
			return v, fmt.Errorf("eventstore: read blocks: %w", err)
		}
		blocks, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (b Block, err error) {
			err = row.Scan(&b.Shard, &b.Number, &b.From, &b.To, &b.Leaves, &b.Root, &b.Previous, &b.Hash, &b.ClosedAt)
			return b, err
		})
		if err != nil {
			return v, fmt.Errorf("eventstore: read blocks: %w", err)
		}
		if len(blocks) == 0 {
			break
		}
		for i := range blocks {
			b := &blocks[i]
			if err := l.verifyBlock(ctx, b, &v, previous); err != nil {
				return v, err
			}
			previous = b.Hash
			anchored = anchored || bytes.Equal(b.Hash, anchor)
			v.Blocks, v.Events, v.Head = b.Number, b.To, fmt.Sprintf("%x", b.Hash)
		}
	}
	if err := l.verifyEnd(ctx, &v); err != nil {
		return v, err
	}
	if !anchored {
		return v, &Tampering{shard, 1, "the chain does not contain the block with the expected hash: history was rewritten or cut off"}
	}
	return v, nil
}

func (l *Ledger) verifyBlock(ctx context.Context, b *Block, v *VerifyResult, previous []byte) error {
	switch {
	case b.Number != v.Blocks+1 || b.From != v.Events+1:
		return &Tampering{b.Shard, v.Events + 1, fmt.Sprintf("block %d is missing or was moved", v.Blocks+1)}
	case int64(len(b.Leaves)) != (b.To-b.From+1)*sha256.Size:
		return &Tampering{b.Shard, b.From, fmt.Sprintf("block %d was altered", b.Number)}
	}
	found, err := l.ReadRange(ctx, b.Shard, b.From-1, b.To)
	if err != nil {
		return err
	}
	for i := range b.To - b.From + 1 {
		position := b.From + i
		if i >= int64(len(found)) || found[i].Position != position {
			return &Tampering{b.Shard, position, "the event is missing"}
		}
		if !bytes.Equal(leafHash(&found[i]), b.Leaves[i*sha256.Size:(i+1)*sha256.Size]) {
			return &Tampering{b.Shard, position, "the event is not the one that was written"}
		}
	}
	root, err := merkleRoot(b.Leaves)
	if err != nil {
		return err
	}
	if !bytes.Equal(root, b.Root) || !bytes.Equal(previous, b.Previous) || !bytes.Equal(blockHash(b), b.Hash) {
		return &Tampering{b.Shard, b.From, fmt.Sprintf("block %d does not continue the chain", b.Number)}
	}
	return nil
}

// verifyEnd compares the last positions of the chain, the head and the events.
func (l *Ledger) verifyEnd(ctx context.Context, v *VerifyResult) error {
	var last int64
	if err := l.pool.QueryRow(ctx, maxPositionSQL, v.Shard).Scan(&last); err != nil {
		return fmt.Errorf("eventstore: last event: %w", err)
	}
	head, err := l.Head(ctx, v.Shard)
	if err != nil {
		return err
	}
	switch {
	case head < v.Events:
		return &Tampering{v.Shard, head + 1, "the head is before the end of the chain"}
	case last > head:
		return &Tampering{v.Shard, head + 1, "there is an event after the head"}
	case v.Events < head: // appended since, or the open block could not be closed
		found, err := l.ReadRange(ctx, v.Shard, v.Events, head)
		if err != nil {
			return err
		}
		for i := range head - v.Events {
			if i >= int64(len(found)) || found[i].Position != v.Events+1+i {
				return &Tampering{v.Shard, v.Events + 1 + i, "the event is missing"}
			}
		}
	}
	return nil
}

const codeUniqueViolation = "23505"

func isUniqueViolation(err error) bool {
	refused := (*pgconn.PgError)(nil)
	return errors.As(err, &refused) && refused.Code == codeUniqueViolation
}
