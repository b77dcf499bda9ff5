package processes

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// The functions are in the migration that makes the table, with the reason why they are functions.
const (
	todoTakeSQL  = `select key, shard, fence, asked_at_position, due_at, attempts from process_todo_take($1, $2, $3, $4)`
	todoRenewSQL = `select process_todo_renew($1, $2, $3, $4)`
	todoPutSQL   = `select process_todo_put($1, $2, $3, $4, $5, $6, $7, $8, $9)`

	// todoNextSQL tells what a runner must wake up for by itself: the next deadline by the service's clock, and the
	// seconds until the next retry.
	todoNextSQL = `
select
  (select due_at from process_todo where process = $1 and retry_at is null and due_at > $2 order by due_at limit 1),
  (select extract(epoch from retry_at - now())::float8 from process_todo where process = $1 and retry_at > now()
   order by retry_at limit 1)`

	// todoLockSQL comes first wherever several rows are written, unless one function writes them all in the order of their
	// keys: with all locks taken in that order, as asks take them, no two transactions can wait for each other.
	todoLockSQL = `select process_todo_lock($1, $2)`

	todoHeldSQL = `
select exists (select from process_todo where process = $1 and key = $2 and fence = $3 and lease_until > now())`
)

// ended is a task that a worker has put down.
type ended struct {
	task     Task
	done     bool
	again    *time.Time
	failures int            // in a row
	pause    *time.Duration // after a failure
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
	t.queue(&batch, r)
	if batch.Len() == 0 {
		return nil
	}
	if err := r.cfg.Pool.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("processes: %s: to-do list: %w", r.cfg.Process, err)
	}
	return nil
}

func (t *turn) queue(batch *pgx.Batch, r *Runner) {
	process, lease := r.cfg.Process, r.cfg.Lease
	slices.SortFunc(t.ended, func(a, b ended) int { return strings.Compare(a.task.Key, b.task.Key) })
	if len(t.renew) > 0 {
		keys := make([]string, 0, len(t.ended)+len(t.renew))
		for _, e := range t.ended {
			keys = append(keys, e.task.Key)
		}
		for _, task := range t.renew {
			keys = append(keys, task.Key)
		}
		batch.Queue(todoLockSQL, process, keys)
	}
	t.queueEnded(batch, process)
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
		batch.Queue(todoTakeSQL, process, t.now, t.take, lease).Query(func(rows pgx.Rows) (err error) {
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
}

func (t *turn) queueEnded(batch *pgx.Batch, process string) {
	if len(t.ended) == 0 {
		return
	}
	var c endedColumns
	for _, e := range t.ended {
		c.add(e)
	}
	batch.Queue(todoPutSQL, process, c.keys, c.fences, c.asked, c.dues, c.done, c.later, c.failures, c.pauses)
}

// endedColumns are ended tasks as the arrays that a statement takes.
type endedColumns struct {
	keys          []string
	fences, asked []int64
	dues          []time.Time
	done          []bool
	later         []*time.Time
	failures      []int
	pauses        []*time.Duration
}

func (c *endedColumns) add(e ended) {
	c.keys = append(c.keys, e.task.Key)
	c.fences = append(c.fences, e.task.Fence)
	c.asked = append(c.asked, e.task.AskedAt)
	c.dues = append(c.dues, e.task.DueAt)
	c.done = append(c.done, e.done)
	c.later = append(c.later, e.again)
	c.failures = append(c.failures, e.failures)
	c.pauses = append(c.pauses, e.pause)
}
