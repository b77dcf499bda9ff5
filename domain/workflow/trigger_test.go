package workflow_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/workflow"
)

type uuidType = uuid.UUID

func uuidOf(n byte) uuid.UUID { return uuid.UUID{15: n} }

// matching lists the numbers of the workflows that a message starts.
func matching(x *workflow.Index, body, line string) []byte {
	found := []byte{}
	for _, l := range x.Match(body, line) {
		found = append(found, l.WorkflowID[15])
	}
	return found
}

func TestKeywordsFoldAsStopWordsDoAndContainsLooksForWholeWords(t *testing.T) {
	t.Parallel()
	const graph = `{"nodes":[{"type":"trigger"}],"edges":[]}`
	configs := []string{
		`{}`, `{"keywords":["Join us!"]}`, `{"keywords":["join","JOIN US"],"match":"contains"}`, `{"line_ids":["ln_a"]}`,
		`{"keywords":["café"],"match":"contains","line_ids":["ln_a","ln_b"]}`,
	}
	live := make([]workflow.Live, len(configs))
	for i, config := range configs {
		p, issues := workflow.Check(draft(t, received, config, graph), here)
		require.Empty(t, issues)
		live[i] = workflow.Live{WorkflowID: uuidOf(byte(i)), Trigger: p.Trigger}
	}
	x := workflow.NewIndex(live)
	for _, c := range []struct {
		body, line string
		want       []byte
	}{
		{"hello", "ln_c", []byte{0}},
		{"", "ln_c", []byte{0}},
		{" JOIN   us. ", "ln_c", []byte{0, 1, 2}},
		{"please join now", "ln_a", []byte{0, 2, 3}},
		{"joining", "ln_c", []byte{0}},
		{"we join us all, join us", "ln_c", []byte{0, 2}},
		{"a Cafe, please", "ln_b", []byte{0, 4}},
		{"a cafe", "ln_c", []byte{0}},
		{"yes", "ln_c", []byte{0}},
	} {
		require.Equal(t, c.want, matching(x, c.body, c.line), "%q on %s", c.body, c.line)
	}
	require.Empty(t, workflow.NewIndex(nil).Match("x", "ln_a"))
}

func BenchmarkMatchAMessageAgainstTwoHundredWorkflows(b *testing.B) {
	live := make([]workflow.Live, 200)
	for i := range live {
		live[i].Trigger = workflow.Trigger{Contains: true, Keywords: []string{fmt.Sprintf("word%d", i), fmt.Sprintf("two words %d", i)}}
	}
	x := workflow.NewIndex(live)
	for b.Loop() {
		x.Match("Hello, I would like to know when my order number 12345 arrives, thank you very much", "ln_a")
	}
}

func TestTimesOfSchedulesFollowTheWallClockOfTheZone(t *testing.T) {
	t.Parallel()
	next := func(expression, zone, after string, n int) []string {
		t.Helper()
		in, err := time.LoadLocation(zone)
		require.NoError(t, err)
		s, err := workflow.ParseCron(expression, in)
		require.NoError(t, err, expression)
		at, err := time.Parse(time.RFC3339, after)
		require.NoError(t, err)
		var times []string
		for range n {
			var ok bool
			at, ok = s.Next(at)
			require.True(t, ok)
			times = append(times, at.UTC().Format("2006-01-02T15:04Z"))
		}
		return times
	}
	const newYork = "America/New_York"
	require.Equal(t, []string{"2026-03-07T14:00Z", "2026-03-08T13:00Z", "2026-03-09T13:00Z"},
		next("0 9 * * *", newYork, "2026-03-07T12:00:00Z", 3), "9 o'clock stays 9 o'clock when summer time begins")
	require.Equal(t, []string{"2026-03-07T07:30Z", "2026-03-08T07:00Z", "2026-03-09T06:30Z"},
		next("30 2 * * *", newYork, "2026-03-07T05:00:00Z", 3), "half past two does not exist: the first moment after")
	require.Equal(t, []string{"2026-11-01T05:30Z", "2026-11-02T06:30Z"},
		next("30 1 * * *", newYork, "2026-11-01T04:00:00Z", 2), "half past one occurs twice: the first one")
	require.Equal(t, []string{"2026-11-01T05:00Z", "2026-11-01T05:30Z", "2026-11-01T07:00Z"},
		next("*/30 * * * *", newYork, "2026-11-01T04:40:00Z", 3))
	require.Equal(t, []string{"2026-03-08T06:30Z", "2026-03-08T07:00Z", "2026-03-08T07:30Z"},
		next("*/30 * * * *", newYork, "2026-03-08T06:10:00Z", 3))
	require.Equal(t, []string{"2026-03-06T09:00Z", "2026-03-13T09:00Z", "2026-03-20T09:00Z"},
		next("0 9 13 * 5", "UTC", "2026-03-01T00:00:00Z", 3), "a day and a weekday: either")
	require.Equal(t, next("0 9 * * 0", "UTC", "2026-03-01T12:00:00Z", 2), next("0 9 * * 7", "UTC", "2026-03-01T12:00:00Z", 2), "0 and 7 are Sunday")
	require.Equal(t, []string{"2027-01-04T09:00Z"}, next("0 9 * jan MON", "UTC", "2026-03-01T00:00:00Z", 1), "names are taken")
	require.Equal(t, []string{"2026-10-03T15:30Z", "2026-10-04T15:00Z"},
		next("0 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", 2), "a change of half an hour")
}

func TestACronExpressionHasFiveFieldsAndFires(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{"", "* * * *", "* * * * * *", "@daily", "60 * * * *", "TZ=UTC 0 9 * *", "0 9 30 2 *", "0 9 L * *", "x * * * *", "*/0 * * * *"} {
		_, err := workflow.ParseCron(expression, time.UTC)
		require.Error(t, err, expression)
	}
	for _, expression := range []string{"* * * * *", "0-30/5 9,17 1-7 */2 mon-fri", "0 0 29 2 *"} {
		_, err := workflow.ParseCron(expression, time.UTC)
		require.NoError(t, err, expression)
	}
}

func TestAScheduleOfOneTimeFiresOnce(t *testing.T) {
	t.Parallel()
	s := workflow.At(noon)
	at, ok := s.Next(noon.Add(-time.Hour))
	require.True(t, ok)
	require.Equal(t, noon, at)
	_, ok = s.Next(noon)
	require.False(t, ok)
}

func TestDurationsAreISO8601FromAMinuteToAYear(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"PT1M": time.Minute, "P1DT2H": 26 * time.Hour, "P2W": 14 * 24 * time.Hour, "P365D": workflow.MaxWait, "PT1.5H": 90 * time.Minute, "PT90S": 90 * time.Second,
	} {
		d, err := workflow.ParseDuration(text)
		require.NoError(t, err, text)
		require.Equal(t, want, d, text)
	}
	for _, text := range []string{"", "P", "PT", "1h", "PT59S", "P366D", "P1M", "P1Y", "-PT1H", "P1DT", "PT99999999999999H", "P99999999999W", "PTxH", "pt1h"} {
		_, err := workflow.ParseDuration(text)
		require.Error(t, err, text)
	}
}
