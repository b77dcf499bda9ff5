package model

import (
	"slices"

	"ledgerline/testkit/hostile"
)

// OptOut is a request that was answered: from then on nothing may leave to the number, until somebody asks for an opt-in.
type OptOut struct {
	ContactID string
	Answered  int64 // by the world's ticks
	Until     int64 // when the next opt-in was asked for; 0 for never
}

// Departures holds what truly left against the ledger: once, as it was told, in order, and never after an opt-out.
func (m *Model) Departures(left []hostile.Departure, outs []OptOut) {
	m.at = nil
	first := map[string]int{}
	times := map[string]int{}
	before := map[string][]OptOut{}
	for _, o := range outs {
		before[o.ContactID] = append(before[o.ContactID], o)
	}
	for i := range left {
		d := &left[i]
		msg := m.messages[d.MessageID]
		if msg == nil {
			m.wrong("something left that nobody accepted", "%s", d)
			continue
		}
		if _, known := first[d.MessageID]; !known {
			first[d.MessageID] = i
		}
		if times[d.MessageID+d.Channel]++; times[d.MessageID+d.Channel] > 1 {
			m.wrong("a message leaves twice", "%s", d)
		}
		if d.Body != msg.body || d.Automatic != (msg.automatic != "") || d.To != msg.contact.phone || d.IsTest != msg.isTest {
			m.wrong("something else left than was accepted", "%s", d)
		}
		m.asTold(msg, d)
		if msg.automatic != "" {
			continue
		}
		for _, o := range before[msg.contact.id] {
			if d.Called > o.Answered && (o.Until == 0 || d.Called < o.Until) {
				m.wrong("a message leaves after an answered opt-out", "%s; the answer came at %d", d, o.Answered)
			}
		}
	}
	for _, msg := range m.messages {
		m.asLeft(msg, times)
	}
	for _, c := range m.contacts {
		m.inOrder(c, first)
	}
	m.Counted["departures"] += len(left)
}

// asTold holds a departure against the attempts of its message.
func (m *Model) asTold(msg *message, d *hostile.Departure) {
	made := slices.ContainsFunc(msg.tries, func(t try) bool {
		return t.line == d.LineID && t.channel == d.Channel && !t.at.After(d.CalledAt)
	})
	if !made {
		m.wrong("something left without an attempt", "%s", d)
	}
	at := slices.ContainsFunc(msg.tries, func(t try) bool { return t.at.Equal(d.CalledAt) })
	if !at {
		m.Counted["left after the clock had jumped"]++ // between the attempt and the call
		return
	}
	if msg.automatic == "" && !m.open(m.organisations[msg.contact.workspace.organisation], d.To, d.CalledAt) {
		m.wrong("a message leaves in quiet hours", "%s", d)
	}
	if carrierID := msg.carrierID[d.Channel]; carrierID != "" && carrierID != d.CarrierID {
		m.wrong("another carrier id", "%s: %s", d, carrierID)
	}
}

// asLeft holds what is told of a message against what left.
func (m *Model) asLeft(msg *message, times map[string]int) {
	for channel := range msg.carrierID {
		if times[msg.id+channel] == 0 {
			m.wrong("told to be sent, and never left", "%s on %s", msg.id, channel)
		}
	}
	for _, channel := range []string{"chat", "sms"} {
		if times[msg.id+channel] > 0 && msg.carrierID[channel] == "" && !msg.underway {
			m.wrong("left, and is not told to be sent", "%s on %s is %s %s", msg.id, channel, msg.status, msg.code)
		}
	}
}

// inOrder holds the departures of one contact against the order in which its messages were accepted.
func (m *Model) inOrder(c *contact, first map[string]int) {
	free := 0 // that left before the first reply are counted where they are tried
	for i, msg := range c.all {
		at, left := first[msg.id]
		if !left || msg.automatic != "" {
			continue
		}
		free++
		for _, earlier := range c.all[:i] {
			if before, gone := first[earlier.id]; gone && before > at && earlier.automatic == "" && !msg.passed[earlier.id] {
				m.wrong("a message overtakes an earlier one", "%s left before %s", msg.id, earlier.id)
			}
		}
	}
	m.Counted["left to contacts"] += free
}
