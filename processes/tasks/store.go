package tasks

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// The functions are defined in the migration that creates the table; it says why they are functions.
const (
	leaseSQL = `select key, owner, shard, fence, scheduled_at_position, due_at, failures, waited, more from scheduled_tasks_lease($1, $2, $3, $4, $5)`
	renewSQL = `select scheduled_tasks_renew($1, $2, $3, $4)`
	endSQL   = `select scheduled_tasks_end($1, $2, $3, $4, $5, $6, $7, $8, $9)`

	// nextSQL reads the times for which the runner sets timers: the next due time by the service's clock, and the seconds
	// until the next retry.
	nextSQL = `
select
  (select due_at from scheduled_tasks where process = $1 and retry_at is null and due_at > $2 order by due_at limit 1),
  (select extract(epoch from retry_at - now())::float8 from scheduled_tasks where process = $1 and retry_at > now()
   order by retry_at limit 1)`
)

// noOwner is stored for the owner "".
const noOwner = "-"

// LockSQL locks the tasks of a process ($1) with some keys ($2). It comes first in a transaction in which several
// statements write tasks: when all transactions lock rows in the order of their keys, as Schedule does, no two of them
// can wait for each other.
const LockSQL = `select scheduled_tasks_lock($1, $2)`

// ended is a task run that has ended, with what is to be written about it.
type ended struct {
	task     Leased
	finished bool
	again    *time.Time     // the next due time
	failures int            // in a row
	pause    *time.Duration // until the retry, after a failure
}

// roundTrip is one round trip to the database: it writes results, renews leases and leases due tasks.
type roundTrip struct {
	ended []ended
	renew []Leased
	limit int       // of tasks to lease; 0 leases none
	busy  []string  // owners of which no task is leased
	now   time.Time // by the service's clock

	// What the database answered.
	renewed map[int64]bool // by fence
	leased  []Leased
	waited  []time.Duration // by task of leased: how long it has been due
	more    bool            // further tasks may be due
	nextDue *time.Time      // nil when no later task is scheduled
	retryIn *time.Duration  // until the next retry; nil when none is pending
}

// run makes the round trip, in one transaction, if there is anything to write, to renew or to lease. After an error it
// is unknown whether the transaction has committed. Writing the results again does no harm then, and tasks that were
// leased although the answer was lost are run when those leases end.
func (t *roundTrip) run(ctx context.Context, r *Runner) error {
	var batch pgx.Batch
	t.addTo(&batch, r)
	if batch.Len() == 0 {
		return nil
	}
	if err := r.cfg.Pool.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("tasks: %s: %w", r.cfg.Process, err)
	}
	return nil
}

func (t *roundTrip) addTo(batch *pgx.Batch, r *Runner) {
	process, lease := r.cfg.Process, r.cfg.Lease
	slices.SortFunc(t.ended, func(a, b ended) int { return strings.Compare(a.task.Key, b.task.Key) })
	if len(t.renew) > 0 { // each of the two functions locks its rows in the order of their keys, but both together do not
		keys := make([]string, 0, len(t.ended)+len(t.renew))
		for _, e := range t.ended {
			keys = append(keys, e.task.Key)
		}
		for _, task := range t.renew {
			keys = append(keys, task.Key)
		}
		batch.Queue(LockSQL, process, keys)
	}
	t.addEndedTo(batch, process)
	if len(t.renew) > 0 {
		keys, fences := make([]string, len(t.renew)), make([]int64, len(t.renew))
		for i, task := range t.renew {
			keys[i], fences[i] = task.Key, task.Fence
		}
		batch.Queue(renewSQL, process, keys, fences, lease).Query(func(rows pgx.Rows) error {
			renewed, err := pgx.CollectRows(rows, pgx.RowTo[int64])
			t.renewed = make(map[int64]bool, len(renewed))
			for _, fence := range renewed {
				t.renewed[fence] = true
			}
			return err
		})
	}
	if t.limit > 0 {
		batch.Queue(leaseSQL, process, t.now, t.limit, lease, append([]string{}, t.busy...)).Query(func(rows pgx.Rows) (err error) {
			t.leased, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (Leased, error) {
				task := Leased{Task: Task{Process: process}}
				var seconds float64
				err := row.Scan(&task.Key, &task.Owner, &task.Shard, &task.Fence, &task.Position, &task.DueAt, &task.Failures, &seconds, &t.more)
				if task.Owner == noOwner {
					task.Owner = ""
				}
				t.waited = append(t.waited, time.Duration(seconds*float64(time.Second)))
				return task, err
			})
			return err
		})
		batch.Queue(nextSQL, process, t.now).QueryRow(func(row pgx.Row) error {
			var seconds *float64
			if err := row.Scan(&t.nextDue, &seconds); err != nil {
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

func (t *roundTrip) addEndedTo(batch *pgx.Batch, process string) {
	if len(t.ended) == 0 {
		return
	}
	var c endedColumns
	for _, e := range t.ended {
		c.add(e)
	}
	batch.Queue(endSQL, process, c.keys, c.fences, c.positions, c.dues, c.finished, c.again, c.failures, c.pauses)
}

// endedColumns are ended task runs as the arrays that endSQL takes. Positions and due times are those of the lease: by
// them the database sees whether something has scheduled the key again since.
type endedColumns struct {
	keys              []string
	fences, positions []int64
	dues              []time.Time
	finished          []bool
	again             []*time.Time
	failures          []int
	pauses            []*time.Duration
}

func (c *endedColumns) add(e ended) {
	c.keys = append(c.keys, e.task.Key)
	c.fences = append(c.fences, e.task.Fence)
	c.positions = append(c.positions, e.task.Position)
	c.dues = append(c.dues, e.task.DueAt)
	c.finished = append(c.finished, e.finished)
	c.again = append(c.again, e.again)
	c.failures = append(c.failures, e.failures)
	c.pauses = append(c.pauses, e.pause)
}
