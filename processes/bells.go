package processes

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"ledgerline/eventstore/feed"
)

// bells tell runners what a consumer has asked of them, once it is committed. A runner that was asked for nothing sleeps
// on: a visit to the database for each batch that somebody follows would cost more than the work.
type bells struct {
	runners map[string]*Runner // by process

	mu  sync.Mutex
	due map[bell]time.Time // the earliest that was asked for and not told yet
}

type bell struct {
	shard   int
	process string
}

func newBells(runners ...*Runner) *bells {
	b := &bells{runners: map[string]*Runner{}, due: map[bell]time.Time{}}
	for _, r := range runners {
		b.runners[r.cfg.Process] = r
	}
	return b
}

// queue adds the asks to a batch of a consumer's statements, and notes them.
func (b *bells) queue(batch *pgx.Batch, asks ...Ask) {
	QueueAsks(batch, asks...)
	for i := range asks {
		b.note(asks[i].Shard, asks[i].Process, asks[i].DueAt)
	}
}

// note remembers that a key of a process becomes due with the transaction that a consumer is preparing. If that fails, the
// runner will look once in vain.
func (b *bells) note(shard int, process string, due time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := bell{shard, process}
	if first, known := b.due[k]; !known || due.Before(first) {
		b.due[k] = due
	}
}

// ring tells the runners, after the commit.
func (b *bells) ring(committed *feed.Batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for process, r := range b.runners {
		k := bell{committed.Shard, process}
		if due, asked := b.due[k]; asked {
			delete(b.due, k)
			r.Expect(due)
		}
	}
}

// single is what a process with one runner is made of, beside what it follows and what it does.
type single struct {
	runner *Runner
	bells  *bells
}

func newSingle(cfg RunnerConfig) (single, error) {
	r, err := NewRunner(cfg)
	if err != nil {
		return single{}, err
	}
	return single{r, newBells(r)}, nil
}

// Run works until ctx ends.
func (s *single) Run(ctx context.Context) error { return s.runner.Run(ctx) }

// Committed implements feed.Consumer.
func (s *single) Committed(b *feed.Batch) { s.bells.ring(b) }
