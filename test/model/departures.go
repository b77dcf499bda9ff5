package model

import (
	"slices"
	"strings"

	"ledgerline/test/hostile"
)

// End is a request that was answered: an opt-out, an erasure, another number. From then on nothing may leave to the
// contact, or to the number that it had, until something else was asked for.
type End struct {
	What      string
	ContactID string
	To        string // "" for any number
	Automatic bool   // whether it also ends automatic texts
	Answered  int64  // number of the answer in the order of World.Tick
	Until     int64  // when something else was asked for; 0 for never
}

// Departures compares what the carrier really accepted with the ledger: each message once, as recorded, in order, and
// never after an End.
func (m *Model) Departures(left []hostile.Departure, ends []End) {
	m.at = nil
	first := map[string]int{}
	times := map[string]int{}
	before := map[string][]End{}
	for _, e := range ends {
		before[e.ContactID] = append(before[e.ContactID], e)
	}
	for i := range left {
		d := &left[i]
		msg := m.messages[d.MessageID]
		if msg == nil {
			m.wrong("the carrier got a message that nobody accepted", "%s", d)
			continue
		}
		if _, known := first[d.MessageID]; !known {
			first[d.MessageID] = i
		}
		if times[d.MessageID+d.Channel]++; times[d.MessageID+d.Channel] > 1 {
			m.wrong("a message leaves twice", "%s", d)
		}
		if msg.to != "" && (d.Body != msg.body || d.To != msg.to) || d.Automatic != (msg.automatic != "") || d.IsTest != msg.isTest {
			m.wrong("a message left with another content than was accepted", "%s", d)
		}
		m.checkAttempted(msg, d)
		for _, e := range before[msg.contact.id] {
			concerned := (e.To == "" || e.To == d.To) && (e.Automatic || msg.automatic == "")
			if concerned && d.CallOrder > e.Answered && (e.Until == 0 || d.CallOrder < e.Until) {
				m.wrong("a message leaves after an answered "+e.What, "%s, %s; the answer came at %d; %s", d, msg.automatic, e.Answered, strings.Join(msg.trace, ", "))
			}
		}
	}
	for _, msg := range m.messages {
		m.checkRecorded(msg, times)
	}
	for _, c := range m.contacts {
		m.checkOrder(c, first)
	}
	m.Counted["departures"] += len(left)
}

// checkAttempted compares a departure with the attempts of its message.
func (m *Model) checkAttempted(msg *message, d *hostile.Departure) {
	made := slices.ContainsFunc(msg.tries, func(t try) bool {
		return t.line == d.LineID && t.channel == d.Channel && !t.at.After(d.CalledAt)
	})
	if !made {
		m.wrong("a message left without an attempt", "%s", d)
	}
	at := slices.IndexFunc(msg.tries, func(t try) bool { return t.at.Equal(d.CalledAt) })
	if at < 0 {
		m.Counted["left after the clock had jumped"]++ // between the attempt and the call
		return
	}
	if msg.automatic == "" && !m.open(msg.tries[at].window, d.To, d.CalledAt) {
		m.wrong("a message leaves in quiet hours", "%s", d)
	}
	if carrierID := msg.carrierID[d.Channel]; carrierID != "" && carrierID != d.CarrierID {
		m.wrong("a wrong carrier id", "%s: %s", d, carrierID)
	}
}

// checkRecorded compares what the ledger records about a message with its departures.
func (m *Model) checkRecorded(msg *message, times map[string]int) {
	for channel := range msg.carrierID {
		if times[msg.id+channel] == 0 {
			m.wrong("recorded as sent, and never left", "%s on %s", msg.id, channel)
		}
	}
	for _, channel := range []string{"chat", "sms"} {
		if times[msg.id+channel] > 0 && msg.carrierID[channel] == "" && !msg.inFlight {
			m.wrong("left, and is not recorded as sent", "%s on %s is %s %s", msg.id, channel, msg.status, msg.code)
		}
	}
}

// checkOrder compares the departures of one contact with the order in which its messages were accepted.
func (m *Model) checkOrder(c *contact, first map[string]int) {
	departures := 0 // departures of messages that are not automatic
	for i, msg := range c.all {
		at, left := first[msg.id]
		if !left || msg.automatic != "" {
			continue
		}
		departures++
		for _, earlier := range c.all[:i] {
			if before, gone := first[earlier.id]; gone && before > at && earlier.automatic == "" && !msg.passed[earlier.id] {
				m.wrong("a message overtakes an earlier one", "%s left before %s", msg.id, earlier.id)
			}
		}
	}
	m.Counted["left to contacts"] += departures
}
