package httpapi

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBucketAllowsItsBurstAndThenItsRate(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	m := newMemoryLimiter(func() time.Time { return now }, 100)
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

func TestTablesOfBucketsAreBoundedAndApart(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	m := newMemoryLimiter(func() time.Time { return now }, 100)
	for range GeneralLimit.Burst {
		m.Allow(t.Context(), "general:key_1", GeneralLimit)
	}
	for i := range 1000 {
		m.Allow(t.Context(), fmt.Sprint(i), AddressLimit)
	}
	_, ok := m.Allow(t.Context(), "general:key_1", GeneralLimit)
	require.False(t, ok, "addresses have displaced a caller")
	for i := range 1000 {
		m.Allow(t.Context(), fmt.Sprint(i), GeneralLimit)
	}
	require.Equal(t, 100, m.callers.Len())
	require.Equal(t, 100, m.address.Len())
}

func TestAnIPv6ClientHasOneBucketForItsNetwork(t *testing.T) {
	t.Parallel()
	require.Equal(t, addressBucket(netip.MustParseAddr("2001:db8::1")), addressBucket(netip.MustParseAddr("2001:db8::2:1")))
	require.NotEqual(t, addressBucket(netip.MustParseAddr("2001:db8::1")), addressBucket(netip.MustParseAddr("2001:db8:0:1::1")))
	require.NotEqual(t, addressBucket(netip.MustParseAddr("192.0.2.1")), addressBucket(netip.MustParseAddr("192.0.2.2")))
}
