package peers_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"ledgerline/processes/peers"
)

// call makes a call that ends with an error.
func call(t *testing.T, p *peers.Peers, name string, result error) error {
	t.Helper()
	c, err := p.TryEnter(name, 2)
	if err == nil {
		c.Ended(result)
	}
	return err
}

func TestAPeerThatDoesNotAnswerIsNotCalledUntilOneCallFindsItAnswering(t *testing.T) {
	t.Parallel()
	p := peers.New(peers.Config{Kind: "test", Failures: 3, Open: 50 * time.Millisecond, Metrics: peers.NewMetrics(prometheus.NewRegistry())})
	for range 3 {
		require.NoError(t, p.Check("hangs"))
		require.NoError(t, call(t, p, "hangs", context.DeadlineExceeded))
	}
	refused := (*peers.Refused)(nil)
	require.ErrorAs(t, call(t, p, "hangs", nil), &refused)
	require.True(t, refused.Open)
	require.GreaterOrEqual(t, refused.Pause, 50*time.Millisecond)
	require.ErrorAs(t, p.Check("hangs"), &refused)
	require.NoError(t, call(t, p, "other", nil), "other peers have circuits of their own")

	var probe *peers.Call
	require.Eventually(t, func() (ok bool) {
		c, err := p.TryEnter("hangs", 2)
		probe = c
		return err == nil
	}, 10*time.Second, time.Millisecond)
	require.Error(t, call(t, p, "hangs", nil), "one call at a time tries")
	probe.Ended(nil)
	require.NoError(t, call(t, p, "hangs", nil))
}

func TestOnlyTimeoutsOpenTheCircuit(t *testing.T) {
	t.Parallel()
	p := peers.New(peers.Config{Kind: "test", Failures: 2})
	for range 10 {
		require.NoError(t, call(t, p, "refuses", errors.New("connection refused")))
		require.NoError(t, call(t, p, "mixed", peers.ErrTimeout))
		require.NoError(t, call(t, p, "mixed", nil))
	}
}

func TestCallsBeyondTheBoundOfAPeerAreRefusedWithPausesThatAreSpread(t *testing.T) {
	t.Parallel()
	p := peers.New(peers.Config{Kind: "test"})
	first, err := p.TryEnter("slow", 2)
	require.NoError(t, err)
	second, err := p.TryEnter("slow", 2)
	require.NoError(t, err)
	var last time.Duration
	for range 200 {
		_, err = p.TryEnter("slow", 2)
		refused := (*peers.Refused)(nil)
		require.ErrorAs(t, err, &refused)
		require.False(t, refused.Open)
		last = refused.Pause
	}
	require.Greater(t, last, 3*time.Second, "two hundred callers do not come back at once")
	waits := make(chan error, 1)
	go func() {
		c, err := p.Enter(context.Background(), "slow", 2)
		if err == nil {
			c.Release()
		}
		waits <- err
	}()
	first.Ended(nil)
	require.NoError(t, <-waits, "a caller that waits is admitted when a call ends")
	second.Release()
}
