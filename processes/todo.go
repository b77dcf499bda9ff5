// Package processes holds what the service does on its own. A process reads events and keeps a table of things to do,
// written in the transaction that also moves its checkpoint; a Runner works on what is due: it loads the truth from the
// ledger, acts through an adapter, and appends what came back. Replaying never repeats an effect, because processes
// move only forward.
package processes

import (
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Ask says that a process has something to do for a key. Keys are entities (a conversation, an endpoint, a run), and
// are worked on one at a time.
type Ask struct {
	Process  string
	Key      string
	Shard    int       // where the key's streams live
	DueAt    time.Time // by the service's clock; the event's own time for what is to be done at once
	Position int64     // of the event that asks, in the shard
}

// asksSQL never moves a deadline back: whoever works on the key looks at the truth and says when it is due again.
const asksSQL = `
insert into process_todo as t (process, key, shard, due_at, asked_at_position)
select * from unnest($1::text[], $2::text[], $3::smallint[], $4::timestamptz[], $5::bigint[])
on conflict (process, key) do update set
    due_at = least(t.due_at, excluded.due_at),
    asked_at_position = greatest(t.asked_at_position, excluded.asked_at_position)`

// QueueAsks adds to a batch the one statement that writes all asks, to be run in the transaction that moves the asking
// process's checkpoint. After its commit, call Wake on the Runner. Asks for the same key become one with the earliest
// deadline and the latest position. Call it once per transaction: rows are locked in the order of their keys, and two
// statements could meet another transaction's in opposite orders.
func QueueAsks(batch *pgx.Batch, asks ...Ask) {
	if len(asks) == 0 {
		return
	}
	sorted := slices.Clone(asks)
	slices.SortFunc(sorted, func(a, b Ask) int {
		if c := strings.Compare(a.Process, b.Process); c != 0 {
			return c
		}
		return strings.Compare(a.Key, b.Key)
	})
	var (
		processes, keys []string
		shards          []int16
		dues            []time.Time
		positions       []int64
	)
	for i, a := range sorted {
		if last := len(keys) - 1; i > 0 && sorted[i-1].Process == a.Process && keys[last] == a.Key {
			positions[last] = max(positions[last], a.Position)
			if a.DueAt.Before(dues[last]) {
				dues[last] = a.DueAt
			}
			continue
		}
		processes, keys = append(processes, a.Process), append(keys, a.Key)
		shards = append(shards, int16(a.Shard)) //nolint:gosec // there are at most 1,024
		dues, positions = append(dues, a.DueAt), append(positions, a.Position)
	}
	batch.Queue(asksSQL, processes, keys, shards, dues, positions)
}

// Task is a key that a worker holds.
type Task struct {
	Process  string
	Key      string
	Shard    int
	Fence    int64     // greater than that of every earlier lease of the key
	AskedAt  int64     // the position that asked last before this lease
	DueAt    time.Time // when it was due, by the service's clock
	Attempts int       // failures in a row before this one
}

// Outcome is how work on a task ended.
type Outcome struct{ again *time.Time }

// Done is the outcome of work that leaves nothing to do, unless somebody has asked again meanwhile: then the key is due
// again at once.
var Done = Outcome{}

// Again is the outcome of work that goes on at a time by the service's clock, or at once if somebody has asked again
// meanwhile.
func Again(at time.Time) Outcome { return Outcome{again: &at} }
