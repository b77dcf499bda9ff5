package processes

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// todoLeaseSQL takes up to $3 due keys. Keys after a failure get up to half of the places, so that neither they nor
	// fresh keys can starve the others. Rows that a concurrent statement holds are skipped: whoever holds them (an ask, a
	// finish, another runner's lease) looks again itself afterwards. The keys come as an array, because the planner takes a
	// limit that it does not know for a tenth of the table, and would read all of it when it is large.
	todoLeaseSQL = `
with retried as materialized (
    select key from process_todo
    where process = $1 and retry_at is not null and retry_at <= now() and due_at <= $2
      and (lease_until is null or lease_until <= now())
    order by retry_at limit ($3 + 1) / 2 for update skip locked
), fresh as materialized (
    select key from process_todo
    where process = $1 and retry_at is null and due_at <= $2
      and (lease_until is null or lease_until <= now())
    order by due_at limit $3 for update skip locked
)
update process_todo t
set lease_until = now() + make_interval(secs => $4), fence = nextval('process_todo_fence')
where t.process = $1 and t.key = any(array((table retried union all table fresh) limit $3))
returning t.key, t.shard, t.fence, t.asked_at_position, t.due_at, t.attempts`

	// todoNextSQL tells what a runner must wake up for by itself: the next deadline by the service's clock, and the
	// seconds until the next retry.
	todoNextSQL = `
select
  (select due_at from process_todo where process = $1 and retry_at is null and due_at > $2 order by due_at limit 1),
  (select extract(epoch from retry_at - now())::float8 from process_todo where process = $1 and retry_at > now()
   order by retry_at limit 1)`

	// Every statement that touches several rows takes their locks in the order of keys first, so that no two can wait
	// for each other; what follows in the same transaction then sees each row as it is and stays.
	todoLockSQL = `select from process_todo where process = $1 and key = any($2::text[]) order by key for update`

	todoRenewSQL = `
update process_todo t set lease_until = now() + make_interval(secs => $4)
from unnest($2::text[], $3::bigint[]) as held(key, fence)
where t.process = $1 and t.key = held.key and t.fence = held.fence
returning t.fence`

	todoDoneSQL = `
delete from process_todo t
using unnest($2::text[], $3::bigint[], $4::bigint[], $5::timestamptz[]) as f(key, fence, asked, due)
where t.process = $1 and t.key = f.key and t.fence = f.fence and t.asked_at_position = f.asked and t.due_at = f.due`

	// todoKeepSQL gives up the lease of keys that stay: work that goes on, work that failed, and whatever was asked for
	// again, whose deadline is left as it is, which is past.
	todoKeepSQL = `
update process_todo t set
    lease_until = null,
    attempts = f.attempts,
    retry_at = now() + make_interval(secs => f.backoff),
    due_at = case when t.asked_at_position = f.asked and t.due_at = f.due then coalesce(f.again, t.due_at) else t.due_at end
from unnest($2::text[], $3::bigint[], $4::bigint[], $5::timestamptz[], $6::timestamptz[], $7::int[], $8::float8[])
     as f(key, fence, asked, due, again, attempts, backoff)
where t.process = $1 and t.key = f.key and t.fence = f.fence`

	todoHeldSQL = `
select exists (select from process_todo where process = $1 and key = $2 and fence = $3 and lease_until > now())`
)

// ended is a task that a worker has put down.
type ended struct {
	task     Task
	done     bool
	again    *time.Time
	attempts int
	backoff  *float64 // seconds, after a failure
}

// turn is one visit to the database: what ended is written down, leases are renewed, due keys are taken.
type turn struct {
	ended []ended
	renew []Task
	take  int
	now   time.Time // by the service's clock

	// What came back.
	renewed map[int64]bool // by fence
	taken   []Task
	next    *time.Time     // the next deadline; nil when there is none
	retryIn *time.Duration // until the next retry; nil when there is none
}

// run makes the visit in one round trip and one transaction. With nothing to write it writes nothing. After an error
// nothing may be assumed: what ended must be written again, which does no harm, and keys that were taken all the same
// come back when their lease ends.
func (t *turn) run(ctx context.Context, r *Runner) error {
	var batch pgx.Batch
	process := r.cfg.Process
	lease := r.cfg.Lease.Seconds()
	if len(t.ended)+len(t.renew) > 0 {
		keys := make([]string, 0, len(t.ended)+len(t.renew))
		for _, e := range t.ended {
			keys = append(keys, e.task.Key)
		}
		for _, task := range t.renew {
			keys = append(keys, task.Key)
		}
		batch.Queue(todoLockSQL, process, keys)
	}
	t.queueEnded(&batch, process)
	if len(t.renew) > 0 {
		keys, fences := make([]string, len(t.renew)), make([]int64, len(t.renew))
		for i, task := range t.renew {
			keys[i], fences[i] = task.Key, task.Fence
		}
		batch.Queue(todoRenewSQL, process, keys, fences, lease).Query(func(rows pgx.Rows) error {
			held, err := pgx.CollectRows(rows, pgx.RowTo[int64])
			t.renewed = make(map[int64]bool, len(held))
			for _, fence := range held {
				t.renewed[fence] = true
			}
			return err
		})
	}
	if t.take > 0 {
		batch.Queue(todoLeaseSQL, process, t.now, t.take, lease).Query(func(rows pgx.Rows) (err error) {
			t.taken, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (Task, error) {
				task := Task{Process: process}
				err := row.Scan(&task.Key, &task.Shard, &task.Fence, &task.AskedAt, &task.DueAt, &task.Attempts)
				return task, err
			})
			return err
		})
		batch.Queue(todoNextSQL, process, t.now).QueryRow(func(row pgx.Row) error {
			var seconds *float64
			if err := row.Scan(&t.next, &seconds); err != nil {
				return err
			}
			if seconds != nil {
				in := time.Duration(math.Ceil(*seconds*1000)) * time.Millisecond
				t.retryIn = &in
			}
			return nil
		})
	}
	if batch.Len() == 0 {
		return nil
	}
	if err := r.cfg.Pool.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("processes: %s: to-do list: %w", process, err)
	}
	return nil
}

func (t *turn) queueEnded(batch *pgx.Batch, process string) {
	if len(t.ended) == 0 {
		return
	}
	var done, all endedColumns
	for _, e := range t.ended {
		if e.done {
			done.add(e)
		}
		all.add(e) // a done key that was asked for again stays, and gives up its lease
	}
	if len(done.keys) > 0 {
		batch.Queue(todoDoneSQL, process, done.keys, done.fences, done.asked, done.dues)
	}
	batch.Queue(todoKeepSQL, process, all.keys, all.fences, all.asked, all.dues, all.agains, all.attempts, all.backoffs)
}

// endedColumns are ended tasks as the arrays that a statement unnests.
type endedColumns struct {
	keys          []string
	fences, asked []int64
	dues          []time.Time
	agains        []*time.Time
	attempts      []int
	backoffs      []*float64
}

func (c *endedColumns) add(e ended) {
	c.keys = append(c.keys, e.task.Key)
	c.fences = append(c.fences, e.task.Fence)
	c.asked = append(c.asked, e.task.AskedAt)
	c.dues = append(c.dues, e.task.DueAt)
	c.agains = append(c.agains, e.again)
	c.attempts = append(c.attempts, e.attempts)
	c.backoffs = append(c.backoffs, e.backoff)
}
