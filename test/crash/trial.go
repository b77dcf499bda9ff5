package crash

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"ledgerline/eventstore"
)

// trial is one installation that is killed again and again.
type trial struct {
	Config
	shards int
	dir    string
	random *rand.Rand // for the kill times only

	server  *server
	ring    *eventstore.Keyring
	tenants []*tenant
	address atomic.Pointer[string] // API address of the running node; nil before the first node
	node    *node
	ahead   time.Duration // how far the service's clock is ahead of real time
	moved   time.Duration // how far the clock was moved since the trial began
	pool    *pgxpool.Pool // for queries of the checks, after the last kill
	writes  []*write

	report     Report
	violations violations
}

// retryClock is how far the clock moves after each round: far enough for a retry or a late receipt to become due during
// the next round.
const retryClock = 40 * time.Second

func (t *trial) say(format string, args ...any) {
	_, _ = fmt.Fprintf(t.Log, "crash: %d shards: "+format+"\n", append([]any{t.shards}, args...)...)
}

func (t *trial) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := t.open(ctx); err != nil {
		return err
	}
	defer t.close() //nolint:contextcheck // also when ctx has ended
	load := t.startLoad(ctx)
	err := t.rounds(ctx)
	t.writes = load.stop()
	if err != nil {
		return err
	}
	if t.pool, err = pgxpool.New(ctx, t.server.dsn()); err != nil {
		return fmt.Errorf("look into the database: %w", err)
	}
	defer t.pool.Close()
	t.say("%d writes were answered; waiting until no work is due", t.report.Answered)
	if err := t.settle(ctx); err != nil {
		return err
	}
	if err := t.checkAnswers(ctx); err != nil {
		return err
	}
	if err := t.settle(ctx); err != nil { // a repeated write may have been executed only now
		return err
	}
	return t.checkLedger(ctx)
}

// rounds kills the node or PostgreSQL once in each round, and restarts it.
func (t *trial) rounds(ctx context.Context) error {
	for round := 1; round <= t.Rounds; round++ {
		began := time.Now()
		if err := t.wait(ctx, time.Duration((0.1+0.8*t.random.Float64())*float64(t.For))); err != nil {
			return err
		}
		killed := time.Now()
		if round%2 == 1 {
			t.report.NodeKills++
			t.node.kill()
			if err := t.startNode(ctx); err != nil {
				return err
			}
		} else {
			t.report.PostgresKills++
			if err := t.server.kill(); err != nil {
				return err
			}
			if err := t.server.start(ctx); err != nil {
				return err
			}
		}
		t.say("round %d of %d: %s killed after %s, back after %s", round, t.Rounds, [...]string{"PostgreSQL", "the node"}[round%2],
			killed.Sub(began).Round(time.Millisecond), time.Since(killed).Round(time.Millisecond))
		// After the restart the round goes on for at least a third of its time, so that the restarted process gets
		// work.
		if err := t.wait(ctx, max(t.For-time.Since(began), t.For/3)); err != nil {
			return err
		}
		if err := t.advance(ctx, retryClock); err != nil {
			return err
		}
	}
	return nil
}

var errNoReason = errors.New("it gives no reason")

// wait waits while the load runs. It returns an error if the node ends without having been killed.
func (t *trial) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.node.ended:
		return fmt.Errorf("the node has ended by itself, see %s: %w", t.logFile(), cmp.Or(t.node.failure, errNoReason))
	}
}

// violations collects violations, with the text of the first maxTold of each kind.
type violations struct {
	mu    sync.Mutex
	texts []string
	kinds map[string]int
}

// maxTold is how many violations of one kind are kept as text.
const maxTold = 10

// add records a violation of a kind.
func (v *violations) add(kind, format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.kinds == nil {
		v.kinds = map[string]int{}
	}
	v.kinds[kind]++
	if v.kinds[kind] <= maxTold {
		v.texts = append(v.texts, kind+": "+fmt.Sprintf(format, args...))
	}
}

func (v *violations) list() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	list := v.texts
	for kind, n := range v.kinds {
		if n > maxTold {
			list = append(list, fmt.Sprintf("%s: and %d more", kind, n-maxTold))
		}
	}
	return list
}
