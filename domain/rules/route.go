package rules

import (
	"cmp"
	"hash/fnv"
	"slices"
	"time"

	"ledgerline/domain/line"
	"ledgerline/domain/message"
)

// Usage is what a line has used of its limits.
type Usage struct {
	Sends     int         // messages of this usage day
	New       int         // of them, first messages to contacts that were new to the line
	NewTimes  []time.Time // of first messages of the last 60 minutes, oldest first
	Identical int         // messages with this text on this usage day
}

// Candidate is a line that may take the message.
type Candidate struct {
	Line     line.Line
	New      bool // the contact is new to the line
	Reserved bool // the message was routed to the line, and its capacity is reserved
	Usage    Usage
}

// choice is the line that takes the message, or the deferral until a line can.
type choice struct {
	line     *Candidate
	deferral message.Deferral
	// limitedByText says that the deferral is for the limit of identical texts.
	limitedByText bool
}

// newContactHour is the rolling hour of rule LIN-11.
const newContactHour = time.Hour

// choose takes the least used of the candidates with capacity (rule SND-41); the tie is broken by the contact's id,
// so that contacts spread evenly over the lines. Without capacity the message waits for the candidate whose capacity
// comes first.
func choose(f *Facts) choice {
	day := line.DayOf(f.Now)
	c := choice{deferral: message.Deferral{Reason: ReasonLineUnavailable, LineID: f.NamedLineID}}
	full := false
	for i := range f.Candidates {
		candidate := &f.Candidates[i]
		if !candidate.Line.CanSend() {
			continue
		}
		limit, byText := candidate.reachedLimit(f, day)
		if limit == nil {
			if c.line == nil || candidate.before(c.line, f.ContactID) {
				c.line = candidate
			}
			continue
		}
		if !full || limit.Until.Before(*c.deferral.Until) {
			full, c.deferral, c.limitedByText = true, *limit, byText
		}
	}
	return c
}

// reachedLimit returns the deferral for a limit that the line has reached; of several, that of the limit that ends
// last. It returns nil when the line has capacity. byText reports the limit of identical texts.
func (c *Candidate) reachedLimit(f *Facts, day line.Day) (d *message.Deferral, byText bool) {
	if c.Reserved || c.Line.IsSandbox {
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
	case !f.ByStaff && c.Usage.Identical >= caps.IdenticalPerDay:
		return until(ReasonSendsDay, day.End), true
	case c.New && len(c.Usage.NewTimes) >= caps.NewPerHour:
		free := day.End // a limit of zero ends at no known time: evaluate again on the next day
		if i := len(c.Usage.NewTimes) - caps.NewPerHour; i < len(c.Usage.NewTimes) {
			free = c.Usage.NewTimes[i].Add(newContactHour)
		}
		return until(ReasonNewHour, free), false
	}
	return nil, false
}

func (c *Candidate) before(other *Candidate, contactID string) bool {
	if c.Reserved != other.Reserved {
		return c.Reserved
	}
	if by := cmp.Compare(c.Usage.Sends, other.Usage.Sends); by != 0 {
		return by < 0
	}
	return weight(c.Line.ID, contactID) > weight(other.Line.ID, contactID)
}

// weight is the weight of a line for a contact in rendezvous hashing.
func weight(lineID, contactID string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(lineID + " " + contactID))
	sum := h.Sum64() // FNV leaves the high bits of similar inputs alike: mix them
	sum ^= sum >> 33
	sum *= 0xff51afd7ed558ccd
	return sum ^ sum>>33
}

// TextUsedUp reports whether the limit of identical texts alone keeps the message from a candidate.
func TextUsedUp(f *Facts) bool {
	day := line.DayOf(f.Now)
	return slices.ContainsFunc(f.Candidates, func(c Candidate) bool {
		_, byText := c.reachedLimit(f, day)
		return byText
	})
}

// NewContactCapacity returns how many messages to new contacts the candidates can still send on this usage day.
func NewContactCapacity(f *Facts) int {
	day := line.DayOf(f.Now)
	left := 0
	for i := range f.Candidates {
		if c := &f.Candidates[i]; c.New && !c.Reserved && c.Line.CanSend() {
			caps := c.Line.Caps(f.Limits, day)
			left += max(min(caps.NewPerDay-c.Usage.New, caps.SendsPerDay-c.Usage.Sends), 0)
		}
	}
	return left
}
