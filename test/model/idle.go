package model

import (
	"slices"
	"strings"
	"time"
)

// Idle checks every open message when no work is due: the reason of its deferral must be true. It returns the messages
// that could leave and do not. The assign task works through a long queue in steps of some seconds, so these messages
// are violations only if moving the clock by some seconds does not change the result.
func (m *Model) Idle(now time.Time) (stuck []string) {
	for _, c := range m.contacts {
		blocked := ""
		for _, msg := range c.open {
			why := m.waits(msg, now, blocked)
			if why != "" {
				stuck = append(stuck, msg.id+" to "+c.id+" is "+msg.status+", deferred for "+msg.reason()+": "+why+" "+strings.Join(msg.trace, ", "))
			}
			if blocked == "" && !msg.mayBeOvertaken() && msg.automatic == "" {
				blocked = msg.id
			}
		}
	}
	slices.Sort(stuck)
	return stuck
}

// waits returns why an open message should not be deferred; "" if it should.
func (m *Model) waits(msg *message, now time.Time, blocked string) string {
	switch {
	case msg.addresseeChanged():
		return "its contact is erased, or has another number"
	case msg.status == "scheduled":
		if !now.Before(msg.sendAt) {
			return "its send_at was " + msg.sendAt.String()
		}
		return ""
	case msg.inFlight:
		return "an attempt has no result"
	case now.Before(msg.nextAttempt):
		return ""
	case blocked != "" && msg.automatic == "" && msg.attempts > 0:
		return "" // a message that was attempted and waits behind another one is not deferred again
	case msg.automatic == "" && m.refused(msg.contact) == "contact_opted_out": // a message without an opt-in fails at its next evaluation
		return "it should have failed"
	case msg.deferral == nil:
		return "no deferral was recorded"
	case !now.Before(msg.deferredSince.Add(msg.patience())):
		return "it has expired"
	}
	return m.untrue(msg, msg.deferral, now, false)
}

// Ends reports accepted messages that are missing in the ledger, and returns how many messages are in each final state.
func (m *Model) Ends() map[string]int {
	ends := map[string]int{}
	for id := range m.Accepted {
		if m.messages[id] == nil {
			m.wrong("an accepted message that is lost", "%s", id)
		}
	}
	for id, msg := range m.messages {
		switch _, known := m.Accepted[id]; {
		case known || msg.automatic != "":
		case msg.contact.erased: // the node was killed before it answered, and the contact was erased before the retry
			m.Counted["erased before the request was answered"]++
		default:
			m.wrong("a message that nobody sent", "%s %s", id, strings.Join(msg.trace, ", "))
		}
		if msg.code == "canceled" && !msg.canceled && !msg.contact.erased {
			m.wrong("canceled for no reason", "%s", id)
		}
		ends[msg.status]++
		if msg.code != "" {
			ends[msg.status+" "+msg.code]++
		}
	}
	return ends
}

// Statuses compares the statuses in the read model with the ledger. A message of an erased contact has none.
func (m *Model) Statuses(seen map[string]string) {
	for id, msg := range m.messages {
		if status, known := seen[id]; known == msg.contact.erased || known && status != msg.status {
			m.wrong("a status that differs in the read model", "%s is %s, not %q; erased %v", id, msg.status, status, msg.contact.erased)
		}
	}
}

// Canceled checks a message whose cancellation was answered with success.
func (m *Model) Canceled(id string) {
	msg := m.messages[id]
	if msg == nil {
		return
	}
	msg.canceled = true
	if msg.status != "failed" || msg.attempts > 0 && msg.inFlight {
		m.wrong("a canceled message that is not failed", "%s is %s", id, msg.status)
	}
}

// Contact is the state of a contact that the read models must show.
type Contact struct {
	Consent    string
	Unread     int
	FirstReply time.Time // zero for none
}

// Contacts returns all contacts by id.
func (m *Model) Contacts() map[string]Contact {
	all := map[string]Contact{}
	for id, c := range m.contacts {
		if !c.erased {
			all[id] = Contact{c.consent, c.Unread, c.FirstReply}
		}
	}
	return all
}

// MissedReceipts checks that receipt_missing is recorded for every message without a receipt for 24 hours (rule
// SND-37).
func (m *Model) MissedReceipts(now time.Time) {
	for _, msg := range m.messages {
		if msg.status == "sent" && !msg.missed && !now.Before(msg.sentAt.Add(24*time.Hour)) && !msg.resend && !msg.inFlight {
			m.wrong("a missing receipt that is not recorded", "%s, sent at %s", msg.id, msg.sentAt)
		}
	}
}
