package rules

import (
	"slices"
	"time"

	"ledgerline/domain/line"
	"ledgerline/events"
)

// LineCapacity is what a line can still take (rules LIN-10 to LIN-13).
type LineCapacity struct {
	Line   line.Line
	Used   int            // messages of this usage day
	Sends  int            // messages that it can take until the usage day ends
	New    int            // of those, messages to contacts that are new to the line, now
	Texts  map[string]int // messages with a text that it can take today, by the text's hash
	NextAt time.Time      // when New or Sends may grow
}

func (c *LineCapacity) fits(isNew bool, textHash string) bool {
	if c.Line.IsSandbox {
		return true // sandbox traffic uses no capacity
	}
	return c.Sends > 0 && (!isNew || c.New > 0) && (textHash == "" || c.Texts[textHash] > 0)
}

// Capacity is what the lines of a workspace can take. It is a plan for one pass over the messages that wait: Reserve
// counts what the pass has given away. The append that routes a message decides whether the capacity is really there.
type Capacity struct {
	Paused bool // the organisation is paused: no line takes anything
	Lines  map[string]*LineCapacity
	Pools  map[string][]string // line ids by pool
	// MaySendFrom reports whether a service identity may use a line.
	MaySendFrom func(identityID, lineID string) bool
}

// LineFor gives the line that takes a message with these wants; false when no line can. It follows the same order as
// the choice of a line for a single message: the named or own line alone while that can send, else the least used line
// of the pool.
func (c *Capacity) LineFor(w *events.WantedCapacity) (lineID string, fits bool) {
	if c.Paused {
		return "", false
	}
	if first := c.Lines[w.LineID]; first != nil {
		switch {
		case first.Line.CanSend() && c.allows(w, w.LineID):
			return w.LineID, first.fits(w.NewContact, w.TextHash)
		case first.Line.State == line.Retired && w.PoolID == "":
			return w.LineID, true // the message is evaluated, and fails: its line will never send again
		}
	}
	var best *LineCapacity
	for _, id := range c.Pools[w.PoolID] {
		l := c.Lines[id]
		if l == nil || !l.Line.CanSend() || l.Line.IsSandbox || !c.allows(w, id) {
			continue
		}
		if l.fits(!slices.Contains(w.KnownLineIDs, id), w.TextHash) && (best == nil || l.Used < best.Used) {
			best = l
		}
	}
	if best == nil {
		return "", false
	}
	return best.Line.ID, true
}

func (c *Capacity) allows(w *events.WantedCapacity, lineID string) bool {
	return w.IdentityID == "" || c.MaySendFrom(w.IdentityID, lineID)
}

// Reserve takes from the plan what a message with these wants uses on a line. With n = -1 it gives it back.
func (c *Capacity) Reserve(lineID string, w *events.WantedCapacity, n int) {
	l := c.Lines[lineID]
	if l == nil {
		return
	}
	l.Used, l.Sends = l.Used+n, l.Sends-n
	isNew := w.NewContact
	if lineID != w.LineID {
		isNew = !slices.Contains(w.KnownLineIDs, lineID)
	}
	if isNew {
		l.New -= n
	}
	if w.TextHash != "" {
		l.Texts[w.TextHash] -= n
	}
}

// NextAt is the earliest time at which any of the lines may be able to take more; the zero time without lines.
func (c *Capacity) NextAt() time.Time {
	var next time.Time
	for _, l := range c.Lines {
		if next.IsZero() || l.NextAt.Before(next) {
			next = l.NextAt
		}
	}
	return next
}

// CompetesForNew reports whether a message with these wants may use the capacity for new contacts of a line. canSend
// reports whether the line that comes first for the message can send.
func CompetesForNew(w *events.WantedCapacity, lineID string, pool []string, canSend bool) bool {
	switch {
	case w.TextHash != "": // it waits for another usage day, or for another line
		return false
	case w.LineID == lineID:
		return w.NewContact
	case w.LineID != "" && canSend:
		return false
	}
	return slices.Contains(pool, lineID) && !slices.Contains(w.KnownLineIDs, lineID)
}
