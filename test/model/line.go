package model

import (
	"slices"
	"strings"
	"time"

	"ledgerline/events"
	"ledgerline/eventstore"
)

type pool struct {
	rotation string
	lines    []string
}

type line struct {
	id         string
	workspace  *workspace
	sandbox    bool
	state      string
	pausedFrom string
	before     string // state before it was throttled
	warmingDay int    // usage day of the first send; 0 before
	day        int    // usage day of the counters below
	sends      int
	newToday   int
	texts      map[string]int
	newTimes   []time.Time
}

// takeLine applies an event of a line or pool; false for any other event.
func (m *Model) takeLine(r *eventstore.Recorded) bool {
	switch e := r.Event.(type) {
	case *events.PoolCreated:
		m.pools[e.PoolID] = &pool{rotation: e.Rotation}
	case *events.PoolUpdated:
		if slices.Contains(e.Changed, "rotation") {
			m.pools[e.PoolID].rotation = e.Rotation
			m.Counted["rotations changed"]++
		}
	case *events.PoolLineAdded:
		m.pools[e.PoolID].lines = append(m.pools[e.PoolID].lines, e.LineID)
	case *events.PoolLineRemoved:
		m.pools[e.PoolID].lines = slices.DeleteFunc(m.pools[e.PoolID].lines, func(id string) bool { return id == e.LineID })
		m.Counted["lines moved"]++
	case *events.LineProvisioned:
		l := &line{id: e.LineID, workspace: m.workspaces[r.WorkspaceID], sandbox: e.IsSandbox, state: e.State, texts: map[string]int{}}
		if e.State == "warming" {
			l.warmingDay = m.day(r.OccurredAt)
		}
		m.lines[e.LineID] = l
	case *events.LineStateChanged:
		m.moved(m.lines[e.LineID], e, r.OccurredAt)
	default:
		return false
	}
	return true
}

// moves are the moves of rule LIN-2; "" is any state.
var moves = map[string]string{
	"warming": "ready paused throttled", "active": "warming paused throttled", "throttled": "warming active paused", "paused": "warming active throttled",
	"ready": "provisioning paused quarantined", "quarantined": "", "retired": "",
}

func (m *Model) moved(l *line, e *events.LineStateChanged, at time.Time) {
	allowed, known := moves[e.To]
	if !known || l.state != e.From || allowed != "" && !slices.Contains(strings.Fields(allowed), e.From) {
		m.wrong("a move of a line that is none", "%s from %s (it is %s) to %s", l.id, e.From, l.state, e.To)
	}
	switch e.To {
	case "paused":
		l.pausedFrom = l.state
	case "throttled":
		if l.state != "paused" {
			l.before = l.state
		}
	case "ready":
		l.warmingDay = 0
	case "warming":
		if l.warmingDay == 0 {
			l.warmingDay = m.day(at)
		}
	}
	l.state = e.To
	m.Counted["line "+e.To]++
}

func (i *identity) roll(day int) {
	if i.day != day {
		i.day, i.sent = day, 0
	}
}

func (i *identity) full() bool { return i.limit != nil && int64(i.sent) >= *i.limit }

func (l *line) canSend() bool {
	return l.state == "ready" || l.state == "warming" || l.state == "active" || l.state == "throttled"
}

// caps returns the caps of a line on a usage day (rules LIN-10 and LIN-12).
func (l *line) caps(limits *events.SendingLimits, day int) (newHour, newDay, sends, text int) {
	newHour, newDay, sends, text = limits.NewContactsPerHour, limits.NewContactsPerDay, limits.SendsPerDay, limits.IdenticalTextMaxPerDay
	if l.state == "ready" || l.state == "warming" || l.state == "throttled" && l.before == "warming" {
		nth := 1
		if l.warmingDay > 0 {
			nth = day - l.warmingDay + 1
		}
		for _, step := range limits.WarmupCurve {
			if step.FromDay <= nth && (step.ToDay == nil || nth <= *step.ToDay) {
				newDay = min(newDay, step.NewPerDay)
			}
		}
	}
	if l.state == "throttled" {
		return newHour / 2, newDay / 2, sends / 2, max(text/2, 1)
	}
	return newHour, newDay, sends, text
}

// roll drops what no longer counts toward a limit.
func (m *Model) roll(l *line, at time.Time) {
	if day := m.day(at); day != l.day {
		l.day, l.sends, l.newToday, l.texts = day, 0, 0, map[string]int{}
	}
	l.newTimes = slices.DeleteFunc(l.newTimes, func(t time.Time) bool { return t.Before(at.Add(-24 * time.Hour)) })
}

// newInHour counts the contacts that were new in the hour before. The times are not sorted: of two messages that were
// decided before and after a jump of the clock, either may be appended first.
func (l *line) newInHour(at time.Time) (n int) {
	for _, t := range l.newTimes {
		if t.After(at.Add(-time.Hour)) {
			n++
		}
	}
	return n
}

// isNew reports whether a contact is new to a line (rule SND-45).
func (m *Model) isNew(c *contact, l *line, at time.Time) bool {
	last, known := c.via[l.id]
	return !known || m.day(at)-last >= m.limits(l).NewContactWindowDays
}

// windowChanged records for all waiting messages of an organisation that the window of new contacts has changed.
func (m *Model) windowChanged(o *organisation, days int) {
	for _, c := range m.contacts {
		for _, msg := range c.open {
			msg.windowChanged = msg.windowChanged || m.of(c) == o && days != o.limits.NewContactWindowDays
		}
	}
}

func (m *Model) limits(l *line) *events.SendingLimits {
	return &m.organisations[l.workspace.organisation].limits
}

// reachedLimits returns the deferral reasons of the limits that a line has reached for a message.
func (m *Model) reachedLimits(l *line, msg *message, at time.Time) (reasons []string) {
	if l.sandbox || msg.line == l.id { // its capacity is reserved already
		return nil
	}
	m.roll(l, at)
	newHour, newDay, sends, text := l.caps(m.limits(l), m.day(at))
	if l.sends >= sends {
		reasons = append(reasons, "line_sends_day")
	}
	if !msg.byStaff && l.texts[msg.text()] >= text {
		reasons = append(reasons, "line_sends_day")
	}
	if m.isNew(msg.contact, l, at) {
		if l.newToday >= newDay {
			reasons = append(reasons, "line_new_contacts_day")
		}
		if l.newInHour(at) >= newHour {
			reasons = append(reasons, "line_new_contacts_hour")
		}
	}
	return reasons
}

// allows reports whether the sender of a message may use a line (rule ACC-25).
func (m *Model) allows(msg *message, l *line) bool {
	i := m.identities[msg.identity]
	return i == nil || l == nil || len(i.lines) == 0 || slices.Contains(i.lines, l.id)
}

// candidates returns the lines that a message may use, in any state (rules SND-40 and SND-42).
func (m *Model) candidates(msg *message) []*line {
	return slices.DeleteFunc(m.first(msg), func(l *line) bool { return !m.allows(msg, l) })
}

// first returns the preferred lines of a message, also those that its sender may not use.
func (m *Model) first(msg *message) []*line {
	if l := m.lines[msg.line]; l != nil && l.canSend() {
		return []*line{l}
	}
	c := msg.contact
	switch {
	case msg.named != "":
		return []*line{m.lines[msg.named]}
	case msg.isTest:
		return []*line{m.lines[c.workspace.sandbox]}
	}
	p := m.pools[c.workspace.pool]
	if msg.pool != "" {
		p = m.pools[msg.pool]
	}
	if own := m.lines[c.line]; own != nil && own.canSend() && m.allows(msg, own) && p.rotation == "sticky" && (msg.pool == "" || slices.Contains(p.lines, own.id)) {
		return []*line{own}
	}
	found := make([]*line, len(p.lines))
	for i, id := range p.lines {
		found[i] = m.lines[id]
	}
	return found
}

// routed checks that a message was routed to a line that it may use and that had capacity.
func (m *Model) routed(msg *message, e *events.MessageRouted, at time.Time) {
	l, c := m.lines[e.LineID], msg.contact
	allowed := m.candidates(msg)
	if !slices.Contains(allowed, l) {
		m.wrong("a route to a line that the message may not use", "%s by %s; sticky %q, named %q, pool %q", msg.id, l.id, c.line, msg.named, msg.pool)
	}
	if !l.canSend() {
		m.wrong("a line that cannot send is used", "%s by %s, which is %s", msg.id, l.id, l.state)
	}
	if reached := m.reachedLimits(l, msg, at); len(reached) > 0 && msg.automatic == "" {
		newHour, newDay, sends, _ := l.caps(m.limits(l), m.day(at))
		m.wrong("a line exceeds a limit", "%s by %s (%s): %v; %d of %d sends, %d of %d new today, %d of %d in the hour", msg.id, l.id, l.state, reached,
			l.sends, sends, l.newToday, newDay, l.newInHour(at), newHour)
	}
	isNew := msg.automatic == "" && !l.sandbox && m.isNew(c, l, at)
	if isNew != e.NewContact {
		m.wrong("wrong new_contact of a route", "%s by %s: %v, not %v", msg.id, l.id, e.NewContact, isNew)
	}
	if i := m.identities[msg.identity]; i != nil && msg.line == "" {
		i.roll(m.day(at))
		if i.full() {
			m.wrong("an identity exceeds its daily limit", "%s by %s: %d of %d", msg.id, msg.identity, i.sent, *i.limit)
		}
		i.sent++
	}
	if broken := m.firstRules(msg); len(broken) > 0 && msg.automatic == "" {
		m.wrong("a message that breaks the first-message rules is sent", "%s to %s: %v", msg.id, msg.to, broken)
	}
	msg.line = l.id
	if msg.automatic == "" {
		c.via[l.id] = m.day(at)
		if !c.replied {
			c.before[msg.id] = true
		}
	}
	if l.sandbox {
		return
	}
	m.roll(l, at)
	l.sends++
	if msg.automatic == "" && !msg.byStaff {
		l.texts[msg.text()]++
	}
	if isNew {
		l.newToday++
		l.newTimes = append(l.newTimes, at)
	}
}
