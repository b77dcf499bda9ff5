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
	random *rand.Rand // of the kills alone

	server  *server
	ring    *eventstore.Keyring
	tenants []*tenant
	address atomic.Pointer[string] // of the node that runs; nil before the first
	node    *node
	ahead   time.Duration // of real time, by the service's clock
	moved   time.Duration // how far it was moved since it began
	pool    *pgxpool.Pool // to look into the database once nothing is killed any more
	writes  []*write

	report     Report
	violations violations
}

// retryClock is how far the clock moves after each round: far enough for a retry or a late receipt to come due amid the
// next one.
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
	t.say("%d writes were answered; letting everything come to rest", t.report.Answered)
	if err := t.settle(ctx); err != nil {
		return err
	}
	if err := t.checkAnswers(ctx); err != nil {
		return err
	}
	if err := t.settle(ctx); err != nil { // what was asked again may have been new
		return err
	}
	return t.checkLedger(ctx)
}

// rounds kills, once in each round, and starts again what was killed.
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
		// A round goes on after the kill, however long that took: what is back must work.
		if err := t.wait(ctx, max(t.For-time.Since(began), t.For/3)); err != nil {
			return err
		}
		if err := t.advance(ctx, retryClock); err != nil {
			return err
		}
	}
	return nil
}

var errSilent = errors.New("it does not say why")

// wait lets the load run on; it fails when the node ends without having been killed.
func (t *trial) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.node.ended:
		return fmt.Errorf("the node has ended by itself, see %s: %w", t.logFile(), cmp.Or(t.node.failure, errSilent))
	}
}

// violations are what went wrong; only so many are told in words.
type violations struct {
	mu    sync.Mutex
	told  []string
	kinds map[string]int
}

// maxTold is how many violations of one kind are told.
const maxTold = 10

// add notes one violation of a kind.
func (v *violations) add(kind, format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.kinds == nil {
		v.kinds = map[string]int{}
	}
	v.kinds[kind]++
	if v.kinds[kind] <= maxTold {
		v.told = append(v.told, kind+": "+fmt.Sprintf(format, args...))
	}
}

func (v *violations) list() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	list := v.told
	for kind, n := range v.kinds {
		if n > maxTold {
			list = append(list, fmt.Sprintf("%s: and %d more", kind, n-maxTold))
		}
	}
	return list
}
