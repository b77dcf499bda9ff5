package model

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ledgerline/events"
)

// deferred checks that the reason, end and line of a deferral are true.
func (m *Model) deferred(msg *message, e *events.MessageDeferred, at time.Time) {
	if msg.status == "scheduled" || msg.inFlight || msg.status == "delivered" || msg.status == "read" || msg.status == "failed" {
		m.wrong("a deferral out of place", "%s is %s", msg.id, msg.status)
	}
	if why := m.untrue(msg, e, at, true); why != "" {
		m.wrong("a deferral for no reason", "%s for %s until %v, line %v, %v: %s", msg.id, e.Reason, e.Until, text(e.LineID), e.Detail, why)
	}
	msg.deferral, msg.windowChanged = e, false
	if msg.deferredSince.IsZero() {
		msg.deferredSince = at
	}
	m.Counted["deferred "+e.Reason]++
}

func text(s *string) string {
	if s == nil {
		return "none"
	}
	return *s
}

// untrue returns why the reason of a deferral does not hold at a moment; "" if it holds. until says whether to check
// the deferral's end too: only when it was just recorded, since an entry of the capacity queue gets no event whenever
// its end changes.
func (m *Model) untrue(msg *message, e *events.MessageDeferred, at time.Time, until bool) string {
	c := msg.contact
	o := m.of(c)
	switch e.Reason {
	case "quiet_hours":
		opens := m.opens(o.window, msg.to, at)
		switch {
		case m.open(o.window, msg.to, at):
			return "the contact may be written to now"
		case (e.Until == nil) != (opens == nil) || opens != nil && !e.Until.Equal(*opens):
			return fmt.Sprint("the window opens at ", opens)
		case e.LineID != nil:
			return "the deferral must name no line"
		}
	case "first_message_rules":
		broken := m.firstRules(msg)
		recorded, _ := e.Detail["rules"].([]any)
		switch {
		case len(broken) == 0:
			return "no rule is broken"
		case until && !same(broken, recorded):
			return "the rules are " + strings.Join(broken, ", ")
		case e.Until != nil || e.LineID != nil:
			return "the deferral must name no end and no line"
		}
	case "contact_busy":
		if !slices.ContainsFunc(c.open, func(other *message) bool {
			return other.order < msg.order && !other.mayBeOvertaken() && other.automatic == ""
		}) {
			if until && m.at.Position-c.ended < 1000 { // the earlier message was canceled while the deferral was written; the next task run evaluates it again
				m.Counted["deferred behind a message that was just canceled"]++
				return ""
			}
			return "no earlier message waits"
		}
	case "identity_daily_limit":
		i := m.identities[msg.identity]
		if i != nil {
			i.roll(m.day(at))
		}
		switch {
		case i == nil || !i.full() || msg.line != "":
			return "the identity may send more today"
		case e.Until == nil || !e.Until.Equal(m.dayEnds(at)) || e.LineID != nil:
			return "the deferral must end with the usage day and name no line"
		}
	case "line_unavailable":
		if o.paused {
			m.Counted["deferred while paused"]++
			return ""
		}
		if !until { // a message keeps this reason if its line can send again and is full
			return m.untrueCapacity(msg, e, at, false)
		}
		for _, l := range m.candidates(msg) {
			if l.canSend() && !l.sandbox || l.canSend() && msg.isTest {
				return l.id + " can send, it is " + l.state
			}
		}
		if text(e.LineID) != "none" && *e.LineID != msg.named || e.Until != nil {
			return "the deferral names an end, or a line that the request did not name"
		}
	case "line_new_contacts_hour", "line_new_contacts_day", "line_sends_day":
		return m.untrueCapacity(msg, e, at, until)
	default:
		return "there is no such reason"
	}
	return ""
}

// untrueCapacity returns why a message need not wait for the capacity of a line; "" if it must. just says that the
// deferral was just recorded.
func (m *Model) untrueCapacity(msg *message, e *events.MessageDeferred, at time.Time, just bool) string {
	queued := e.Detail["queued"] == true // there is capacity, and earlier entries may use it
	named := false
	if m.of(msg.contact).paused && !just {
		return ""
	}
	for _, l := range m.candidates(msg) {
		if !l.canSend() {
			continue
		}
		reached := m.reachedLimits(l, msg, at)
		if _, known := msg.contact.via[l.id]; known && len(reached) == 0 && !just && msg.windowChanged {
			m.Counted["waits as new by a window that was"]++ // until the assign task evaluates its entry
			return ""
		}
		if len(reached) == 0 && (!queued || !just) {
			newHour, newDay, sends, _ := l.caps(m.limits(l), m.day(at))
			return fmt.Sprintf("%s has capacity: %s, %d of %d sends, %d of %d new today, %d of %d in the hour, new to it %v; the contact's own line is %q, the message's %q, named %q, pool %q",
				l.id, l.state, l.sends, sends, l.newToday, newDay, l.newInHour(at), newHour, m.isNew(msg.contact, l, at), msg.contact.line, msg.line, msg.named, msg.pool)
		}
		if just && !queued && e.LineID != nil && *e.LineID == l.id {
			named = true
			if !slices.Contains(reached, e.Reason) {
				return l.id + " has reached " + strings.Join(reached, ", ")
			}
		}
	}
	switch {
	case !just:
	case e.LineID == nil:
		return "the deferral names no line"
	case queued:
	case !named:
		return *e.LineID + " is not a line that the message may wait for"
	case e.Until == nil || !e.Until.After(at):
		return "until is not in the future"
	case e.Reason == "line_new_contacts_hour" && e.Until.After(at.Add(time.Hour)) && !e.Until.Equal(m.dayEnds(at)):
		return "the hour ends earlier"
	case e.Reason != "line_new_contacts_hour" && !e.Until.Equal(m.dayEnds(at)):
		return "the day ends at " + m.dayEnds(at).UTC().String()
	}
	return ""
}

func same(one []string, other []any) bool {
	texts := make([]string, len(other))
	for i, o := range other {
		texts[i], _ = o.(string)
	}
	slices.Sort(texts)
	return slices.Equal(one, texts)
}
