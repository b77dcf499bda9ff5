package rules

import (
	"cmp"
	"hash/fnv"
	"slices"
	"time"

	"ledgerline/domain/line"
	"ledgerline/domain/message"
)

// Usage is what a line has done, as far as it counts toward its limits.
type Usage struct {
	Sends     int         // on this usage day
	New       int         // contacts that were new to it on this usage day
	NewTimes  []time.Time // of those of the last 60 minutes, oldest first
	Identical int         // messages with this very text on this usage day
}

// Candidate is a line that may take the message.
type Candidate struct {
	Line  line.Line
	New   bool // the contact is new to it
	Taken bool // the message has its place on the line already: it is tried again
	Usage Usage
}

// Route is the line that takes the message; with none, Hold says what for and how long it waits.
type Route struct {
	Chosen *Candidate
	Hold   message.Deferral
	// Text tells that a candidate had room and was left out only because of the text.
	Text bool
}

// newContactHour is the rolling hour of the limits.
const newContactHour = time.Hour

// choose takes the least used of the candidates that have room (decisions section 8); among equals the one that the contact's id
// falls on, so that contacts spread evenly. When none has room, the message waits for the first that will.
func choose(f *Facts) Route {
	day := line.DayOf(f.Now)
	var best *Candidate
	r := Route{Hold: message.Deferral{Reason: ReasonLineUnavailable, LineID: f.NamedLineID}}
	waits := false
	for i := range f.Candidates {
		c := &f.Candidates[i]
		if !c.Line.CanSend() {
			continue
		}
		full, text := c.full(f, day)
		if full == nil {
			if best == nil || c.before(best, f.ContactID) {
				best = c
			}
			continue
		}
		if !waits || full.Until.Before(*r.Hold.Until) {
			waits, r.Hold, r.Text = true, *full, text
		}
	}
	r.Chosen = best
	return r
}

// full says what the line lacks room for and until when, the longest wait first; nil when it has room.
func (c *Candidate) full(f *Facts, day line.Day) (h *message.Deferral, text bool) {
	if c.Taken || c.Line.IsSandbox {
		return nil, false
	}
	caps := c.Line.Caps(f.Limits, day)
	until := func(reason string, at time.Time) *message.Deferral {
		return &message.Deferral{Reason: reason, Until: &at, LineID: c.Line.ID}
	}
	switch {
	case c.Usage.Sends >= caps.SendsPerDay:
		return until(ReasonSendsDay, day.End), false
	case c.New && c.Usage.New >= caps.NewPerDay:
		return until(ReasonNewDay, day.End), false
	case !f.ByHand && c.Usage.Identical >= caps.IdenticalPerDay:
		return until(ReasonSendsDay, day.End), true
	case c.New && len(c.Usage.NewTimes) >= caps.NewPerHour:
		free := day.End // a cap of zero opens at no known time: look again on the next day
		if i := len(c.Usage.NewTimes) - caps.NewPerHour; i < len(c.Usage.NewTimes) {
			free = c.Usage.NewTimes[i].Add(newContactHour)
		}
		return until(ReasonNewHour, free), false
	}
	return nil, false
}

func (c *Candidate) before(other *Candidate, contactID string) bool {
	if c.Taken != other.Taken {
		return c.Taken
	}
	if by := cmp.Compare(c.Usage.Sends, other.Usage.Sends); by != 0 {
		return by < 0
	}
	return weigh(c.Line.ID, contactID) > weigh(other.Line.ID, contactID)
}

// weigh is the weight of a line for a contact in rendezvous hashing.
func weigh(lineID, contactID string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(lineID + " " + contactID))
	sum := h.Sum64() // FNV leaves the high bits of similar inputs alike: mix them
	sum ^= sum >> 33
	sum *= 0xff51afd7ed558ccd
	return sum ^ sum>>33
}

// TextUsedUp tells that the text alone keeps the message from a candidate that has room today.
func TextUsedUp(f *Facts) bool {
	day := line.DayOf(f.Now)
	return slices.ContainsFunc(f.Candidates, func(c Candidate) bool {
		_, text := c.full(f, day)
		return text
	})
}

// NewToday is how many messages to new contacts the candidates to which the contact is new can still take on this usage day.
func NewToday(f *Facts) int {
	day := line.DayOf(f.Now)
	room := 0
	for i := range f.Candidates {
		if c := &f.Candidates[i]; c.New && !c.Taken && c.Line.CanSend() {
			caps := c.Line.Caps(f.Limits, day)
			room += max(min(caps.NewPerDay-c.Usage.New, caps.SendsPerDay-c.Usage.Sends), 0)
		}
	}
	return room
}
