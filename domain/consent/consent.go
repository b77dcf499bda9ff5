// Package consent holds what a contact's consent can be, how a change of it is evidenced, and which words change it
// (decisions section 6).
package consent

import "ledgerline/events"

// Status is the consent of one contact (interface 3.1).
type Status string

// The consent statuses.
const (
	Unknown  Status = "unknown"
	OptedIn  Status = "opted_in"
	OptedOut Status = "opted_out"
)

// Valid tells whether s is one of the statuses.
func (s Status) Valid() bool { return s == Unknown || s == OptedIn || s == OptedOut }

// Evidence is what is known about why consent changed. Who and when are those of the event.
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

// NewEvent is the event of one contact's consent going from one status to another, or being stated again. register
// tells that it followed from the organisation's register, not from a request about this contact.
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
