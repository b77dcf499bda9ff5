package line_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/fault"
	"ledgerline/domain/line"
	"ledgerline/events"
)

func moment(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

func TestUsageDayBeginsAt3AMInNewYork(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ at, date, start, end string }{
		{"2026-03-02T07:59:59Z", "2026-03-01", "2026-03-01T08:00:00Z", "2026-03-02T08:00:00Z"},
		{"2026-03-02T08:00:00Z", "2026-03-02", "2026-03-02T08:00:00Z", "2026-03-03T08:00:00Z"},
		{"2026-03-08T06:59:59Z", "2026-03-07", "2026-03-07T08:00:00Z", "2026-03-08T07:00:00Z"}, // 23 hours
		{"2026-03-08T07:00:00Z", "2026-03-08", "2026-03-08T07:00:00Z", "2026-03-09T07:00:00Z"},
		{"2026-11-01T07:59:59Z", "2026-10-31", "2026-10-31T07:00:00Z", "2026-11-01T08:00:00Z"}, // 25 hours
		{"2026-11-01T08:00:00Z", "2026-11-01", "2026-11-01T08:00:00Z", "2026-11-02T08:00:00Z"},
		{"2027-01-01T02:00:00Z", "2026-12-31", "2026-12-31T08:00:00Z", "2027-01-01T08:00:00Z"},
	} {
		day := line.DayOf(moment(row.at))
		require.Equal(t, line.Day{Date: row.date, Start: moment(row.start), End: moment(row.end)}, day, row.at)
		require.Equal(t, day, line.ParseDay(row.date))
	}
	require.Equal(t, 30, line.ParseDay("2026-03-31").DaysSince(line.ParseDay("2026-03-01")))
}

func TestWarmupCurveLimitsNewContactsOfAWarmingLine(t *testing.T) {
	t.Parallel()
	limits := line.DefaultLimits()
	l := line.Line{ID: "ln_1", State: line.Ready}
	require.Equal(t, 10, l.Caps(&limits, line.ParseDay("2026-03-01")).NewPerDay, "the first send makes it day 1")
	begun := l.StartWarming()
	require.Len(t, begun, 1)
	l = l.Apply(begun[0], events.Envelope{At: moment("2026-03-01T17:00:00Z")})
	require.Equal(t, line.Warming, l.State)
	for day, want := range map[string]int{
		"2026-03-01": 10, "2026-03-03": 10, "2026-03-04": 20, "2026-03-07": 20, "2026-03-08": 30, "2026-03-14": 30,
		"2026-03-15": 40, "2026-03-21": 40, "2026-03-22": 50,
	} {
		require.Equal(t, want, l.Caps(&limits, line.ParseDay(day)).NewPerDay, day)
	}
	require.Empty(t, l.FinishWarming(&limits, line.ParseDay("2026-03-21")))
	done := l.FinishWarming(&limits, line.ParseDay("2026-03-22"))
	require.Len(t, done, 1)
	l = l.Apply(done[0], events.Envelope{})
	require.Equal(t, line.Active, l.State)
	require.Empty(t, l.FinishWarming(&limits, line.ParseDay("2026-04-22")))
}

func TestThrottledLineHasHalfTheCaps(t *testing.T) {
	t.Parallel()
	limits := line.DefaultLimits()
	day := line.ParseDay("2026-03-01")
	require.Equal(t, line.Caps{NewPerHour: 7, NewPerDay: 25, SendsPerDay: 500, IdenticalPerDay: 12},
		line.Line{State: line.Throttled, ThrottledFrom: line.Active}.Caps(&limits, day))
	require.Equal(t, 5, line.Line{State: line.Throttled, ThrottledFrom: line.Warming, WarmingSince: "2026-03-01"}.Caps(&limits, day).NewPerDay)
}

func TestInvalidLimitsAreRefusedTogether(t *testing.T) {
	t.Parallel()
	good := line.DefaultLimits()
	require.NoError(t, line.CheckLimits(&good))
	bad := line.DefaultLimits()
	bad.SendsPerDay, bad.ReplyRatioMin, bad.PreReplyMaxChars, bad.NewContactsPerDay = -1, 1.5, 0, 1<<53
	bad.WarmupCurve = append([]events.WarmupStep(nil), bad.WarmupCurve...)
	bad.WarmupCurve[1].FromDay = 9
	require.Len(t, fault.Of(line.CheckLimits(&bad)).Issues, 5)
}

// applied applies the events of a decision.
func applied(l line.Line, list ...events.Event) line.Line {
	for _, e := range list {
		l = l.Apply(e, events.Envelope{At: moment("2026-03-01T17:00:00Z")})
	}
	return l
}

func TestLineIsThrottledBelowHealth60AndRecoversAbove70(t *testing.T) {
	t.Parallel()
	limits := line.DefaultLimits()
	require.Equal(t, 100, line.Score(events.HealthFacts{}, &limits))
	require.Equal(t, 100, line.Score(events.HealthFacts{Sends: 19, Failed: 19, Contacted: 19, OptOuts: 19}, &limits), "too few to judge")
	require.Equal(t, 50, line.Score(events.HealthFacts{Sends: 100, Failed: 25}, &limits))
	require.Equal(t, 55, line.Score(events.HealthFacts{Sends: 60, Contacted: 50}, &limits), "nobody replies")
	require.Equal(t, 100, line.Score(events.HealthFacts{Sends: 60, Contacted: 50, Replied: 5}, &limits))
	require.Equal(t, 0, line.Score(events.HealthFacts{Sends: 100, Failed: 100, Contacted: 50, OptOuts: 50}, &limits))

	l := line.Line{ID: "ln_1", State: line.Warming, WarmingSince: "2026-03-01", Health: 100}
	bad := l.EvaluateHealth(events.HealthFacts{Sends: 100, Failed: 25}, &limits)
	require.Len(t, bad, 3)
	require.IsType(t, &events.LineDegraded{}, bad[2])
	l = applied(l, bad...)
	require.Equal(t, []any{line.Throttled, 50}, []any{l.State, l.Health})
	require.Empty(t, l.EvaluateHealth(events.HealthFacts{Sends: 100, Failed: 25}, &limits))
	l = applied(l, l.EvaluateHealth(events.HealthFacts{Sends: 100, Failed: 15}, &limits)...)
	require.Equal(t, line.Throttled, l.State, "70 is not above 70")
	good := l.EvaluateHealth(events.HealthFacts{Sends: 100, Failed: 14}, &limits)
	require.IsType(t, &events.LineRecovered{}, good[2])
	l = applied(l, good...)
	require.Equal(t, []any{line.Warming, "2026-03-01"}, []any{l.State, l.WarmingSince})
}

func TestUnansweredStreakPausesTheLineUntilAContactReplies(t *testing.T) {
	t.Parallel()
	limits := line.DefaultLimits()
	limits.UnansweredStreakPause = 3
	l := line.Line{ID: "ln_1", State: line.Active}
	for range 2 {
		l = applied(l, l.RecordUnanswered("ctc_1", "msg_1", &limits)...)
	}
	require.Equal(t, []any{line.Active, 2}, []any{l.State, l.UnansweredStreak})
	ended := applied(l, l.RecordReply()...)
	require.Zero(t, ended.UnansweredStreak)
	l = applied(l, l.RecordUnanswered("ctc_1", "msg_1", &limits)...)
	require.Equal(t, line.Paused, l.State)
	_, err := l.Resume("")
	require.True(t, fault.Is(err, fault.Conflict))
	l = applied(l, l.RecordReply()...)
	require.Equal(t, []any{line.Active, 0}, []any{l.State, l.UnansweredStreak})
	require.Empty(t, l.RecordReply())
}

func TestResumedLineReturnsToTheStateBeforeThePause(t *testing.T) {
	t.Parallel()
	for _, from := range []line.State{line.Warming, line.Active, line.Throttled} {
		l := line.Line{ID: "ln_1", State: from, ThrottledFrom: line.Active}
		paused, err := l.Pause("holiday")
		require.NoError(t, err)
		l = applied(l, paused...)
		require.Equal(t, line.Paused, l.State)
		_, err = l.Pause("")
		require.True(t, fault.Is(err, fault.Conflict))
		back, err := l.Resume("")
		require.NoError(t, err)
		require.Equal(t, from, applied(l, back...).State)
	}
	for _, from := range []line.State{line.Provisioning, line.Ready, line.Quarantined, line.Retired} {
		_, err := line.Line{State: from}.Pause("")
		require.True(t, fault.Is(err, fault.Conflict))
		_, err = line.Line{State: from}.Resume("")
		require.True(t, fault.Is(err, fault.Conflict))
	}
}
