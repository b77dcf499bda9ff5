package eventstore

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Most batches find what they expect: streams at the versions they were decided at, free claims, unused keys. Such a
// batch is decided on these assumptions and sent whole, with one question in front that fails the transaction when
// anything is otherwise: one round trip, where reading first and writing then would take two. A batch that assumed
// wrongly has written nothing, and is decided again on what is there.

// errAssumed says that the batch was decided on assumptions that do not hold.
const errAssumed = "LL002"

// longestRest is how many batches go the careful way, at most, after an assumption failed. It is one after a chance collision, and
// twice as many after each further one: where others write to the shard too, guessing costs more than it saves.
const longestRest = 16

// assumption is what a batch is taken to find, and the question that makes sure.
type assumption struct {
	facts    *facts
	streams  []string
	versions []int32
	free     []claimKey
	receipts []receiptKey
	subjects []string
	rooms    map[windowKey]int64 // how much may be used already, so that all the batch adds has room
}

const assumeSQL = `select ledger_check_expectation($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`

// assume builds the facts that the appends of a batch expect. ok is false for a batch that cannot be guessed: one with
// releases, with streams at any version, or one whose appends expect different things.
func (c *committer) assume(batch []*pending) (*assumption, bool) {
	if c.rest > 0 {
		c.rest--
		return nil, false
	}
	as := &assumption{facts: newFacts(c.ledger.heads.at(c.shard), c.ledger.clock.Now()), rooms: map[windowKey]int64{}}
	known := func(stream string, version int) bool {
		if had, seen := as.facts.versions[stream]; seen {
			return had == version
		}
		as.facts.versions[stream] = version
		as.streams, as.versions = append(as.streams, stream), append(as.versions, int32(version)) //nolint:gosec // small
		return true
	}
	written := map[string]bool{}
	for _, p := range batch {
		a := p.append
		if len(a.EraseSubjects) > 0 {
			return nil, false
		}
		for _, g := range a.Guards {
			if written[g.Stream] || !known(g.Stream, g.Version) {
				return nil, false
			}
		}
		for _, s := range a.Streams {
			// Two writers of one stream in one batch: one of them will be refused.
			if s.Expected == AnyVersion || written[s.Stream] || !known(s.Stream, s.Expected) {
				return nil, false
			}
		}
		for _, s := range a.Streams {
			written[s.Stream] = true
		}
		for _, cl := range a.Claims {
			if cl.Release {
				return nil, false
			}
			as.free = append(as.free, claimKey{cl.Scope, cl.Key})
		}
		if r := a.Idempotency; r != nil {
			as.receipts = append(as.receipts, receiptKey{r.Workspace, r.Key})
		}
		for _, k := range p.newKeys {
			as.subjects = append(as.subjects, k.subject)
		}
	}
	return as, true
}

// question puts the assumption in front of what is written.
func (as *assumption) question(b *pgx.Batch, shard int, head int64) {
	scopes, keys := make([]string, len(as.free)), make([]string, len(as.free))
	for i, k := range as.free {
		scopes[i], keys[i] = k.scope, k.key
	}
	workspaces, receipts := make([]uuid.UUID, len(as.receipts)), make([]string, len(as.receipts))
	for i, k := range as.receipts {
		workspaces[i], receipts[i] = k.workspace, k.key
	}
	var counters []string
	var since []time.Time
	var rooms []int64
	for w, room := range as.rooms {
		counters, since, rooms = append(counters, w.key), append(since, w.from), append(rooms, room)
	}
	b.Queue(assumeSQL, shard, head, as.facts.head, as.streams, as.versions, scopes, keys, uuids(workspaces), receipts, as.subjects, counters, since, rooms)
}

// needs notes how little may be used of a quota already for this append to have room behind those before it. It is asked
// after each append was decided with the batch's own additions counted.
func (as *assumption) needs(a *Append) {
	for _, q := range a.Quotas {
		if q.Add <= 0 {
			continue
		}
		w := windowKey{q.Key, q.From}
		room := q.Limit - as.facts.usedSince(q.Key, q.From)
		if had, known := as.rooms[w]; !known || room < had {
			as.rooms[w] = room
		}
	}
}

// tryAssumed writes a batch on its assumption. done is false when the careful way has to be gone.
func (c *committer) tryAssumed(ctx context.Context, batch []*pending) (outcomes []outcome, done bool, err error) {
	as, ok := c.assume(batch)
	if !ok {
		return nil, false, nil
	}
	head := as.facts.head
	outcomes = make([]outcome, len(batch))
	for i, p := range batch {
		if outcomes[i].result, outcomes[i].err = as.facts.decide(c.shard, p); outcomes[i].err != nil {
			return nil, false, nil // they collide among themselves
		}
		as.needs(p.append)
	}
	conn, err := c.ledger.writers.Acquire(ctx)
	if err != nil {
		return nil, false, err
	}
	defer func() { release(conn, err) }()
	err = c.write(ctx, conn, as.facts, batch, func(b *pgx.Batch) {
		b.Queue("begin")
		as.question(b, c.shard, head)
	})
	if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) && refused.Code == errAssumed {
		c.penalty = min(max(2*c.penalty, 1), longestRest)
		c.rest = c.penalty
		if _, err = conn.Exec(ctx, "rollback"); err != nil {
			return nil, false, err
		}
		return nil, false, nil
	}
	if err == nil {
		c.penalty = 0
	}
	return outcomes, true, err
}
