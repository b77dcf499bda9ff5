package httpapi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestADownloadWhoseClientTakesAByteNowAndThenEnds(t *testing.T) {
	t.Parallel()
	p := pace{stall: time.Minute}
	require.Equal(t, time.Minute, p.left())
	p.add(1, 50*time.Second)
	require.Positive(t, p.left())
	p.add(1, 50*time.Second)
	require.Negative(t, p.left(), "each write took less than a minute, and both took longer")
}

func TestADownloadAtTheLeastRateGoesOn(t *testing.T) {
	t.Parallel()
	p := pace{stall: time.Minute}
	for range 10_000 {
		p.add(leastRate, time.Second)
		require.Equal(t, time.Minute, p.left())
	}
}

func TestAFastBeginningDoesNotLengthenALaterWait(t *testing.T) {
	t.Parallel()
	p := pace{stall: time.Minute}
	p.add(1<<30, time.Second)
	require.Equal(t, time.Minute, p.left())
}
