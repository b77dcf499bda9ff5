package tasks

import (
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Wakeups wakes runners for the tasks that a feed consumer schedules, after the consumer's transaction has committed.
// It wakes only runners with a newly scheduled task: waking every runner for every batch of events would cost more than
// the work. It is safe for concurrent use, because a consumer handles shards concurrently.
type Wakeups struct {
	runners map[string]*Runner // by process

	mu      sync.Mutex
	pending map[wakeup]time.Time // the earliest due time that was scheduled since the last Send
}

type wakeup struct {
	shard   int
	process string
}

// NewWakeups makes the wake-ups of a consumer whose tasks these runners run.
func NewWakeups(runners ...*Runner) *Wakeups {
	w := &Wakeups{runners: map[string]*Runner{}, pending: map[wakeup]time.Time{}}
	for _, r := range runners {
		w.runners[r.cfg.Process] = r
	}
	return w
}

// Schedule calls the function Schedule, and remembers to wake the runners of the tasks.
func (w *Wakeups) Schedule(batch *pgx.Batch, tasks ...Task) {
	Schedule(batch, tasks...)
	for i := range tasks {
		w.Add(tasks[i].Shard, tasks[i].Process, tasks[i].DueAt)
	}
}

// Add remembers to wake the runner of a process for a task that becomes due with the transaction that the consumer is
// preparing. It is for statements of the consumer's own that move due times. If the transaction fails, the runner asks
// the database once without need.
func (w *Wakeups) Add(shard int, process string, due time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := wakeup{shard, process}
	if first, known := w.pending[k]; !known || due.Before(first) {
		w.pending[k] = due
	}
}

// Send wakes the runners for what was scheduled from a shard. Call it after the commit.
func (w *Wakeups) Send(shard int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for process, r := range w.runners {
		k := wakeup{shard, process}
		if due, scheduled := w.pending[k]; scheduled {
			delete(w.pending, k)
			r.WakeAt(due)
		}
	}
}
