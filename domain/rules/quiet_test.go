package rules_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/phone"
	"ledgerline/domain/rules"
	"ledgerline/events"
)

func at(zoneName, local string) time.Time {
	t, err := time.ParseInLocation("2006-01-02 15:04:05", local, zone(zoneName))
	if err != nil {
		panic(err)
	}
	return t
}

// quiet asks at a moment; until is "" for no hold and "never" for one without an end.
func quiet(now time.Time, own events.QuietHours, zones ...string) (until string, zoneUsed any) {
	f := ready()
	f.Now, f.Window, f.Zones = now, rules.WindowOf(own), nil
	for _, name := range zones {
		f.Zones = append(f.Zones, zone(name))
	}
	v := rules.Check(f)
	switch {
	case v.Decision == rules.Send:
		return "", nil
	case v.Deferral.Until == nil:
		return "never", v.Detail["zone"]
	}
	return v.Deferral.Until.Format(time.RFC3339), v.Detail["zone"]
}

func TestAMessageLeavesFrom9AMUntilBefore8PMOfTheContactsTime(t *testing.T) {
	t.Parallel()
	const ny = "America/New_York"
	for _, row := range []struct{ local, until string }{
		{"2026-03-02 08:59:59", "2026-03-02T14:00:00Z"},
		{"2026-03-02 09:00:00", ""},
		{"2026-03-02 19:59:59", ""},
		{"2026-03-02 20:00:00", "2026-03-03T14:00:00Z"},
		{"2026-03-02 00:00:00", "2026-03-02T14:00:00Z"},
		{"2026-03-07 21:00:00", "2026-03-08T13:00:00Z"}, // the clocks go forward in the night
		{"2026-03-08 08:30:00", "2026-03-08T13:00:00Z"},
		{"2026-10-31 21:00:00", "2026-11-01T14:00:00Z"}, // and back
		{"2026-12-31 23:00:00", "2027-01-01T14:00:00Z"},
	} {
		until, _ := quiet(at(ny, row.local), events.QuietHours{}, ny)
		require.Equal(t, row.until, until, row.local)
	}
}

func TestTheWindowMustBeOpenInAllZonesOfANumber(t *testing.T) {
	t.Parallel()
	const anchorage, adak = "America/Anchorage", "America/Adak"
	for _, row := range []struct{ local, until, zone string }{
		{"2026-03-02 09:30:00", "2026-03-02T19:00:00Z", adak}, // 08:30 there
		{"2026-03-02 10:00:00", "", ""},
		{"2026-03-02 19:59:00", "", ""},
		{"2026-03-02 20:00:00", "2026-03-03T19:00:00Z", anchorage},
	} {
		until, used := quiet(at(anchorage, row.local), events.QuietHours{}, anchorage, adak)
		require.Equal(t, row.until, until, row.local)
		if row.zone != "" {
			require.Equal(t, row.zone, used, row.local)
		}
	}
}

func TestNumberOfMoreThanFourZonesUsesTheTimesOfBothCoasts(t *testing.T) {
	t.Parallel()
	for _, tollFree := range []string{"+18005550199", "+18775551234", "+1999", ""} {
		require.Equal(t, []string{"America/New_York", "America/Los_Angeles"}, phone.TimeZones(tollFree), tollFree)
	}
	require.Equal(t, []string{"America/Adak", "America/Anchorage"}, phone.TimeZones("+19075551234"))
	require.Equal(t, []string{"America/Los_Angeles"}, phone.TimeZones("+14155550100"), "a sandbox number has its area code's zone")
	require.Equal(t, []string{"Europe/London"}, phone.TimeZones("+442071838750"))
	until, _ := quiet(at("America/Los_Angeles", "2026-03-02 17:00:00"), events.QuietHours{}, phone.TimeZones("+18005550199")...)
	require.Equal(t, "2026-03-03T17:00:00Z", until, "it is 8 PM in New York")
}

func TestAnOrganisationsQuietHoursNarrowTheWindowAndNeverWidenIt(t *testing.T) {
	t.Parallel()
	const ny = "America/New_York"
	own := events.QuietHours{Start: "18:00", End: "10:30"}
	for _, row := range []struct {
		local, until string
		own          events.QuietHours
	}{
		{"2026-03-02 10:29:59", "2026-03-02T15:30:00Z", own},
		{"2026-03-02 10:30:00", "", own},
		{"2026-03-02 18:00:00", "2026-03-03T15:30:00Z", own},
		{"2026-03-02 08:00:00", "2026-03-02T14:00:00Z", events.QuietHours{Start: "22:00", End: "07:00"}},
	} {
		until, _ := quiet(at(ny, row.local), row.own, ny)
		require.Equal(t, row.until, until, row.local)
	}
	until, _ := quiet(at(ny, "2026-03-02 12:00:00"), events.QuietHours{Start: "11:00", End: "09:00"}, ny, "America/Los_Angeles")
	require.Equal(t, "never", until, "the windows are never open together")
}

func TestAutomaticTextsAreExemptFromQuietHours(t *testing.T) {
	t.Parallel()
	f := ready()
	f.Now, f.Automatic, f.Zones = at("America/New_York", "2026-03-02 03:00:00"), true, nil
	require.Equal(t, rules.Send, rules.Check(f).Decision)
}

func TestSandboxTimeIsTheLocalTimeOfSomeOffset(t *testing.T) {
	t.Parallel()
	for _, now := range []string{"2026-03-02T00:00:00Z", "2026-03-02T11:59:59Z", "2026-03-02T23:30:15Z"} {
		at, err := time.Parse(time.RFC3339, now)
		require.NoError(t, err)
		for minutes := range 24 * 60 {
			offset := rules.OffsetWithLocalTime(at, minutes)
			require.LessOrEqual(t, max(offset, -offset), 12*60*60)
			local := at.In(time.FixedZone("sandbox", offset))
			require.Equal(t, minutes, local.Hour()*60+local.Minute(), "%s %d", now, minutes)
		}
	}
}
