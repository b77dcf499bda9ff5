package clock_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/clock"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func fired(c <-chan time.Time) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestTimeIsInUTCAndTruncatedToMilliseconds(t *testing.T) {
	t.Parallel()
	east := time.FixedZone("east", 3600)
	for _, c := range []clock.Clock{clock.System(), clock.Running(), clock.Frozen(noon.Add(1234567).In(east))} {
		now := c.Now()
		require.Equal(t, time.UTC, now.Location())
		require.Equal(t, now.Truncate(time.Millisecond), now)
	}
	require.WithinDuration(t, time.Now(), clock.System().Now(), time.Minute)
}

func TestFrozenClockShowsTheSameTimeUntilItIsMoved(t *testing.T) {
	t.Parallel()
	c := clock.Frozen(noon)
	due, _ := c.Timer(noon.Add(time.Millisecond))
	require.Equal(t, noon, c.Now())
	require.False(t, fired(due))

	now, err := c.Advance(time.Millisecond)
	require.NoError(t, err)
	require.Equal(t, noon.Add(time.Millisecond), now)
	require.Equal(t, now, <-due)
}

func TestTimerInThePastFiresAtOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []clock.Clock{clock.System(), clock.Running(), clock.Frozen(noon)} {
		due, _ := c.Timer(c.Now())
		require.True(t, fired(due))
	}
}

func TestTimerFiresOnceAndOnlyWhenItsTimeIsReached(t *testing.T) {
	t.Parallel()
	c := clock.Frozen(noon)
	early, _ := c.Timer(noon.Add(time.Hour))
	late, _ := c.Timer(noon.Add(2 * time.Hour))
	_, err := c.Set(noon.Add(time.Hour))
	require.NoError(t, err)
	require.True(t, fired(early))
	require.False(t, fired(late))
	_, err = c.Set(noon.Add(3 * time.Hour))
	require.NoError(t, err)
	require.False(t, fired(early))
	require.True(t, fired(late))
}

func TestStoppedTimerNeverFires(t *testing.T) {
	t.Parallel()
	c := clock.Frozen(noon)
	due, stop := c.Timer(noon.Add(time.Hour))
	stop()
	stop()
	_, err := c.Advance(2 * time.Hour)
	require.NoError(t, err)
	require.False(t, fired(due))
}

func TestRunningClockFiresByRealTimeAndByMoves(t *testing.T) {
	t.Parallel()
	for _, c := range []clock.Clock{clock.System(), clock.Running()} {
		at := c.Now().Add(20 * time.Millisecond)
		due, _ := c.Timer(at)
		require.False(t, (<-due).Before(at))
		require.False(t, c.Now().Before(at))
	}
	c := clock.Running()
	at := c.Now().Add(2 * time.Hour)
	due, _ := c.Timer(at)
	soon, _ := c.Timer(at.Add(20 * time.Millisecond)) // a move, and real time for the rest
	_, err := c.Set(at)
	require.NoError(t, err)
	require.True(t, fired(due))
	<-soon
	require.False(t, c.Now().Before(at))
}

func TestTimeNeverMovesBack(t *testing.T) {
	t.Parallel()
	for _, c := range []*clock.Movable{clock.Running(), clock.Frozen(noon)} {
		_, err := c.Advance(-1)
		require.ErrorIs(t, err, clock.ErrBackwards)
		_, err = c.Set(c.Now().Add(-time.Hour))
		require.ErrorIs(t, err, clock.ErrBackwards)
	}
	c := clock.Frozen(noon.Add(999)) // shown as noon
	now, err := c.Set(noon)
	require.NoError(t, err)
	require.Equal(t, noon, now)
}

func TestMovingTheClockClosesTheChannelOfChanged(t *testing.T) {
	t.Parallel()
	c := clock.Frozen(noon)
	before := c.Changed()
	_, err := c.Advance(time.Second)
	require.NoError(t, err)
	<-before
	select {
	case <-c.Changed():
		require.Fail(t, "a new channel waits for the next move")
	default:
	}
	require.Nil(t, clock.System().Changed())
}

func TestTimersFireUnderConcurrentMoves(t *testing.T) {
	t.Parallel()
	for _, c := range []*clock.Movable{clock.Running(), clock.Frozen(noon)} {
		start := c.Now()
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() {
				at := start.Add(time.Duration(i) * time.Minute)
				due, stop := c.Timer(at)
				defer stop()
				if i%10 == 0 {
					return
				}
				<-due
				if c.Now().Before(at) {
					t.Errorf("timer %d fired before its time", i)
				}
			})
			all.Go(func() { _, _ = c.Advance(2 * time.Minute) })
		}
		all.Wait()
	}
}
