package processes_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"ledgerline/clock"
	"ledgerline/processes"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const longLease = time.Minute // longer than any test

func ask(t testing.TB, pool *pgxpool.Pool, asks ...processes.Ask) {
	t.Helper()
	var batch pgx.Batch
	processes.QueueAsks(&batch, asks...)
	require.NoError(t, pool.SendBatch(t.Context(), &batch).Close())
}

func at(key string, position int64, due time.Time) processes.Ask {
	return processes.Ask{Process: "test", Key: key, DueAt: due, Position: position}
}

// run starts a runner and stops it when the test ends, or earlier with the function it returns.
func run(t testing.TB, cfg processes.RunnerConfig) (*processes.Runner, func()) {
	t.Helper()
	if cfg.Process == "" {
		cfg.Process = "test"
	}
	if cfg.Lease == 0 {
		cfg.Lease = longLease
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.Frozen(noon)
	}
	runner, err := processes.NewRunner(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil && !strings.Contains(err.Error(), errKilled.Error()) {
			t.Errorf("runner: %v", err)
		}
	})
	t.Cleanup(stop)
	return runner, stop
}

func rows(t testing.TB, pool *pgxpool.Pool) int {
	t.Helper()
	var n int
	require.NoError(t, pool.QueryRow(t.Context(), `select count(*) from process_todo`).Scan(&n))
	return n
}

func eventuallyEmpty(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	require.Eventually(t, func() bool { return rows(t, pool) == 0 }, 20*time.Second, 5*time.Millisecond)
}

func TestAsksForOneKeyBecomeOneWithEarliestDeadlineAndLatestPosition(t *testing.T) {
	t.Parallel()
	pool := database(t)
	ask(t, pool, at("b", 4, noon.Add(time.Hour)), at("a", 7, noon.Add(2*time.Hour)), at("b", 5, noon), at("b", 3, noon.Add(time.Minute)))
	ask(t, pool, at("a", 9, noon.Add(3*time.Hour)), at("b", 2, noon.Add(-time.Hour)))
	ask(t, pool)
	found, err := pool.Query(t.Context(), `select key || ' ' || asked_at_position || ' ' || (due_at at time zone 'UTC')::time from process_todo order by key`)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(found, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, []string{"a 9 14:00:00", "b 5 11:00:00"}, lines)
}

func TestDoneWorkLeavesNothingAndTellsWhatAsked(t *testing.T) {
	t.Parallel()
	pool := database(t)
	seen := make(chan processes.Task, 1)
	runner, _ := run(t, processes.RunnerConfig{Pool: pool, Work: func(_ context.Context, task processes.Task) (processes.Outcome, error) {
		seen <- task
		return processes.Done, nil
	}})
	ask(t, pool, processes.Ask{Process: "test", Key: "k", Shard: 3, DueAt: noon, Position: 42})
	ask(t, pool, processes.Ask{Process: "other", Key: "k", DueAt: noon, Position: 43})
	runner.Wake()
	task := <-seen
	require.Positive(t, task.Fence)
	require.True(t, noon.Equal(task.DueAt))
	task.Fence, task.DueAt = 0, time.Time{}
	require.Equal(t, processes.Task{Process: "test", Key: "k", Shard: 3, AskedAt: 42}, task)
	require.Eventually(t, func() bool { return rows(t, pool) == 1 }, 20*time.Second, 5*time.Millisecond, "the other process's stays")
}

func TestAskWhileWorkingBringsTheKeyBackAtOnce(t *testing.T) {
	t.Parallel()
	for name, outcome := range map[string]processes.Outcome{"done": processes.Done, "again later": processes.Again(noon.Add(time.Hour))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := database(t)
			seen, proceed := make(chan processes.Task), make(chan processes.Outcome)
			runner, _ := run(t, processes.RunnerConfig{Pool: pool, Poll: time.Hour, Work: func(_ context.Context, task processes.Task) (processes.Outcome, error) {
				seen <- task
				return <-proceed, nil
			}})
			ask(t, pool, at("k", 1, noon))
			runner.Wake()
			require.EqualValues(t, 1, (<-seen).AskedAt)
			ask(t, pool, at("k", 2, noon)) // and nobody calls Wake
			proceed <- outcome
			require.EqualValues(t, 2, (<-seen).AskedAt)
			proceed <- processes.Done
			eventuallyEmpty(t, pool)
		})
	}
}

func TestNoAskIsLostAndNoKeyIsWorkedOnTwiceAtOnce(t *testing.T) {
	t.Parallel()
	const keys, askers, asksEach = 40, 8, 400
	pool := database(t)
	var (
		ledger  atomic.Int64 // positions handed out
		latest  [keys]atomic.Int64
		started [keys]atomic.Int64 // the latest position of the key that a Work was told of
		inside  [keys]atomic.Int32
		fences  [keys]atomic.Int64
		works   atomic.Int64
	)
	work := func(_ context.Context, task processes.Task) (processes.Outcome, error) {
		var i int
		_, _ = fmt.Sscan(task.Key, &i)
		works.Add(1)
		if inside[i].Add(1) > 1 {
			t.Errorf("key %d is worked on twice at once", i)
		}
		defer inside[i].Add(-1)
		if fences[i].Swap(task.Fence) >= task.Fence {
			t.Errorf("key %d: a later lease has no greater fence", i)
		}
		if started[i].Swap(task.AskedAt) > task.AskedAt {
			t.Errorf("key %d: out of order", i)
		}
		if rand.N(10) == 0 {
			return processes.Again(noon), nil
		}
		return processes.Done, nil
	}
	var runners []*processes.Runner
	for range 3 {
		r, _ := run(t, processes.RunnerConfig{Pool: pool, Workers: 8, Poll: 50 * time.Millisecond, Work: work})
		runners = append(runners, r)
	}
	var all sync.WaitGroup
	for a := range askers {
		all.Go(func() {
			for range asksEach {
				var asks []processes.Ask
				for range 1 + rand.N(3) {
					i := a + askers*rand.N(keys/askers) // one asker each, since a key's events are handled in order
					position := ledger.Add(1)
					latest[i].Store(position)
					asks = append(asks, at(fmt.Sprint(i), position, noon))
				}
				ask(t, pool, asks...)
				runners[a%len(runners)].Wake()
			}
		})
	}
	all.Wait()
	eventuallyEmpty(t, pool)
	for i := range keys {
		require.Equal(t, latest[i].Load(), started[i].Load(), "key %d", i)
	}
	t.Logf("%d asks, %d works", ledger.Load(), works.Load())
}

func TestKilledWorkersKeysComeBackAfterTheLease(t *testing.T) {
	t.Parallel()
	pool, mortal, kill := databaseWithMortal(t)
	held := make(chan processes.Task, 2)
	dead, stop := run(t, processes.RunnerConfig{Pool: mortal, Lease: 400 * time.Millisecond, Work: func(ctx context.Context, task processes.Task) (processes.Outcome, error) {
		held <- task
		<-ctx.Done() // the lease cannot be renewed any more
		if !errors.Is(context.Cause(ctx), processes.ErrLeaseLost) {
			t.Errorf("cause: %v", context.Cause(ctx))
		}
		return processes.Done, nil
	}})
	ask(t, pool, at("a", 1, noon), at("b", 1, noon))
	dead.Wake()
	first := map[string]int64{}
	for range 2 {
		task := <-held
		first[task.Key] = task.Fence
	}
	kill()

	taken := make(chan processes.Task, 2)
	run(t, processes.RunnerConfig{Pool: pool, Poll: 20 * time.Millisecond, Work: func(_ context.Context, task processes.Task) (processes.Outcome, error) {
		taken <- task
		return processes.Done, nil
	}})
	for range 2 {
		task := <-taken
		require.Greater(t, task.Fence, first[task.Key])
	}
	eventuallyEmpty(t, pool)
	stop()
}

func TestExpiredLeaseCannotFinish(t *testing.T) {
	t.Parallel()
	pool := database(t)
	taken, proceed := make(chan processes.Task, 1), make(chan struct{})
	slow, _ := run(t, processes.RunnerConfig{Pool: pool, Workers: 1, Poll: time.Hour, Work: func(_ context.Context, task processes.Task) (processes.Outcome, error) {
		taken <- task
		<-proceed
		return processes.Done, nil
	}})
	ask(t, pool, at("k", 1, noon))
	slow.Wake()
	old := <-taken
	held, err := slow.Held(t.Context(), old)
	require.NoError(t, err)
	require.True(t, held)

	_, err = pool.Exec(t.Context(), `update process_todo set lease_until = now() - interval '1 s'`)
	require.NoError(t, err)
	held, err = slow.Held(t.Context(), old)
	require.NoError(t, err)
	require.False(t, held, "expired")

	second, finish := make(chan processes.Task, 1), make(chan struct{})
	run(t, processes.RunnerConfig{Pool: pool, Workers: 1, Work: func(_ context.Context, task processes.Task) (processes.Outcome, error) {
		second <- task
		<-finish
		return processes.Done, nil
	}})
	task := <-second
	require.Greater(t, task.Fence, old.Fence)
	held, err = slow.Held(t.Context(), old)
	require.NoError(t, err)
	require.False(t, held, "somebody else's")

	// The slow one ends, and goes on to another key only after that has been written down.
	close(proceed)
	ask(t, pool, at("other", 1, noon))
	slow.Wake()
	require.Equal(t, "other", (<-taken).Key)
	held, err = slow.Held(t.Context(), task)
	require.NoError(t, err)
	require.True(t, held, "the slow worker's finish does not touch the second one's lease")
	close(finish)
	eventuallyEmpty(t, pool)
}

func TestLeaseIsRenewedWhileWorking(t *testing.T) {
	t.Parallel()
	pool := database(t)
	var works atomic.Int32
	started, proceed := make(chan processes.Task, 1), make(chan struct{})
	work := func(_ context.Context, task processes.Task) (processes.Outcome, error) {
		works.Add(1)
		started <- task
		<-proceed
		return processes.Done, nil
	}
	const lease = 300 * time.Millisecond
	for range 2 { // the second one would take it
		run(t, processes.RunnerConfig{Pool: pool, Lease: lease, Poll: 20 * time.Millisecond, Work: work})
	}
	ask(t, pool, at("k", 1, noon))
	<-started
	renewed := func() (until time.Time) {
		require.NoError(t, pool.QueryRow(t.Context(), `select lease_until from process_todo`).Scan(&until))
		return until
	}
	first := renewed()
	require.Eventually(t, func() bool { return renewed().Sub(first) > 2*lease }, 20*time.Second, 20*time.Millisecond)
	close(proceed)
	eventuallyEmpty(t, pool)
	require.EqualValues(t, 1, works.Load())
}

func TestDeadlineFiresWhenTheClockIsMovedAndNotBefore(t *testing.T) {
	t.Parallel()
	pool := database(t)
	moved := clock.Frozen(noon)
	seen := make(chan string, 10)
	hour := noon.Add(time.Hour)
	runner, _ := run(t, processes.RunnerConfig{Pool: pool, Clock: moved, Poll: 10 * time.Millisecond, Work: func(_ context.Context, task processes.Task) (processes.Outcome, error) {
		seen <- task.Key
		if task.Key == "wait" && moved.Now().Before(hour) {
			return processes.Again(hour), nil
		}
		return processes.Done, nil
	}})
	ask(t, pool, at("wait", 1, noon), at("later", 1, hour.Add(time.Millisecond)))
	runner.Wake()
	require.Equal(t, "wait", <-seen)

	// A frozen clock fires nothing by itself: many polls go by, each of which would have.
	for i := range 5 {
		ask(t, pool, at(fmt.Sprint(i), 1, noon))
		require.Equal(t, fmt.Sprint(i), <-seen)
	}
	_, err := moved.Set(hour.Add(-time.Millisecond))
	require.NoError(t, err)
	ask(t, pool, at("still", 1, noon))
	require.Equal(t, "still", <-seen)

	_, err = moved.Set(hour)
	require.NoError(t, err)
	require.Equal(t, "wait", <-seen)
	_, err = moved.Advance(24 * time.Hour)
	require.NoError(t, err)
	require.Equal(t, "later", <-seen)
	eventuallyEmpty(t, pool)
}

func TestMovedClockWakesWithoutPolling(t *testing.T) {
	t.Parallel()
	pool := database(t)
	moved := clock.Frozen(noon)
	seen := make(chan string)
	ask(t, pool, at("a", 1, noon), at("b", 1, noon.Add(time.Hour)), at("c", 1, noon.Add(2*time.Hour)))
	run(t, processes.RunnerConfig{Pool: pool, Clock: moved, Poll: time.Hour, Work: func(_ context.Context, task processes.Task) (processes.Outcome, error) {
		seen <- task.Key
		return processes.Done, nil
	}})
	for _, key := range []string{"a", "b", "c"} {
		require.Equal(t, key, <-seen)
		_, err := moved.Advance(time.Hour)
		require.NoError(t, err)
	}
}

func TestMovedClockDoesNotEndLeases(t *testing.T) {
	t.Parallel()
	pool := database(t)
	moved := clock.Frozen(noon)
	seen, proceed := make(chan string), make(chan struct{})
	runner, _ := run(t, processes.RunnerConfig{Pool: pool, Clock: moved, Poll: 10 * time.Millisecond, Work: func(_ context.Context, task processes.Task) (processes.Outcome, error) {
		seen <- task.Key
		<-proceed
		return processes.Done, nil
	}})
	ask(t, pool, at("k", 1, noon))
	runner.Wake()
	require.Equal(t, "k", <-seen)
	_, err := moved.Advance(1000 * time.Hour)
	require.NoError(t, err)
	ask(t, pool, at("next", 1, noon))
	require.Equal(t, "next", <-seen, "and not k again, which is due for longer")
	close(proceed)
	eventuallyEmpty(t, pool)
}

func TestFailuresAndPanicsBackOffInRealTimeAndAreCounted(t *testing.T) {
	t.Parallel()
	pool := database(t)
	var failures []int
	attempts := make(chan int, 10)
	runner, _ := run(t, processes.RunnerConfig{
		Pool: pool, Poll: time.Hour,
		Backoff: func(n int) time.Duration { failures = append(failures, n); return 10 * time.Millisecond },
		Workers: 1, // so that failures is one goroutine's at a time
		Work: func(_ context.Context, task processes.Task) (processes.Outcome, error) {
			attempts <- task.Attempts
			switch task.Attempts {
			case 0:
				return processes.Done, errors.New("not now")
			case 1:
				panic("at the disco")
			case 2:
				_ = []int{0}[task.Attempts]
			}
			return processes.Done, nil
		},
	})
	ask(t, pool, at("k", 1, noon))
	runner.Wake()
	for i := range 4 {
		require.Equal(t, i, <-attempts)
	}
	eventuallyEmpty(t, pool)
	require.Equal(t, []int{1, 2, 3}, failures)
}

func TestFailingKeyRestsEvenWhenAskedAgain(t *testing.T) {
	t.Parallel()
	pool := database(t)
	seen := make(chan string, 10)
	runner, _ := run(t, processes.RunnerConfig{
		Pool: pool, Workers: 1, Backoff: func(int) time.Duration { return time.Hour },
		Work: func(_ context.Context, task processes.Task) (processes.Outcome, error) {
			seen <- task.Key
			if task.Key == "bad" {
				return processes.Done, errors.New("broken")
			}
			return processes.Done, nil
		},
	})
	ask(t, pool, at("bad", 1, noon.Add(-time.Minute)))
	runner.Wake()
	require.Equal(t, "bad", <-seen)
	for i := range int64(5) {
		ask(t, pool, at("bad", 2+i, noon.Add(-time.Minute)), at("good", 2+i, noon))
		runner.Wake()
		require.Equal(t, "good", <-seen)
	}
}

func TestStopLetsWorkEndAndFreesWhatItCutsShort(t *testing.T) {
	t.Parallel()
	pool := database(t)
	started, proceed := make(chan struct{}, 2), make(chan struct{})
	runner, stop := run(t, processes.RunnerConfig{Pool: pool, Grace: 50 * time.Millisecond, Work: func(ctx context.Context, task processes.Task) (processes.Outcome, error) {
		started <- struct{}{}
		if task.Key == "willing" {
			<-proceed
			return processes.Done, ctx.Err()
		}
		<-ctx.Done()
		return processes.Done, context.Cause(ctx)
	}})
	ask(t, pool, at("willing", 1, noon), at("stubborn", 1, noon))
	runner.Wake()
	<-started
	<-started
	close(proceed)
	stop()
	var key string
	var free, unblamed bool
	require.NoError(t, pool.QueryRow(t.Context(), `select key, lease_until is null, attempts = 0 and retry_at is null from process_todo`).Scan(&key, &free, &unblamed))
	require.Equal(t, "stubborn", key)
	require.True(t, free)
	require.True(t, unblamed, "being stopped is no failure of the work")
}

func TestDatabaseOutageIsSurvived(t *testing.T) {
	t.Parallel()
	pool, mortal, _ := databaseWithMortal(t)
	seen := make(chan int64)
	runner, _ := run(t, processes.RunnerConfig{Pool: mortal, Poll: 20 * time.Millisecond, Lease: time.Second, Work: func(_ context.Context, task processes.Task) (processes.Outcome, error) {
		seen <- task.AskedAt
		return processes.Done, nil
	}})
	for i := range int64(5) {
		ask(t, pool, at("k", i, noon))
		runner.Wake()
		require.Equal(t, i, <-seen)
		_, err := pool.Exec(t.Context(), `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`)
		require.NoError(t, err)
	}
	eventuallyEmpty(t, pool)
}

func TestRunnerRefusesToBeIncomplete(t *testing.T) {
	t.Parallel()
	_, err := processes.NewRunner(processes.RunnerConfig{Process: "x"})
	require.Error(t, err)
}

func TestRenewalDoesNotTouchAnothersLeaseAndEndsTheWork(t *testing.T) {
	t.Parallel()
	pool := database(t)
	started, ended := make(chan processes.Task, 1), make(chan error, 1)
	runner, _ := run(t, processes.RunnerConfig{Pool: pool, Lease: time.Second, Work: func(ctx context.Context, task processes.Task) (processes.Outcome, error) {
		started <- task
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return processes.Done, ctx.Err()
	}})
	ask(t, pool, at("k", 1, noon))
	runner.Wake()
	<-started
	_, err := pool.Exec(t.Context(), `update process_todo set fence = nextval('process_todo_fence'), lease_until = '2099-01-01Z'`)
	require.NoError(t, err)
	require.ErrorIs(t, <-ended, processes.ErrLeaseLost)
	var untouched bool
	require.NoError(t, pool.QueryRow(t.Context(), `select lease_until = '2099-01-01Z' from process_todo`).Scan(&untouched))
	require.True(t, untouched)
}

// BenchmarkKeys asks for keys a hundred at a time and works on each with nothing, as fast as it goes.
func BenchmarkKeys(b *testing.B) {
	pool := database(b)
	var left sync.WaitGroup
	runner, _ := run(b, processes.RunnerConfig{Pool: pool, Work: func(context.Context, processes.Task) (processes.Outcome, error) {
		left.Done()
		return processes.Done, nil
	}})
	left.Add(b.N)
	b.ResetTimer()
	for from := 0; from < b.N; from += 100 {
		var asks []processes.Ask
		for i := from; i < min(from+100, b.N); i++ {
			asks = append(asks, at(fmt.Sprint(i), int64(i), noon))
		}
		ask(b, pool, asks...)
		runner.Wake()
	}
	left.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "keys/s")
}
