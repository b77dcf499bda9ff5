package rules

import (
	"time"

	"ledgerline/domain/line"
)

// Outlook is what a forecast of many messages is computed from: the lines that may send them with their present use,
// and the people who get them.
type Outlook struct {
	Start    time.Time // when the first message may leave; the use of the lines is that of now, if Start is on the same usage day
	Until    time.Time // when the messages that have not left fail
	Window   Window
	Limits   *line.Limits
	Lines    []LineOutlook
	Audience []Audience
	// SameText says that everybody gets the same text, of which a line sends a limited number a day (rule SND-46).
	SameText bool
}

// LineOutlook is a line with its use on the usage day of Start.
type LineOutlook struct {
	Line     line.Line
	Sends    int         // messages
	New      int         // messages to new contacts
	NewTimes []time.Time // of those of the last hour, oldest first
}

// Audience is a number of people whose numbers lie in the same zones.
type Audience struct {
	Zones []*time.Location
	New   int // whom no line has written to
	Known int
}

// outlookStep is the precision of a forecast.
const outlookStep = 15 * time.Minute

// CompletesAt forecasts when the last message has left or failed: it plays the lines' limits, their warm-up and the
// quiet hours of the audience, and assumes that nothing else uses the lines. It is never later than Until.
func (o *Outlook) CompletesAt() time.Time {
	audience := append([]Audience(nil), o.Audience...)
	left := 0
	for _, a := range audience {
		left += a.New + a.Known
	}
	lines := make([]playedLine, 0, len(o.Lines))
	for i := range o.Lines {
		if o.Lines[i].Line.CanSend() {
			lines = append(lines, newPlayedLine(&o.Lines[i], o.Start))
		}
	}
	at := o.Start
	for ; left > 0 && at.Before(o.Until) && len(lines) > 0; at = at.Add(outlookStep) {
		day := line.DayOf(at)
		var open []*Audience
		for i := range audience {
			if audience[i].New+audience[i].Known > 0 && o.isOpen(&audience[i], at) {
				open = append(open, &audience[i])
			}
		}
		for i := range lines {
			if len(open) == 0 {
				break
			}
			left -= lines[i].play(o, open, at, day)
		}
		if left == 0 {
			return at
		}
	}
	if left == 0 {
		return o.Start
	}
	return o.Until
}

func (o *Outlook) isOpen(a *Audience, at time.Time) bool {
	for _, zone := range a.Zones {
		if !o.Window.open(at, zone) {
			return false
		}
	}
	return true
}

// playedLine is a line in a forecast.
type playedLine struct {
	state      line.Line
	day        string
	caps       line.Caps
	sends, new int
	texts      int
	recent     []time.Time // of messages to new contacts, oldest first
}

func newPlayedLine(l *LineOutlook, start time.Time) playedLine {
	p := playedLine{state: l.Line, sends: l.Sends, new: l.New, recent: append([]time.Time(nil), l.NewTimes...)}
	if p.state.State == line.Ready { // its warm-up begins with the first message
		p.state.State, p.state.WarmingSince = line.Warming, line.DayOf(start).Date
	}
	return p
}

// play sends what the line can send at a time to the people whose window is open, and returns how much that is.
func (p *playedLine) play(o *Outlook, open []*Audience, at time.Time, day line.Day) (sent int) {
	if p.day != day.Date {
		if p.day != "" {
			p.sends, p.new = 0, 0
		}
		p.day, p.caps, p.texts = day.Date, p.state.Caps(o.Limits, day), 0
	}
	for len(p.recent) > 0 && !p.recent[0].After(at.Add(-time.Hour)) {
		p.recent = p.recent[1:]
	}
	for _, a := range open {
		room := max(p.caps.SendsPerDay-p.sends, 0)
		if o.SameText {
			room = min(room, max(p.caps.IdenticalPerDay-p.texts, 0))
		}
		fresh := min(a.New, room, max(p.caps.NewPerDay-p.new, 0), max(p.caps.NewPerHour-len(p.recent), 0))
		known := min(a.Known, room-fresh)
		a.New, a.Known = a.New-fresh, a.Known-known
		p.sends, p.new, p.texts, sent = p.sends+fresh+known, p.new+fresh, p.texts+fresh+known, sent+fresh+known
		for range min(fresh, p.caps.NewPerHour) {
			p.recent = append(p.recent, at)
		}
	}
	return sent
}
