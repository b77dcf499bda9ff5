package rules_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/line"
	"ledgerline/domain/rules"
	"ledgerline/events"
)

func outlook(t *testing.T, people int, lines ...rules.LineOutlook) rules.Outlook {
	t.Helper()
	zone, err := time.LoadLocation("America/New_York")
	require.NoError(t, err)
	start := time.Date(2026, 3, 2, 17, 0, 0, 0, time.UTC) // noon in New York
	limits := line.DefaultLimits()
	return rules.Outlook{
		Start: start, Until: start.Add(7 * 24 * time.Hour), Window: rules.WindowOf(events.QuietHours{}), Limits: &limits, Lines: lines,
		Audience: []rules.Audience{{Zones: []*time.Location{zone}, New: people}},
	}
}

var activeLine = rules.LineOutlook{Line: line.Line{ID: "ln_1", State: line.Active}}

func TestForecastEndsAtOnceWhenTheLinesHaveCapacity(t *testing.T) {
	t.Parallel()
	o := outlook(t, 15, activeLine)
	require.Equal(t, o.Start, o.CompletesAt())
	o = outlook(t, 30, activeLine, activeLine)
	require.Equal(t, o.Start, o.CompletesAt())
	o = outlook(t, 0)
	require.Equal(t, o.Start, o.CompletesAt())
}

func TestForecastKeepsTheLimitsOfHourAndDayAndTheQuietHours(t *testing.T) {
	t.Parallel()
	o := outlook(t, 16, activeLine)
	require.Equal(t, o.Start.Add(time.Hour), o.CompletesAt(), "15 new contacts an hour")
	o = outlook(t, 51, activeLine)
	require.Equal(t, o.Start.Add(21*time.Hour), o.CompletesAt(), "50 new contacts a day: the next one at 9 AM")
	o.Lines[0].New = 50
	require.Equal(t, o.Start.Add(45*time.Hour), o.CompletesAt(), "all of today is used: 50 tomorrow, the last one on the day after")
	o = outlook(t, 1, activeLine)
	o.Start = o.Start.Add(8 * time.Hour) // 8 PM
	require.Equal(t, o.Start.Add(13*time.Hour), o.CompletesAt())
}

func TestForecastKeepsTheWarmUpAndTheLimitOfIdenticalTexts(t *testing.T) {
	t.Parallel()
	o := outlook(t, 31, rules.LineOutlook{Line: line.Line{ID: "ln_1", State: line.Ready}})
	require.Equal(t, o.Start.Add(3*24*time.Hour-3*time.Hour), o.CompletesAt(), "10 new contacts a day on the first three days")
	o = outlook(t, 0, activeLine)
	o.Audience[0].Known, o.SameText = 26, true
	require.Equal(t, o.Start.Add(21*time.Hour), o.CompletesAt(), "25 identical texts a day")
	o.SameText = false
	require.Equal(t, o.Start, o.CompletesAt())
}

func TestForecastIsAtMostTheTimeAtWhichTheMessagesFail(t *testing.T) {
	t.Parallel()
	o := outlook(t, 10_000, activeLine)
	require.Equal(t, o.Until, o.CompletesAt())
	o = outlook(t, 1, rules.LineOutlook{Line: line.Line{ID: "ln_1", State: line.Paused}})
	require.Equal(t, o.Until, o.CompletesAt())
}
