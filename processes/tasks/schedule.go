package tasks

import (
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Task is a scheduled task: work of a process for a key.
type Task struct {
	Process  string
	Key      string    // names an entity; a process has at most one task for a key
	Owner    string    // whose work it is, such as an organisation: owners take turns; "" is an owner too
	Shard    int       // of the ledger, where the entity's streams are
	DueAt    time.Time // by the service's clock; the time of the event for what is due at once
	Position int64     // of the latest event that scheduled the task, in the shard
}

// Leased is a task on which a worker holds the lease.
type Leased struct {
	Task
	Fence    int64 // greater than the fence of every earlier lease of the key
	Failures int   // task runs that failed in a row before this one
}

// Result is what a task run ends with: Finished, RunAgain or Postpone.
type Result struct {
	again *time.Time
	pause *time.Duration
}

// Finished is the result of a task run that leaves nothing to do. It removes the task, unless something has scheduled
// the key again since the lease was taken: then the task stays and is due.
var Finished = Result{}

// RunAgain is the result of a task run that leaves work for a time by the service's clock. If something has scheduled
// the key again since the lease was taken, the task is due at once instead.
func RunAgain(at time.Time) Result { return Result{again: &at} }

// Postpone is the result of a task run that could not do its work because of something outside of it, such as a carrier
// that does not answer. The task runs again after a pause in real time. That counts as no failure, and scheduling the
// key again does not shorten the pause.
func Postpone(pause time.Duration) Result { return Result{pause: &pause} }

// scheduleSQL may make a due time earlier, never later. The earlier task run decides when the next one is due.
const scheduleSQL = `
insert into scheduled_tasks as t (process, key, shard, due_at, scheduled_at_position, owner)
select process, key, shard, due_at, position, coalesce(nullif(owner, ''), '-')
from unnest($1::text[], $2::text[], $3::smallint[], $4::timestamptz[], $5::bigint[], $6::text[])
     u (process, key, shard, due_at, position, owner)
on conflict (process, key) do update set
    due_at = least(t.due_at, excluded.due_at),
    scheduled_at_position = greatest(t.scheduled_at_position, excluded.scheduled_at_position)`

// Schedule adds to a batch the one statement that schedules all given tasks. Run the batch in the transaction that
// moves the process's checkpoint, and wake the Runner after its commit. Tasks with the same key become one with the
// earliest due time and the latest position. Call Schedule once for each transaction: the statement locks rows in the
// order of their keys, and two statements could lock rows in the opposite order of another transaction.
func Schedule(batch *pgx.Batch, tasks ...Task) {
	if len(tasks) == 0 {
		return
	}
	sorted := slices.Clone(tasks)
	slices.SortFunc(sorted, func(a, b Task) int {
		if c := strings.Compare(a.Process, b.Process); c != 0 {
			return c
		}
		return strings.Compare(a.Key, b.Key)
	})
	var (
		processes, keys, owners []string
		shards                  []int16
		dues                    []time.Time
		positions               []int64
	)
	for i, t := range sorted {
		if last := len(keys) - 1; i > 0 && sorted[i-1].Process == t.Process && keys[last] == t.Key {
			positions[last] = max(positions[last], t.Position)
			if t.DueAt.Before(dues[last]) {
				dues[last] = t.DueAt
			}
			continue
		}
		processes, keys, owners = append(processes, t.Process), append(keys, t.Key), append(owners, t.Owner)
		shards = append(shards, int16(t.Shard)) //nolint:gosec // there are at most 1,024
		dues, positions = append(dues, t.DueAt), append(positions, t.Position)
	}
	batch.Queue(scheduleSQL, processes, keys, shards, dues, positions, owners)
}
