package eventstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// chunkBlocks is how many blocks a worker of Verify reads at a time. Their events are streamed.
const chunkBlocks = 64

// chunk is what a worker found about consecutive blocks.
type chunk struct {
	last   int64 // number of the last block that the chunk should have
	blocks []verifiedBlock
	err    error // of the database, after the blocks
}

// verifiedBlock is a block with what is wrong with it on its own, apart from its place in the tree.
type verifiedBlock struct {
	Block
	problem error // *Tampering; nil when the events are those that the block was closed with
	signed  bool
}

const (
	blocksSQL = `select shard, number, from_position, to_position, leaves, events_root, nodes, root, closed_at, signature
		from ledger_blocks where shard = $1 and number between $2 and $3 order by number`
	// Not bounded by the head: whatever is there must be found.
	verifySQL = `select ` + eventColumns + ` from ledger_events e where e.shard = $1 and e.position between $2 and $3 order by e.position`
	// The first of the subjects that have no key.
	keylessSQL = `select u.i from unnest($1::text[]) with ordinality u (subject, i)
		where not exists (select from ledger_keys k where k.subject = u.subject) order by u.i limit 1`
)

// readChunk reads and hashes the blocks with these numbers. It stops at the first block that is wrong.
func (l *Ledger) readChunk(ctx context.Context, shard int, first, last int64) *chunk {
	c := &chunk{last: last}
	rows, err := l.pool.Query(ctx, blocksSQL, shard, first, last)
	if err != nil {
		c.err = fmt.Errorf("eventstore: read blocks: %w", err)
		return c
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (b verifiedBlock, err error) {
		err = row.Scan(&b.Shard, &b.Number, &b.From, &b.To, &b.Leaves, &b.EventsRoot, &b.Nodes, &b.Head.Root, &b.Head.At, &b.Head.Signature)
		b.Head.Shard, b.Head.Size, b.Head.Position = b.Shard, b.Number, b.To
		return b, err
	})
	if err != nil {
		c.err = fmt.Errorf("eventstore: read blocks: %w", err)
		return c
	}
	for i := range found {
		b := &found[i]
		if i > 0 && (b.Number != found[i-1].Number+1 || b.From != found[i-1].To+1) {
			found = found[:i] // a block is missing
			break
		}
		if b.To < b.From || b.To-b.From >= BlockSize || int64(len(b.Leaves)) != (b.To-b.From+1)*sha256.Size {
			b.problem = &Tampering{shard, b.From, fmt.Sprintf("block %d was altered", b.Number)}
			c.blocks = found[:i+1]
			found = found[:i] // the events of the blocks before it are read
			break
		}
	}
	if c.blocks == nil {
		c.blocks = found
	}
	if len(found) > 0 {
		c.err = l.readEvents(ctx, found, func(b *verifiedBlock, t *Tampering) { b.problem = t })
	}
	for i := range found {
		b := &found[i]
		if b.problem != nil {
			break
		}
		root, err := merkleRoot(b.Leaves)
		if err != nil {
			c.err = err
			return c
		}
		if !bytes.Equal(root, b.EventsRoot) {
			b.problem = &Tampering{shard, b.From, fmt.Sprintf("block %d was altered", b.Number)}
		}
		b.signed = l.keyring.hasSigned(&b.Head)
	}
	return c
}

// readEvents compares the events of consecutive blocks with their leaves and tags, and calls report with the first
// problem. Of a block without leaves it checks the tags only.
func (l *Ledger) readEvents(ctx context.Context, blocks []verifiedBlock, report func(*verifiedBlock, *Tampering)) error {
	shard, next, to := blocks[0].Shard, blocks[0].From, blocks[len(blocks)-1].To
	rows, err := l.pool.Query(ctx, verifySQL, shard, next, to)
	if err != nil {
		return fmt.Errorf("eventstore: read events: %w", err)
	}
	defer rows.Close()
	at := 0
	blockOf := func(position int64) *verifiedBlock {
		for at < len(blocks)-1 && blocks[at].To < position {
			at++
		}
		return &blocks[at]
	}
	keys := subjectsOf{seen: map[string]bool{}}
	// The events before a problem are free of it, except that the key of one of them may be missing.
	stop := func(position int64, problem string) error {
		rows.Close()
		first, err := keys.missing(ctx, l)
		if err != nil {
			return err
		}
		if first > 0 && first < position {
			position, problem = first, keyMissing
		}
		at = 0
		report(blockOf(position), &Tampering{shard, position, problem})
		return nil
	}
	for rows.Next() {
		r, err := scanEvent(rows)
		switch {
		case err != nil:
			return stop(next, "the event cannot be read: "+err.Error())
		case r.Position < next:
			return stop(r.Position, "there are two events")
		case r.Position > next:
			return stop(next, "the event is missing")
		}
		b := blockOf(next)
		leaf := leafHash(&r)
		if !l.keyring.hasTag(&r, leaf) || r.Shard != l.ShardOf(r.OrganisationID) {
			return stop(next, "the event is not the one that was written")
		}
		if b.Leaves != nil && !bytes.Equal(leaf, b.Leaves[(next-b.From)*sha256.Size:][:sha256.Size]) {
			return stop(next, fmt.Sprintf("block %d has another hash of the event", b.Number))
		}
		if r.Sealed != nil {
			keys.add(r.Subject, next)
		}
		next++
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("eventstore: read events: %w", err)
	}
	if next <= to {
		return stop(next, "the event is missing")
	}
	first, err := keys.missing(ctx, l)
	if err == nil && first > 0 {
		return stop(first, keyMissing)
	}
	return err
}

const keyMissing = "the key of the event's personal data is missing, and not destroyed"

// subjectsOf collects the subjects of events with the positions at which they occur first.
type subjectsOf struct {
	seen      map[string]bool
	subjects  []string
	positions []int64
}

func (s *subjectsOf) add(subject string, position int64) {
	if !s.seen[subject] {
		s.seen[subject] = true
		s.subjects, s.positions = append(s.subjects, subject), append(s.positions, position)
	}
}

// missing returns the first position whose subject has no key, and 0 when all have one.
func (s *subjectsOf) missing(ctx context.Context, l *Ledger) (int64, error) {
	if len(s.subjects) == 0 {
		return 0, nil
	}
	var i int
	err := l.pool.QueryRow(ctx, keylessSQL, s.subjects).Scan(&i)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("eventstore: keys of events: %w", err)
	}
	return s.positions[i-1], nil
}
