package tasks_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/processes/tasks"
)

func owned(owner, key string, position int64) tasks.Task {
	return tasks.Task{Process: "test", Key: key, Owner: owner, DueAt: noon, Position: position}
}

func TestCallsThatHangDoNotOccupyTheWorkers(t *testing.T) {
	t.Parallel()
	pool := database(t)
	release, quick := make(chan struct{}), make(chan struct{})
	var under atomic.Int32
	runner, stop := startRunner(t, tasks.RunnerConfig{Pool: pool, Workers: 2, Outside: 20, Share: 12, Work: func(ctx context.Context, task tasks.Leased) (tasks.Result, error) {
		if task.Owner == "hangs" {
			under.Add(1)
			defer under.Add(-1)
			tasks.Outside(ctx, func() { <-release })
			return tasks.Finished, nil
		}
		close(quick)
		return tasks.Finished, nil
	}})
	var list []tasks.Task
	for i := range 30 {
		list = append(list, owned("hangs", fmt.Sprint("k", i), 1))
	}
	schedule(t, pool, list...)
	runner.Wake()
	require.Eventually(t, func() bool { return under.Load() == 12 }, 20*time.Second, time.Millisecond, "an owner has its share of runs, and no more")
	schedule(t, pool, owned("other", "quick", 2))
	runner.Wake()
	<-quick
	require.EqualValues(t, 12, under.Load())
	close(release)
	eventuallyEmpty(t, pool)
	stop()
}

func TestOwnersTakeTurnsWhenMoreIsDueThanWorkersAreFree(t *testing.T) {
	t.Parallel()
	pool := database(t)
	var mu sync.Mutex
	var order []string
	var list []tasks.Task
	for i := range 2000 {
		task := owned("big", fmt.Sprint("b", i), 1)
		task.DueAt = noon.Add(-time.Hour)
		list = append(list, task)
	}
	schedule(t, pool, list...)
	list = list[:0]
	for i := range 10 {
		list = append(list, owned("small", fmt.Sprint("s", i), 2))
	}
	schedule(t, pool, list...)
	_, stop := startRunner(t, tasks.RunnerConfig{Pool: pool, Workers: 4, Work: func(_ context.Context, task tasks.Leased) (tasks.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, task.Owner)
		return tasks.Finished, nil
	}})
	eventuallyEmpty(t, pool)
	stop()
	last := 0
	for i, owner := range order {
		if owner == "small" {
			last = i
		}
	}
	require.Less(t, last, 200, "the ten tasks of the small owner do not wait behind the two thousand of the big one")
}

func TestPostponedTaskRunsAgainAfterAPauseAndHasNotFailed(t *testing.T) {
	t.Parallel()
	pool := database(t)
	runs := make(chan int, 2)
	var n atomic.Int32
	runner, _ := startRunner(t, tasks.RunnerConfig{Pool: pool, Work: func(_ context.Context, task tasks.Leased) (tasks.Result, error) {
		runs <- task.Failures
		if n.Add(1) == 1 {
			return tasks.Postpone(10 * time.Millisecond), nil
		}
		return tasks.Finished, nil
	}})
	schedule(t, pool, owned("", "k", 1))
	runner.Wake()
	require.Zero(t, <-runs)
	require.Zero(t, <-runs)
	eventuallyEmpty(t, pool)
}
