package rules

import (
	"slices"
	"time"

	"ledgerline/domain/line"
	"ledgerline/events"
)

// LineCapacity is how much a line may still send (rules LIN-10 to LIN-13).
type LineCapacity struct {
	Line   line.Line
	Used   int            // messages sent on this usage day
	Sends  int            // messages that the line may still send on this usage day
	New    int            // of Sends, messages to contacts that are new to the line; also limited by the hour
	Texts  map[string]int // messages with the same text that the line may still send on this usage day, by hash of the text
	NextAt time.Time      // when New or Sends may grow
}

func (c *LineCapacity) fits(isNew bool, textHash string) bool {
	if c.Line.IsSandbox {
		return true // sandbox traffic uses no capacity
	}
	return c.Sends > 0 && (!isNew || c.New > 0) && (textHash == "" || c.Texts[textHash] > 0)
}

// Capacity is how much the lines of a workspace may still send. It is a plan for one run over the entries of the
// capacity queue: Reserve subtracts what the run has assigned. The append that routes a message checks whether the
// capacity really exists.
type Capacity struct {
	Paused bool // the organisation is paused: no line sends
	Lines  map[string]*LineCapacity
	Pools  map[string][]string // line ids by pool
	// MaySendFrom reports whether a service identity may use a line.
	MaySendFrom func(identityID, lineID string) bool
}

// LineFor returns the line for a message with these wants; fits is false when no line has capacity. It chooses as Check
// does for a single message: while the named line, or the contact's own line, can send, only that line is considered;
// otherwise the least used line of the pool.
func (c *Capacity) LineFor(w *events.WantedCapacity) (lineID string, fits bool) {
	if c.Paused {
		return "", false
	}
	if preferred := c.Lines[w.LineID]; preferred != nil {
		switch {
		case preferred.Line.CanSend() && c.allows(w, w.LineID):
			return w.LineID, preferred.fits(w.NewContact, w.TextHash)
		case preferred.Line.State == line.Retired && w.PoolID == "":
			return w.LineID, true // assign the message, so that it is evaluated: it fails, because its line will never send again
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

// Reserve subtracts from the plan what n messages with these wants use on a line. With n = -1 it releases the capacity
// of one message.
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

// NextAt is the earliest time at which the capacity of any of the lines may grow; the zero time without lines.
func (c *Capacity) NextAt() time.Time {
	var next time.Time
	for _, l := range c.Lines {
		if next.IsZero() || l.NextAt.Before(next) {
			next = l.NextAt
		}
	}
	return next
}

// CompetesForNew reports whether a message with these wants may use a line's capacity for new contacts. canSend states
// whether the message's preferred line (w.LineID) can send.
func CompetesForNew(w *events.WantedCapacity, lineID string, pool []string, canSend bool) bool {
	switch {
	case w.TextHash != "": // the message waits until its text is allowed again, not for new-contact capacity
		return false
	case w.LineID == lineID:
		return w.NewContact
	case w.LineID != "" && canSend:
		return false
	}
	return slices.Contains(pool, lineID) && !slices.Contains(w.KnownLineIDs, lineID)
}
