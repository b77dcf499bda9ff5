package tasks_test

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
	"ledgerline/processes/tasks"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const longLease = time.Minute // longer than any test

func schedule(t testing.TB, pool *pgxpool.Pool, list ...tasks.Task) {
	t.Helper()
	var batch pgx.Batch
	tasks.Schedule(&batch, list...)
	require.NoError(t, pool.SendBatch(t.Context(), &batch).Close())
}

func due(key string, position int64, at time.Time) tasks.Task {
	return tasks.Task{Process: "test", Key: key, DueAt: at, Position: position}
}

// startRunner starts a runner. It stops when the test ends, or when the returned function is called.
func startRunner(t testing.TB, cfg tasks.RunnerConfig) (*tasks.Runner, func()) {
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
	runner, err := tasks.NewRunner(cfg)
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
	require.NoError(t, pool.QueryRow(t.Context(), `select count(*) from scheduled_tasks`).Scan(&n))
	return n
}

func eventuallyEmpty(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	require.Eventually(t, func() bool { return rows(t, pool) == 0 }, 20*time.Second, 5*time.Millisecond)
}

func TestTasksOfOneKeyMergeToTheEarliestDueTimeAndTheLatestPosition(t *testing.T) {
	t.Parallel()
	pool := database(t)
	schedule(t, pool, due("b", 4, noon.Add(time.Hour)), due("a", 7, noon.Add(2*time.Hour)), due("b", 5, noon), due("b", 3, noon.Add(time.Minute)))
	schedule(t, pool, due("a", 9, noon.Add(3*time.Hour)), due("b", 2, noon.Add(-time.Hour)))
	schedule(t, pool)
	found, err := pool.Query(t.Context(), `select key || ' ' || scheduled_at_position || ' ' || (due_at at time zone 'UTC')::time from scheduled_tasks order by key`)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(found, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, []string{"a 9 14:00:00", "b 5 11:00:00"}, lines)
}

func TestTaskRunGetsWhatWasScheduledAndFinishedRemovesTheTask(t *testing.T) {
	t.Parallel()
	pool := database(t)
	seen := make(chan tasks.Leased, 1)
	runner, _ := startRunner(t, tasks.RunnerConfig{Pool: pool, Work: func(_ context.Context, task tasks.Leased) (tasks.Result, error) {
		seen <- task
		return tasks.Finished, nil
	}})
	schedule(t, pool, tasks.Task{Process: "test", Key: "k", Shard: 3, DueAt: noon, Position: 42})
	schedule(t, pool, tasks.Task{Process: "other", Key: "k", DueAt: noon, Position: 43})
	runner.Wake()
	task := <-seen
	require.Positive(t, task.Fence)
	require.True(t, noon.Equal(task.DueAt))
	task.Fence, task.DueAt = 0, time.Time{}
	require.Equal(t, tasks.Leased{Task: tasks.Task{Process: "test", Key: "k", Shard: 3, Position: 42}}, task)
	require.Eventually(t, func() bool { return rows(t, pool) == 1 }, 20*time.Second, 5*time.Millisecond, "the task of the other process stays")
}

func TestTaskScheduledAgainWhileItRunsIsDueAtOnce(t *testing.T) {
	t.Parallel()
	for name, result := range map[string]tasks.Result{"finished": tasks.Finished, "run again later": tasks.RunAgain(noon.Add(time.Hour))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := database(t)
			seen, proceed := make(chan tasks.Leased), make(chan tasks.Result)
			runner, _ := startRunner(t, tasks.RunnerConfig{Pool: pool, Poll: time.Hour, Work: func(_ context.Context, task tasks.Leased) (tasks.Result, error) {
				seen <- task
				return <-proceed, nil
			}})
			schedule(t, pool, due("k", 1, noon))
			runner.Wake()
			require.EqualValues(t, 1, (<-seen).Position)
			schedule(t, pool, due("k", 2, noon)) // without a wake-up
			proceed <- result
			require.EqualValues(t, 2, (<-seen).Position)
			proceed <- tasks.Finished
			eventuallyEmpty(t, pool)
		})
	}
}

func TestNoScheduledTaskIsLostAndNoKeyRunsTwiceAtTheSameTime(t *testing.T) {
	t.Parallel()
	const keys, schedulers, roundsEach = 40, 8, 400
	pool := database(t)
	var (
		ledger  atomic.Int64 // the last position
		latest  [keys]atomic.Int64
		started [keys]atomic.Int64 // the latest position of the key with which Work was called
		running [keys]atomic.Int32
		fences  [keys]atomic.Int64
		runs    atomic.Int64
	)
	work := func(_ context.Context, task tasks.Leased) (tasks.Result, error) {
		var i int
		_, _ = fmt.Sscan(task.Key, &i)
		runs.Add(1)
		if running[i].Add(1) > 1 {
			t.Errorf("key %d runs twice at the same time", i)
		}
		defer running[i].Add(-1)
		if fences[i].Swap(task.Fence) >= task.Fence {
			t.Errorf("key %d: a later lease has no greater fence", i)
		}
		if started[i].Swap(task.Position) > task.Position {
			t.Errorf("key %d: out of order", i)
		}
		if rand.N(10) == 0 {
			return tasks.RunAgain(noon), nil
		}
		return tasks.Finished, nil
	}
	var runners []*tasks.Runner
	for range 3 {
		r, _ := startRunner(t, tasks.RunnerConfig{Pool: pool, Workers: 8, Poll: 50 * time.Millisecond, Work: work})
		runners = append(runners, r)
	}
	var all sync.WaitGroup
	for a := range schedulers {
		all.Go(func() {
			for range roundsEach {
				var list []tasks.Task
				for range 1 + rand.N(3) {
					i := a + schedulers*rand.N(keys/schedulers) // one goroutine for each key, as events of an entity are handled in order
					position := ledger.Add(1)
					latest[i].Store(position)
					list = append(list, due(fmt.Sprint(i), position, noon))
				}
				schedule(t, pool, list...)
				runners[a%len(runners)].Wake()
			}
		})
	}
	all.Wait()
	eventuallyEmpty(t, pool)
	for i := range keys {
		require.Equal(t, latest[i].Load(), started[i].Load(), "key %d", i)
	}
	t.Logf("%d schedulings, %d task runs", ledger.Load(), runs.Load())
}

func TestTasksOfAKilledWorkerRunAgainAfterTheLease(t *testing.T) {
	t.Parallel()
	pool, killable, kill := databaseWithKillablePool(t)
	held := make(chan tasks.Leased, 2)
	dead, stop := startRunner(t, tasks.RunnerConfig{Pool: killable, Lease: 400 * time.Millisecond, Work: func(ctx context.Context, task tasks.Leased) (tasks.Result, error) {
		held <- task
		<-ctx.Done() // the lease cannot be renewed any more
		if !errors.Is(context.Cause(ctx), tasks.ErrLeaseLost) {
			t.Errorf("cause: %v", context.Cause(ctx))
		}
		return tasks.Finished, nil
	}})
	schedule(t, pool, due("a", 1, noon), due("b", 1, noon))
	dead.Wake()
	first := map[string]int64{}
	for range 2 {
		task := <-held
		first[task.Key] = task.Fence
	}
	kill()

	leased := make(chan tasks.Leased, 2)
	startRunner(t, tasks.RunnerConfig{Pool: pool, Poll: 20 * time.Millisecond, Work: func(_ context.Context, task tasks.Leased) (tasks.Result, error) {
		leased <- task
		return tasks.Finished, nil
	}})
	for range 2 {
		task := <-leased
		require.Greater(t, task.Fence, first[task.Key])
	}
	eventuallyEmpty(t, pool)
	stop()
}

// holdsLease reports whether the lease of a task is valid and still that of its worker.
func holdsLease(t *testing.T, pool *pgxpool.Pool, task tasks.Leased) (holds bool) {
	t.Helper()
	err := pool.QueryRow(t.Context(), `select exists (select from scheduled_tasks where process = $1 and key = $2 and fence = $3 and lease_until > now())`,
		task.Process, task.Key, task.Fence).Scan(&holds)
	require.NoError(t, err)
	return holds
}

func TestWorkerWithAnExpiredLeaseCannotFinishTheTask(t *testing.T) {
	t.Parallel()
	pool := database(t)
	leased, proceed := make(chan tasks.Leased, 1), make(chan struct{})
	slow, _ := startRunner(t, tasks.RunnerConfig{Pool: pool, Workers: 1, Poll: time.Hour, Work: func(_ context.Context, task tasks.Leased) (tasks.Result, error) {
		leased <- task
		<-proceed
		return tasks.Finished, nil
	}})
	schedule(t, pool, due("k", 1, noon))
	slow.Wake()
	old := <-leased
	require.True(t, holdsLease(t, pool, old))

	_, err := pool.Exec(t.Context(), `update scheduled_tasks set lease_until = now() - interval '1 s'`)
	require.NoError(t, err)
	require.False(t, holdsLease(t, pool, old), "expired")

	second, finish := make(chan tasks.Leased, 1), make(chan struct{})
	startRunner(t, tasks.RunnerConfig{Pool: pool, Workers: 1, Work: func(_ context.Context, task tasks.Leased) (tasks.Result, error) {
		second <- task
		<-finish
		return tasks.Finished, nil
	}})
	task := <-second
	require.Greater(t, task.Fence, old.Fence)
	require.False(t, holdsLease(t, pool, old), "leased by another worker")

	// The slow run ends. Its runner takes another key only after it has written the result.
	close(proceed)
	schedule(t, pool, due("other", 1, noon))
	slow.Wake()
	require.Equal(t, "other", (<-leased).Key)
	require.True(t, holdsLease(t, pool, task), "the result of the slow run does not touch the second lease")
	close(finish)
	eventuallyEmpty(t, pool)
}

func TestLeaseIsRenewedWhileTheTaskRuns(t *testing.T) {
	t.Parallel()
	pool := database(t)
	var runs atomic.Int32
	started, proceed := make(chan tasks.Leased, 1), make(chan struct{})
	work := func(_ context.Context, task tasks.Leased) (tasks.Result, error) {
		runs.Add(1)
		started <- task
		<-proceed
		return tasks.Finished, nil
	}
	const lease = 300 * time.Millisecond
	for range 2 { // the second runner would take the task if the lease ended
		startRunner(t, tasks.RunnerConfig{Pool: pool, Lease: lease, Poll: 20 * time.Millisecond, Work: work})
	}
	schedule(t, pool, due("k", 1, noon))
	<-started
	leaseUntil := func() (until time.Time) {
		require.NoError(t, pool.QueryRow(t.Context(), `select lease_until from scheduled_tasks`).Scan(&until))
		return until
	}
	first := leaseUntil()
	require.Eventually(t, func() bool { return leaseUntil().Sub(first) > 2*lease }, 20*time.Second, 20*time.Millisecond)
	close(proceed)
	eventuallyEmpty(t, pool)
	require.EqualValues(t, 1, runs.Load())
}

func TestTaskBecomesDueWhenTheClockReachesItsDueTimeAndNotBefore(t *testing.T) {
	t.Parallel()
	pool := database(t)
	moved := clock.Frozen(noon)
	seen := make(chan string, 10)
	hour := noon.Add(time.Hour)
	runner, _ := startRunner(t, tasks.RunnerConfig{Pool: pool, Clock: moved, Poll: 10 * time.Millisecond, Work: func(_ context.Context, task tasks.Leased) (tasks.Result, error) {
		seen <- task.Key
		if task.Key == "wait" && moved.Now().Before(hour) {
			return tasks.RunAgain(hour), nil
		}
		return tasks.Finished, nil
	}})
	schedule(t, pool, due("wait", 1, noon), due("later", 1, hour.Add(time.Millisecond)))
	runner.Wake()
	require.Equal(t, "wait", <-seen)

	// While the clock is frozen, the task does not become due, although the runner polls many times.
	for i := range 5 {
		schedule(t, pool, due(fmt.Sprint(i), 1, noon))
		require.Equal(t, fmt.Sprint(i), <-seen)
	}
	_, err := moved.Set(hour.Add(-time.Millisecond))
	require.NoError(t, err)
	schedule(t, pool, due("still", 1, noon))
	require.Equal(t, "still", <-seen)

	_, err = moved.Set(hour)
	require.NoError(t, err)
	require.Equal(t, "wait", <-seen)
	_, err = moved.Advance(24 * time.Hour)
	require.NoError(t, err)
	require.Equal(t, "later", <-seen)
	eventuallyEmpty(t, pool)
}

func TestMovingTheClockWakesTheRunnerWithoutPolling(t *testing.T) {
	t.Parallel()
	pool := database(t)
	moved := clock.Frozen(noon)
	seen := make(chan string)
	schedule(t, pool, due("a", 1, noon), due("b", 1, noon.Add(time.Hour)), due("c", 1, noon.Add(2*time.Hour)))
	startRunner(t, tasks.RunnerConfig{Pool: pool, Clock: moved, Poll: time.Hour, Work: func(_ context.Context, task tasks.Leased) (tasks.Result, error) {
		seen <- task.Key
		return tasks.Finished, nil
	}})
	for _, key := range []string{"a", "b", "c"} {
		require.Equal(t, key, <-seen)
		_, err := moved.Advance(time.Hour)
		require.NoError(t, err)
	}
}

func TestMovingTheClockDoesNotEndLeases(t *testing.T) {
	t.Parallel()
	pool := database(t)
	moved := clock.Frozen(noon)
	seen, proceed := make(chan string), make(chan struct{})
	runner, _ := startRunner(t, tasks.RunnerConfig{Pool: pool, Clock: moved, Poll: 10 * time.Millisecond, Work: func(_ context.Context, task tasks.Leased) (tasks.Result, error) {
		seen <- task.Key
		<-proceed
		return tasks.Finished, nil
	}})
	schedule(t, pool, due("k", 1, noon))
	runner.Wake()
	require.Equal(t, "k", <-seen)
	_, err := moved.Advance(1000 * time.Hour)
	require.NoError(t, err)
	schedule(t, pool, due("next", 1, noon))
	require.Equal(t, "next", <-seen, "and not k again, although it is due for longer")
	close(proceed)
	eventuallyEmpty(t, pool)
}

func TestFailuresAndPanicsAreCountedAndRetriedAfterAPauseInRealTime(t *testing.T) {
	t.Parallel()
	pool := database(t)
	var failures []int
	attempts := make(chan int, 10)
	runner, _ := startRunner(t, tasks.RunnerConfig{
		Pool: pool, Poll: time.Hour,
		Backoff: func(n int) time.Duration { failures = append(failures, n); return 10 * time.Millisecond },
		Workers: 1, // so that only one goroutine at a time uses failures
		Work: func(_ context.Context, task tasks.Leased) (tasks.Result, error) {
			attempts <- task.Failures
			switch task.Failures {
			case 0:
				return tasks.Finished, errors.New("not now")
			case 1:
				panic("at the disco")
			case 2:
				_ = []int{0}[task.Failures]
			}
			return tasks.Finished, nil
		},
	})
	schedule(t, pool, due("k", 1, noon))
	runner.Wake()
	for i := range 4 {
		require.Equal(t, i, <-attempts)
	}
	eventuallyEmpty(t, pool)
	require.Equal(t, []int{1, 2, 3}, failures)
}

func TestSchedulingAFailingTaskAgainDoesNotShortenItsRetryDelay(t *testing.T) {
	t.Parallel()
	pool := database(t)
	seen := make(chan string, 10)
	runner, _ := startRunner(t, tasks.RunnerConfig{
		Pool: pool, Workers: 1, Backoff: func(int) time.Duration { return time.Hour },
		Work: func(_ context.Context, task tasks.Leased) (tasks.Result, error) {
			seen <- task.Key
			if task.Key == "bad" {
				return tasks.Finished, errors.New("broken")
			}
			return tasks.Finished, nil
		},
	})
	schedule(t, pool, due("bad", 1, noon.Add(-time.Minute)))
	runner.Wake()
	require.Equal(t, "bad", <-seen)
	for i := range int64(5) {
		schedule(t, pool, due("bad", 2+i, noon.Add(-time.Minute)), due("good", 2+i, noon))
		runner.Wake()
		require.Equal(t, "good", <-seen)
	}
}

func TestStoppingLetsTasksEndAndReleasesTheLeasesOfCancelledOnes(t *testing.T) {
	t.Parallel()
	pool := database(t)
	started, proceed := make(chan struct{}, 2), make(chan struct{})
	runner, stop := startRunner(t, tasks.RunnerConfig{Pool: pool, Grace: 50 * time.Millisecond, Work: func(ctx context.Context, task tasks.Leased) (tasks.Result, error) {
		started <- struct{}{}
		if task.Key == "willing" {
			<-proceed
			return tasks.Finished, ctx.Err()
		}
		<-ctx.Done()
		return tasks.Finished, context.Cause(ctx)
	}})
	schedule(t, pool, due("willing", 1, noon), due("stubborn", 1, noon))
	runner.Wake()
	<-started
	<-started
	close(proceed)
	stop()
	var key string
	var released, noFailure bool
	require.NoError(t, pool.QueryRow(t.Context(), `select key, lease_until is null, failures = 0 and retry_at is null from scheduled_tasks`).Scan(&key, &released, &noFailure))
	require.Equal(t, "stubborn", key)
	require.True(t, released)
	require.True(t, noFailure, "a cancelled run is no failure")
}

func TestRunnerSurvivesADatabaseOutage(t *testing.T) {
	t.Parallel()
	pool, killable, _ := databaseWithKillablePool(t)
	seen := make(chan int64)
	runner, _ := startRunner(t, tasks.RunnerConfig{Pool: killable, Poll: 20 * time.Millisecond, Lease: time.Second, Work: func(_ context.Context, task tasks.Leased) (tasks.Result, error) {
		seen <- task.Position
		return tasks.Finished, nil
	}})
	for i := range int64(5) {
		schedule(t, pool, due("k", i, noon))
		runner.Wake()
		require.Equal(t, i, <-seen)
		_, err := pool.Exec(t.Context(), `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`)
		require.NoError(t, err)
	}
	eventuallyEmpty(t, pool)
}

func TestNewRunnerRefusesAnIncompleteConfiguration(t *testing.T) {
	t.Parallel()
	_, err := tasks.NewRunner(tasks.RunnerConfig{Process: "x"})
	require.Error(t, err)
}

func TestFailedRenewalCancelsTheRunAndKeepsTheNewLease(t *testing.T) {
	t.Parallel()
	pool := database(t)
	started, ended := make(chan tasks.Leased, 1), make(chan error, 1)
	runner, _ := startRunner(t, tasks.RunnerConfig{Pool: pool, Lease: time.Second, Work: func(ctx context.Context, task tasks.Leased) (tasks.Result, error) {
		started <- task
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return tasks.Finished, ctx.Err()
	}})
	schedule(t, pool, due("k", 1, noon))
	runner.Wake()
	<-started
	_, err := pool.Exec(t.Context(), `update scheduled_tasks set fence = nextval('scheduled_tasks_fence'), lease_until = '2099-01-01Z'`)
	require.NoError(t, err)
	require.ErrorIs(t, <-ended, tasks.ErrLeaseLost)
	var untouched bool
	require.NoError(t, pool.QueryRow(t.Context(), `select lease_until = '2099-01-01Z' from scheduled_tasks`).Scan(&untouched))
	require.True(t, untouched)
}

// BenchmarkTasks schedules a hundred tasks at a time, which do nothing, and runs them as fast as possible.
func BenchmarkTasks(b *testing.B) {
	pool := database(b)
	var left sync.WaitGroup
	runner, _ := startRunner(b, tasks.RunnerConfig{Pool: pool, Work: func(context.Context, tasks.Leased) (tasks.Result, error) {
		left.Done()
		return tasks.Finished, nil
	}})
	left.Add(b.N)
	b.ResetTimer()
	for from := 0; from < b.N; from += 100 {
		var list []tasks.Task
		for i := from; i < min(from+100, b.N); i++ {
			list = append(list, due(fmt.Sprint(i), int64(i), noon))
		}
		schedule(b, pool, list...)
		runner.Wake()
	}
	left.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}
