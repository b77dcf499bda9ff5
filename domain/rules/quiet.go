package rules

import (
	"fmt"
	"time"

	"ledgerline/events"
)

// Window is the part of a local day in which messages may leave: [Opens, Closes), in minutes since midnight.
type Window struct{ Opens, Closes int }

// platformWindow is 9 AM to 8 PM (interface section 1 rule 3).
var platformWindow = Window{9 * 60, 20 * 60}

// PlatformQuietHours is the span that no organisation's quiet hours may leave out.
func PlatformQuietHours() events.QuietHours {
	return events.QuietHours{Start: "20:00", End: "09:00"}
}

// WindowOf is the platform's window, narrowed by an organisation's own quiet hours. Quiet hours that are not set, or no
// span, change nothing.
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

// open tells whether the window is open at a moment in a zone.
func (w Window) open(at time.Time, zone *time.Location) bool {
	local := at.In(zone)
	minute := local.Hour()*60 + local.Minute()
	return w.Opens <= minute && minute < w.Closes
}

// opensNext is the next moment at which the window opens in a zone, where it is closed now.
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

// maxMoves bounds how often a moment is moved on before it is taken that there is none: windows of zones far apart, narrowed
// by quiet hours, may never be open together.
const maxMoves = 32

// quietHours is interface section 1 rule 3: a moment is allowed only if it is inside the window in every zone that the number may
// be in.
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
