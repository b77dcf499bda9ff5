package httpapi

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBucketAllowsItsBurstAndThenItsRate(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	m := newMemoryLimiter(func() time.Time { return now })
	for range 20 {
		_, ok := m.Allow(t.Context(), "sending:key_1", SendingLimit)
		require.True(t, ok)
	}
	for range 3 { // a refused request takes no token
		wait, ok := m.Allow(t.Context(), "sending:key_1", SendingLimit)
		require.False(t, ok)
		require.Equal(t, 100*time.Millisecond, wait)
	}
	_, ok := m.Allow(t.Context(), "sending:key_2", SendingLimit)
	require.True(t, ok, "every key has its own bucket")
	now = now.Add(time.Second)
	for i := range 11 {
		_, ok := m.Allow(t.Context(), "sending:key_1", SendingLimit)
		require.Equal(t, i < 10, ok)
	}
	for i := range 51 {
		_, ok := m.Allow(t.Context(), "general:key_1", GeneralLimit)
		require.Equal(t, i < 50, ok)
	}
}

func TestIdleBucketsAreRemoved(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	m := newMemoryLimiter(func() time.Time { return now })
	for i := range 1000 {
		m.Allow(t.Context(), fmt.Sprint(i), GeneralLimit)
	}
	require.Len(t, m.buckets, 1000)
	now = now.Add(2 * bucketIdle)
	m.Allow(t.Context(), "new", GeneralLimit)
	require.Len(t, m.buckets, 1)
}
