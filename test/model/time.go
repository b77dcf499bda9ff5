package model

import (
	"time"

	"ledgerline/events"
)

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

// window is the part of a local day in which messages may leave, in minutes.
type window struct{ opens, closes int }

// windowOf returns the window of rule SND-10, from 9 AM to before 8 PM, narrowed by the organisation's own quiet hours.
func windowOf(q events.QuietHours) window {
	w := window{9 * 60, 20 * 60}
	starts, err1 := time.Parse("15:04", q.Start)
	ends, err2 := time.Parse("15:04", q.End)
	if err1 == nil && err2 == nil {
		w = window{max(w.opens, minuteOf(ends)), min(w.closes, minuteOf(starts))}
	}
	return w
}

// open reports whether messages may leave to a number at a time: within the window in every zone that it may lie in
// (rule SND-11).
func (m *Model) open(w window, phone string, at time.Time) bool {
	for _, name := range m.Zones(phone) {
		if minute := minuteOf(at.In(m.zone(name))); minute < w.opens || minute >= w.closes {
			return false
		}
	}
	return true
}

// opens returns the next time at which messages may leave to a number, searched minute by minute; nil if there is none.
func (m *Model) opens(w window, phone string, at time.Time) *time.Time {
	for next := at.Truncate(time.Minute); next.Before(at.Add(48 * time.Hour)); next = next.Add(time.Minute) {
		if m.open(w, phone, next) && !next.Before(at) {
			return &next
		}
	}
	return nil
}

// day returns the usage day of a time (rule LIN-20) as a count of days.
func (m *Model) day(at time.Time) int {
	local := at.In(m.zone("America/New_York"))
	year, month, date := local.Date()
	if local.Hour() < 3 {
		date--
	}
	return int(time.Date(year, month, date, 0, 0, 0, 0, time.UTC).Unix() / (24 * 60 * 60))
}

// dayEnds returns when the usage day of a time ends.
func (m *Model) dayEnds(at time.Time) time.Time {
	y, mo, d := time.Unix(int64(m.day(at)+1)*24*60*60, 0).UTC().Date()
	return time.Date(y, mo, d, 3, 0, 0, 0, m.zone("America/New_York"))
}
