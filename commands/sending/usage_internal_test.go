package sending

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/line"
)

func TestUsageOfALineIsNeverCountedTwice(t *testing.T) {
	t.Parallel()
	u, err := newUsageCache(nil, 1)
	require.NoError(t, err)
	noon := time.Date(2026, 3, 2, 17, 0, 0, 0, time.UTC)
	day := line.DayOf(noon)
	l := u.line("ln_1")
	l.day, l.texts = day.Date, map[string]int{}

	reads := u.reads("ln_1")
	u.add("ln_1", reads, noon, day, true, "")
	require.Equal(t, []int{1, 1, 1}, []int{l.sends, l.newToday, len(l.newTimes)})

	l.reads++ // the usage was read for another message, after this message's append and before add
	u.add("ln_1", reads, noon, day, true, "")
	require.Equal(t, []int{1, 1, 1}, []int{l.sends, l.newToday, len(l.newTimes)})
}
