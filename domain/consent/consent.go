// Package consent defines the consent statuses, the evidence of a change (rules CON-11 to CON-18), and the keywords
// by which a contact opts out or in (rules CON-19 to CON-21).
package consent

import "ledgerline/events"

// Status is the consent of one contact (rule CON-11).
type Status string

// The consent statuses.
const (
	Unknown  Status = "unknown"
	OptedIn  Status = "opted_in"
	OptedOut Status = "opted_out"
)

// Valid reports whether s is one of the statuses.
func (s Status) Valid() bool { return s == Unknown || s == OptedIn || s == OptedOut }

// Evidence is what is known about the cause of a change of consent (rule CON-17). Time and actor are those of the
// event.
type Evidence struct {
	Source    *string
	Keyword   *string
	Text      string // verbatim text of the message
	MessageID *string
	LineID    *string
	Channel   *string
	IP        string
	UserAgent string
}

// NewEvent returns the event of a change of one contact's consent, also if the status stays (rule CON-16). register
// states that the change follows from the register of opt-outs, and not from a request about this contact.
func NewEvent(contactID, numberHash, phone string, from, to Status, ev Evidence, register bool) events.Event {
	e := events.ConsentEvidence{
		ContactID: contactID, NumberHash: numberHash, From: string(from), To: string(to),
		Source: ev.Source, Keyword: ev.Keyword, MessageID: ev.MessageID, LineID: ev.LineID, Channel: ev.Channel, Register: register,
		Evidence: events.ConsentPersonal{Phone: phone, Text: ev.Text, IP: ev.IP, UserAgent: ev.UserAgent},
	}
	switch to {
	case OptedIn:
		return &events.ContactOptedIn{ConsentEvidence: e}
	case OptedOut:
		return &events.ContactOptedOut{ConsentEvidence: e}
	default:
		return &events.ContactConsentCleared{ConsentEvidence: e}
	}
}
