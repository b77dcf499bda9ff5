package rules

import (
	"fmt"
	"time"

	"ledgerline/events"
)

// Window is the part of a local day in which messages may leave: [Opens, Closes), in minutes since midnight.
type Window struct{ Opens, Closes int }

// platformWindow is 9 AM to 8 PM (rule SND-10).
var platformWindow = Window{9 * 60, 20 * 60}

// PlatformQuietHours is the span that the quiet hours of every organisation include.
func PlatformQuietHours() events.QuietHours {
	return events.QuietHours{Start: "20:00", End: "09:00"}
}

// WindowOf is the platform's window, narrowed by an organisation's quiet hours. Quiet hours that are not set or not
// valid change nothing.
func WindowOf(q events.QuietHours) Window {
	w := platformWindow
	starts, ok1 := Minutes(q.Start)
	ends, ok2 := Minutes(q.End)
	if !ok1 || !ok2 {
		return w
	}
	return Window{max(w.Opens, ends), min(w.Closes, starts)}
}

// Minutes reads HH:MM as minutes since midnight.
func Minutes(clock string) (minutes int, ok bool) {
	if len(clock) != len("00:00") {
		return 0, false
	}
	t, err := time.Parse("15:04", clock)
	return t.Hour()*60 + t.Minute(), err == nil
}

// open reports whether the window is open at a time in a zone.
func (w Window) open(at time.Time, zone *time.Location) bool {
	local := at.In(zone)
	minute := local.Hour()*60 + local.Minute()
	return w.Opens <= minute && minute < w.Closes
}

// opensNext is the next time at which the window opens in a zone in which it is closed.
func (w Window) opensNext(at time.Time, zone *time.Location) time.Time {
	year, month, date := at.In(zone).Date()
	for {
		next := time.Date(year, month, date, 0, w.Opens, 0, 0, zone)
		if next.After(at) {
			return next
		}
		date++
	}
}

// OffsetWithLocalTime returns the offset from UTC, in seconds from -12 to +12 hours, with which the local time at now
// is that many minutes since midnight.
func OffsetWithLocalTime(now time.Time, minutes int) int {
	const day = 24 * 60 * 60
	midnight := now.UTC().Truncate(24 * time.Hour)
	offset := minutes*60 - int(now.Sub(midnight)/time.Minute)*60
	return (offset+day+day/2)%day - day/2
}

// maxMoves bounds the search for a time at which the window is open in all zones. Narrow windows in zones far apart are
// never open together.
const maxMoves = 32

// quietHours defers a message unless the window is open in every zone that the number may lie in (rules SND-10 and
// SND-11).
func quietHours(f *Facts) *Verdict {
	closed := ""
	at := f.Now
	for range maxMoves {
		moved := false
		for _, zone := range f.Zones {
			if f.Window.open(at, zone) {
				continue
			}
			if closed == "" {
				closed = zone.String()
			}
			at, moved = f.Window.opensNext(at, zone), true
		}
		if !moved {
			break
		}
	}
	if closed == "" {
		return nil
	}
	names := make([]string, len(f.Zones))
	open := f.Window.Opens < f.Window.Closes
	for i, zone := range f.Zones {
		names[i] = zone.String()
		open = open && f.Window.open(at, zone)
	}
	v := deferFor(ReasonQuietHours, nil, "")
	if open {
		until := at.UTC()
		v.Deferral.Until = &until
	}
	v.Detail = map[string]any{
		"zone": closed, "zones": names,
		"window": fmt.Sprintf("%02d:%02d-%02d:%02d", f.Window.Opens/60, f.Window.Opens%60, f.Window.Closes/60, f.Window.Closes%60),
	}
	return v
}
