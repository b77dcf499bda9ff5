package line

import "time"

// newYork is the time zone of usage days.
var newYork = mustLoad("America/New_York")

func mustLoad(zone string) *time.Location {
	loc, err := time.LoadLocation(zone)
	if err != nil {
		panic("line: the zone database is missing: " + err.Error())
	}
	return loc
}

// rollover is the local hour at which a usage day begins (rule LIN-20).
const rollover = 3

// Day is a usage day (rule LIN-20): from 3 AM in New York to the next 3 AM there, 23 or 25 hours long when clocks
// change.
type Day struct {
	Date       string // YYYY-MM-DD of its start in New York
	Start, End time.Time
}

// DayOf returns the usage day of a time.
func DayOf(t time.Time) Day {
	local := t.In(newYork)
	year, month, date := local.Date()
	if local.Hour() < rollover {
		date--
	}
	return dayFrom(year, month, date)
}

// ParseDay returns the usage day that starts on a date, YYYY-MM-DD; the zero Day if date is not a date.
func ParseDay(date string) Day {
	t, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return Day{}
	}
	return dayFrom(t.Date())
}

func dayFrom(year int, month time.Month, date int) Day {
	start := time.Date(year, month, date, rollover, 0, 0, 0, newYork)
	return Day{
		Date: start.Format(time.DateOnly), Start: start.UTC(), End: time.Date(year, month, date+1, rollover, 0, 0, 0, newYork).UTC(),
	}
}

// DaysSince returns how many usage days lie between earlier and d: 0 for the same day.
func (d Day) DaysSince(earlier Day) int {
	const day = 24 * time.Hour
	from, _ := time.Parse(time.DateOnly, earlier.Date)
	to, _ := time.Parse(time.DateOnly, d.Date)
	return int(to.Sub(from) / day)
}
