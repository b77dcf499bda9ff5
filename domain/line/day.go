package line

import "time"

// newYork is where usage days are counted.
var newYork = mustLoad("America/New_York")

func mustLoad(zone string) *time.Location {
	loc, err := time.LoadLocation(zone)
	if err != nil {
		panic("line: the zone database is missing: " + err.Error())
	}
	return loc
}

// rollover is the local hour at which a usage day begins (administration section 8).
const rollover = 3

// Day is a usage day: from 3 AM in New York to the next 3 AM there, 23 or 25 hours long when the clocks change.
type Day struct {
	Date       string // YYYY-MM-DD of its beginning
	Start, End time.Time
}

// DayOf is the usage day that a moment falls on.
func DayOf(t time.Time) Day {
	local := t.In(newYork)
	year, month, date := local.Date()
	if local.Hour() < rollover {
		date--
	}
	return dayFrom(year, month, date)
}

// ParseDay is the usage day that began on a date, YYYY-MM-DD; the zero Day for what is no date.
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

// DaysSince counts the usage days from another one to this one: 0 for the same day.
func (d Day) DaysSince(earlier Day) int {
	const day = 24 * time.Hour
	from, _ := time.Parse(time.DateOnly, earlier.Date)
	to, _ := time.Parse(time.DateOnly, d.Date)
	return int(to.Sub(from) / day)
}
