package fairqueue_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/fairqueue"
)

func enter(t *testing.T, q *fairqueue.Queue[string], owner string, units int64) func() {
	t.Helper()
	leave, err := q.Enter(t.Context(), owner, units)
	require.NoError(t, err)
	return leave
}

func TestOneOwnerCannotTakeMoreThanItsShare(t *testing.T) {
	t.Parallel()
	q := fairqueue.New[string](fairqueue.Config{Total: 3, PerOwner: 2, Waiting: 0, Wait: time.Minute})
	first := enter(t, q, "a", 1)
	enter(t, q, "a", 1)
	_, err := q.Enter(t.Context(), "a", 1)
	require.ErrorIs(t, err, fairqueue.ErrFull)
	enter(t, q, "b", 1)
	_, err = q.Enter(t.Context(), "c", 1)
	require.ErrorIs(t, err, fairqueue.ErrBusy)
	first()
	first() // again changes nothing
	enter(t, q, "c", 1)
	_, err = q.Enter(t.Context(), "a", 1)
	require.ErrorIs(t, err, fairqueue.ErrBusy, "a has room in its share, but the queue has none")
}

func TestWaitingOwnersTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := fairqueue.New[string](fairqueue.Config{Total: 1, PerOwner: 1, Waiting: 10, Wait: time.Minute})
		leave := enter(t, q, "first", 1)
		var order []string
		for _, owner := range []string{"a", "a", "a", "b", "b", "c"} {
			go func() {
				leave, err := q.Enter(context.Background(), owner, 1)
				if err == nil {
					order = append(order, owner)
					leave()
				}
			}()
			synctest.Wait()
		}
		leave()
		synctest.Wait()
		require.Equal(t, []string{"a", "b", "c", "a", "b", "a"}, order)
	})
}

func TestLargeWorkIsNotOvertakenBySmallWorkForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := fairqueue.New[string](fairqueue.Config{Total: 10, PerOwner: 10, Waiting: 10, Wait: time.Minute})
		small := enter(t, q, "a", 2)
		large := make(chan func(), 1)
		go func() {
			leave, err := q.Enter(context.Background(), "b", 10)
			if err == nil {
				large <- leave
			}
		}()
		synctest.Wait()
		entered := make(chan struct{})
		go func() {
			leave, err := q.Enter(context.Background(), "c", 1)
			if err == nil {
				close(entered)
				leave()
			}
		}()
		synctest.Wait()
		require.Empty(t, large)
		small()
		leave := <-large
		select {
		case <-entered:
			t.Fatal("c has overtaken b")
		default:
		}
		leave()
		<-entered
	})
}

func TestACallerThatGivesUpLeavesTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := fairqueue.New[string](fairqueue.Config{Total: 1, PerOwner: 1, Waiting: 1, Wait: time.Second})
		leave := enter(t, q, "a", 1)
		_, err := q.Enter(t.Context(), "b", 1) // waits for a second
		require.ErrorIs(t, err, fairqueue.ErrBusy)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		_, err = q.Enter(ctx, "b", 1)
		require.ErrorIs(t, err, context.Canceled)
		leave()
		enter(t, q, "b", 1)()
		enter(t, q, "a", 1)()
	})
}
