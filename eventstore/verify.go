package eventstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/transparency-dev/merkle/compact"
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

// VerifyOptions are the options of Verify; the zero value verifies a shard from its first event.
type VerifyOptions struct {
	// Heads are heads that the installation has published, of any shards. The tree of blocks must contain them.
	Heads []TreeHead
	// Continue begins after the newest of Heads, up to which an earlier run found the shard unchanged. The blocks before
	// it are compared with its root; their events are not read.
	Continue bool
	// Workers is how many connections read and hash at the same time; default: the number of processors.
	Workers int
	// Progress is called after each chunk with the position that was reached and the last one; nil: nothing is called.
	Progress func(position, last int64)
}

// VerifyResult is what Verify found unchanged.
type VerifyResult struct {
	Shard  int    `json:"shard"`
	Events int64  `json:"events"`          // positions from 1 that are unchanged
	Blocks int64  `json:"blocks"`          // closed blocks
	After  int64  `json:"after,omitempty"` // position after which events were read, with Continue
	Heads  int    `json:"published_heads"` // how many published heads were compared
	Head   string `json:"head"`            // the newest signed tree head; kept elsewhere, it later proves that nothing was cut off
}

// Verify closes the open block, recomputes every hash and tag of a shard, and compares them with the blocks, their
// signatures and the published heads. It returns *Tampering for the first position that was changed, removed, moved or
// added; for rows in shards that do not exist, with their shard.
func (l *Ledger) Verify(ctx context.Context, shard int, o VerifyOptions) (VerifyResult, error) {
	v := &verification{ledger: l, options: o, result: VerifyResult{Shard: shard}, tree: merkleRanges.NewEmptyRange(0)}
	err := v.run(ctx)
	return v.result, err
}

type verification struct {
	ledger  *Ledger
	options VerifyOptions
	result  VerifyResult
	tree    *compact.Range
	last    TreeHead   // of the newest block
	matched int64      // last position of the newest published head that is in the tree
	heads   []TreeHead // published heads of the shard
}

const (
	rowsOutsideSQL = `(select shard, position from ledger_events where shard = $1 and position < 1 order by shard, position limit 1)
		union all (select shard, position from ledger_events where shard < 0 order by shard, position limit 1)
		union all (select shard, position from ledger_events where shard >= $2 order by shard, position limit 1)
		union all (select shard, position from ledger_heads where shard not between 0 and $2 - 1 order by shard limit 1)
		union all (select shard, from_position from ledger_blocks where shard < 0 order by shard, number limit 1)
		union all (select shard, from_position from ledger_blocks where shard >= $2 order by shard, number limit 1)
		union all (select shard, from_position from ledger_blocks where shard = $1 and number < 1 order by number limit 1)`
	// One statement, so that an event that is appended meanwhile is not taken for one after the head.
	afterHeadSQL = `select h.position, coalesce((select position from ledger_events where shard = $1 and position > h.position order by position limit 1), 0)
		from ledger_heads h where h.shard = $1`
)

func (v *verification) tampering(position int64, format string, args ...any) error {
	return &Tampering{v.result.Shard, position, fmt.Sprintf(format, args...)}
}

func (v *verification) run(ctx context.Context) error {
	l, shard := v.ledger, v.result.Shard
	if _, err := l.CloseBlocks(ctx, shard); err != nil {
		// Something after the last block, or the tree of blocks, is not as it was written. The steps below find what.
		l.log.Debug("eventstore: cannot close the open block", "shard", shard, "error", err)
	}
	outside, err := v.rowOutside(ctx)
	if err != nil {
		return err
	}
	if outside != nil && outside.Shard == shard {
		return outside
	}
	if v.last, err = l.LastTreeHead(ctx, shard); err != nil {
		return err
	}
	for _, h := range v.options.Heads {
		if h.Shard == shard {
			v.heads = append(v.heads, h)
		}
	}
	if v.options.Continue {
		if err := v.goOn(ctx); err != nil {
			return err
		}
	}
	if err := v.verifyBlocks(ctx); err != nil {
		return err
	}
	if err := v.verifyEnd(ctx); err != nil {
		return err
	}
	for i := range v.heads {
		switch h := &v.heads[i]; {
		case h.Size <= v.result.Blocks:
		case h.Position > v.result.Events:
			return v.tampering(v.result.Events+1, "the published head of %d blocks and %d events is missing: the end was cut off", h.Size, h.Position)
		default:
			return v.notPublished(h)
		}
	}
	if outside != nil {
		return outside
	}
	return nil
}

// rowOutside returns the first row in a shard that does not exist, or before the first position of this shard.
func (v *verification) rowOutside(ctx context.Context) (*Tampering, error) {
	rows, err := v.ledger.pool.Query(ctx, rowsOutsideSQL, v.result.Shard, v.ledger.shards)
	if err != nil {
		return nil, fmt.Errorf("eventstore: rows outside of the shards: %w", err)
	}
	var first *Tampering
	var shard int
	var position int64
	_, err = pgx.ForEachRow(rows, []any{&shard, &position}, func() error {
		if first != nil && (first.Shard == v.result.Shard || shard != v.result.Shard) {
			return nil
		}
		first = &Tampering{shard, position, "there is a row in a shard that does not exist"}
		if shard == v.result.Shard {
			first.Problem = "there is a row before the first position"
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("eventstore: rows outside of the shards: %w", err)
	}
	return first, nil
}

// goOn sets the tree to the newest published head, after comparing the tree in the database with it.
func (v *verification) goOn(ctx context.Context) error {
	var newest *TreeHead
	for i := range v.heads {
		if h := &v.heads[i]; newest == nil || h.Size > newest.Size {
			newest = h
		}
	}
	if newest == nil {
		return fmt.Errorf("eventstore: there is no published head of shard %d to go on from", v.result.Shard)
	}
	if newest.Size > v.last.Size {
		return nil // the end was cut off: verify from the first event, to find where
	}
	tree, err := blockRange(ctx, v.ledger.nodes(v.result.Shard), newest.Size)
	if errors.Is(err, errNodeMissing) {
		return nil // as below
	}
	if err != nil {
		return err
	}
	root, err := rootOf(tree)
	if err != nil {
		return err
	}
	if !bytes.Equal(root, newest.Root) {
		return nil // history was rewritten: verify from the first event, to find where
	}
	v.tree, v.matched, v.result.Heads = tree, newest.Position, 1
	v.result.Blocks, v.result.Events, v.result.After = newest.Size, newest.Position, newest.Position
	v.result.Head = v.ledger.keyring.Note(newest)
	kept := v.heads[:0]
	for _, h := range v.heads {
		if h.Size > newest.Size {
			kept = append(kept, h)
		}
	}
	v.heads = kept
	return nil
}

// verifyBlocks verifies the closed blocks: chunks of them are read and hashed in parallel, and added to the tree in
// their order.
func (v *verification) verifyBlocks(ctx context.Context) error {
	workers := v.options.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	chunks := make(chan chan *chunk, workers) // the results, in the order of the blocks
	slots := make(chan struct{}, workers)
	go func() {
		defer close(chunks)
		for first := v.result.Blocks + 1; first <= v.last.Size; first += chunkBlocks {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			result := make(chan *chunk, 1)
			go func() {
				result <- v.ledger.readChunk(ctx, v.result.Shard, first, min(first+chunkBlocks-1, v.last.Size))
				<-slots
			}()
			select {
			case chunks <- result:
			case <-ctx.Done():
				return
			}
		}
	}()
	for result := range chunks {
		c := <-result
		if err := v.addChunk(c); err != nil {
			return err
		}
		if v.options.Progress != nil {
			v.options.Progress(v.result.Events, v.last.Position)
		}
	}
	return ctx.Err()
}

// addChunk compares the blocks of a chunk with the tree so far, in their order, and returns the first problem.
func (v *verification) addChunk(c *chunk) error {
	for i := range c.blocks {
		b := &c.blocks[i]
		if b.Number != v.result.Blocks+1 || b.From != v.result.Events+1 {
			return v.tampering(v.result.Events+1, "block %d is missing or was moved", v.result.Blocks+1)
		}
		if b.problem != nil {
			return b.problem
		}
		nodes, err := addBlock(v.tree, b.hash())
		if err != nil {
			return err
		}
		root, err := rootOf(v.tree)
		if err != nil {
			return err
		}
		if !bytes.Equal(nodes, b.Nodes) || !bytes.Equal(root, b.Head.Root) {
			return v.tampering(b.From, "block %d does not continue the tree of blocks", b.Number)
		}
		if !b.signed {
			return v.tampering(b.From, "the installation did not sign block %d", b.Number)
		}
		if err := v.comparePublished(b); err != nil {
			return err
		}
		v.result.Blocks, v.result.Events, v.result.Head = b.Number, b.To, v.ledger.keyring.Note(&b.Head)
	}
	if c.err != nil {
		return c.err
	}
	if v.result.Blocks < c.last {
		return v.tampering(v.result.Events+1, "block %d is missing or was moved", v.result.Blocks+1)
	}
	return nil
}

// comparePublished compares the tree that ends with a block with the published heads of its size.
func (v *verification) comparePublished(b *verifiedBlock) error {
	for i := range v.heads {
		h := &v.heads[i]
		if h.Size != b.Number {
			continue
		}
		if !bytes.Equal(h.Root, b.Head.Root) || h.Position != b.To {
			return v.notPublished(h)
		}
		v.matched = h.Position
		v.result.Heads++
	}
	return nil
}

// notPublished returns the problem that the ledger does not contain a published head.
func (v *verification) notPublished(h *TreeHead) error {
	return v.tampering(v.matched+1, "the ledger does not contain the published head of %d blocks: positions from %d to %d were rewritten, or closed again after blocks were removed",
		h.Size, v.matched+1, h.Position)
}

// verifyEnd verifies the events after the last block, and compares the head with the last event.
func (v *verification) verifyEnd(ctx context.Context) error {
	var head, after int64
	if err := v.ledger.pool.QueryRow(ctx, afterHeadSQL, v.result.Shard).Scan(&head, &after); errors.Is(err, pgx.ErrNoRows) {
		return v.tampering(1, "the head of the shard is missing")
	} else if err != nil {
		return fmt.Errorf("eventstore: end of shard %d: %w", v.result.Shard, err)
	}
	if head < v.result.Events {
		return v.tampering(head+1, "the head is before the end of the blocks")
	}
	if head > v.result.Events { // appended since, or the open block could not be closed
		open := verifiedBlock{Block: Block{Shard: v.result.Shard, From: v.result.Events + 1, To: head}}
		if err := v.ledger.readEvents(ctx, []verifiedBlock{open}, func(b *verifiedBlock, t *Tampering) { open.problem = t }); err != nil {
			return err
		}
		if open.problem != nil {
			return open.problem
		}
		v.result.Events = head
	}
	if after > 0 {
		return v.tampering(after, "there is an event after the head")
	}
	return nil
}

const codeUniqueViolation = "23505"

func isUniqueViolation(err error) bool {
	refused := (*pgconn.PgError)(nil)
	return errors.As(err, &refused) && refused.Code == codeUniqueViolation
}
