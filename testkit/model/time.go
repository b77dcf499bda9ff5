package model

import "time"

// minute of the local day.
func minuteOf(t time.Time) int { return t.Hour()*60 + t.Minute() }

func (m *Model) zone(name string) *time.Location {
	z := m.zones[name]
	if z == nil {
		var err error
		if z, err = time.LoadLocation(name); err != nil {
			panic(err)
		}
		m.zones[name] = z
	}
	return z
}

// open tells whether messages may leave to a number at a moment: from 9 AM to before 8 PM in every zone that it may be in
// (interface section 1 rule 3, decisions section 7).
func (m *Model) open(o *organisation, phone string, at time.Time) bool {
	for _, name := range m.Zones(phone) {
		if minute := minuteOf(at.In(m.zone(name))); minute < o.opens || minute >= o.closes {
			return false
		}
	}
	return true
}

// opens is the next moment at which messages may leave to a number, looked for minute by minute.
func (m *Model) opens(o *organisation, phone string, at time.Time) time.Time {
	next := at.Truncate(time.Minute)
	for !m.open(o, phone, next) || next.Before(at) {
		next = next.Add(time.Minute)
	}
	return next
}

// day is the usage day of a moment as a count of days: it begins at 3 AM in New York (administration section 8).
func (m *Model) day(at time.Time) int {
	local := at.In(m.zone("America/New_York"))
	year, month, date := local.Date()
	if local.Hour() < 3 {
		date--
	}
	return int(time.Date(year, month, date, 0, 0, 0, 0, time.UTC).Unix() / (24 * 60 * 60))
}

// dayEnds is when the usage day of a moment ends.
func (m *Model) dayEnds(at time.Time) time.Time {
	y, mo, d := time.Unix(int64(m.day(at)+1)*24*60*60, 0).UTC().Date()
	return time.Date(y, mo, d, 3, 0, 0, 0, m.zone("America/New_York"))
}
