// Package rules decides whether a message may leave. The rules are pure functions of the facts about a message. They
// are applied when a message is accepted, and again before it is sent (rule SND-1).
package rules

import (
	"time"

	"ledgerline/domain/consent"
	"ledgerline/domain/fault"
	"ledgerline/domain/line"
	"ledgerline/domain/message"
)

// Moment is when the rules are applied.
type Moment int

// The moments.
const (
	Accepting Moment = iota // when a request is accepted; rules that only defer a message do not apply
	Leaving                 // before the message is sent, in the sending process
)

// Facts are the inputs of the rules: a verdict depends on nothing else.
type Facts struct {
	Moment         Moment
	Now            time.Time
	Consent        consent.Status
	Registered     bool      // the organisation's register of opt-outs has the number
	RequireConsent bool      // the organisation's setting
	Paused         bool      // the organisation is paused
	Automatic      bool      // the message answers a STOP or HELP message
	Confirmation   bool      // the message is the automatic text that confirms an opt-out
	ByStaff        bool      // a person wrote the message; the limit of identical texts does not apply
	ExpiresAt      time.Time // when the message fails if it is still deferred; zero when it is not deferred
	DeferredFor    string    // the reason of the last deferral

	Zones  []*time.Location // time zones that the number may lie in
	Window Window

	Replied             bool // the contact has written at least once
	MessagesBeforeReply int  // messages that were routed to the contact before its first reply
	Routed              bool // the message was routed before, so MessagesBeforeReply and IdentityUsed include it
	Body                string
	Media               int // number of attachments
	Limits              *line.Limits

	ContactID   string
	Candidates  []Candidate
	NamedLineID string // the line that the sender named; "" for none

	// How many messages the sending service identity may send on this usage day, and has sent. A nil limit means that
	// there is no limit, or that no service identity sends the message.
	IdentityLimit *int
	IdentityUsed  int
}

// Decision is what the rules decide.
type Decision int

// The decisions.
const (
	Send Decision = iota
	Defer
	Refuse
)

// Reasons of a deferral (rule SND-25).
const (
	ReasonQuietHours      = "quiet_hours"
	ReasonNewHour         = "line_new_contacts_hour"
	ReasonNewDay          = "line_new_contacts_day"
	ReasonSendsDay        = "line_sends_day"
	ReasonFirstMessage    = "first_message_rules"
	ReasonLineUnavailable = "line_unavailable"
	ReasonContactBusy     = message.ReasonContactBusy
	ReasonIdentity        = "identity_daily_limit"
)

// Verdict is a decision with its reason.
type Verdict struct {
	Decision Decision
	Code     string           // with Refuse: the error code that the message fails with, or the request is refused with
	Deferral message.Deferral // with Defer
	Detail   map[string]any
	Line     *Candidate // with Send at Leaving: the line that takes the message
}

func deferFor(reason string, until *time.Time, lineID string) *Verdict {
	return &Verdict{Decision: Defer, Deferral: message.Deferral{Reason: reason, Until: until, LineID: lineID}}
}

// ForLine reports whether the message is deferred until a line has capacity, or until any line can send.
func (v *Verdict) ForLine() bool {
	switch v.Deferral.Reason {
	case ReasonNewHour, ReasonNewDay, ReasonSendsDay, ReasonLineUnavailable:
		return v.Decision == Defer
	}
	return false
}

// MayBeOvertaken reports whether later messages to the same contact may leave before the message (rule SND-21).
func (v *Verdict) MayBeOvertaken() bool {
	return v.Decision == Defer && v.Deferral.Reason == ReasonFirstMessage
}

// Fault is the refusal of a request for this verdict; nil unless the decision is Refuse.
func (v Verdict) Fault() error {
	switch {
	case v.Decision != Refuse:
		return nil
	case v.Code == message.CodeConsentRequired:
		return fault.New(fault.ConsentRequired, "The contact has not opted in, and the organisation requires it.")
	default:
		return fault.New(fault.Code(v.Code), "The contact opted out.")
	}
}

type rule func(*Facts) *Verdict

// The rules in the order in which they are applied; the first verdict decides. Only consent can refuse a request.
var (
	atAccepting   = []rule{consentGiven}
	beforeLeaving = []rule{consentGiven, quietHours, firstMessage, identityLimit}
)

// Check applies the rules in their order, and then chooses the line.
func Check(f Facts) Verdict {
	if f.Moment == Accepting {
		return first(&f, atAccepting)
	}
	rules := beforeLeaving
	if f.Automatic {
		rules = atAccepting
	}
	v := first(&f, rules)
	if v.Decision == Send {
		v = lineFor(&f)
	}
	return Expire(&f, v)
}

// CheckSMS is Check for a message that goes by an SMS connection and needs no line (rule SMS-16). An automatic text is
// sent even while the organisation is paused.
func CheckSMS(f Facts) Verdict {
	rules := beforeLeaving
	if f.Automatic {
		rules = atAccepting
	}
	v := first(&f, rules)
	if v.Decision == Send && f.Paused && !f.Automatic {
		v = pausedOrganisation(&f)
	}
	return Expire(&f, v)
}

func pausedOrganisation(f *Facts) Verdict {
	v := deferFor(ReasonLineUnavailable, nil, f.NamedLineID)
	v.Detail = map[string]any{"rule": "organisation_paused"}
	return *v
}

func first(f *Facts, rules []rule) Verdict {
	for _, r := range rules {
		if v := r(f); v != nil {
			return *v
		}
	}
	return Verdict{Decision: Send}
}

// Expire refuses a message that has been deferred for too long (rule SND-26). The refusal names the reason of the last
// deferral, not the one that would defer the message now.
func Expire(f *Facts, v Verdict) Verdict {
	if v.Decision == Defer && !f.ExpiresAt.IsZero() && !f.Now.Before(f.ExpiresAt) {
		return Verdict{Decision: Refuse, Code: message.CodeHoldExpired, Detail: map[string]any{"reason": f.DeferredFor}}
	}
	return v
}

// consentGiven is rules SND-2 and SND-3. An opt-out holds if the contact or the register has it: a contact whose
// consent was cleared is refused while the register has its number. A contact that opted out gets only the confirmation
// of the opt-out. If the contact has opted in again before the confirmation is sent, the confirmation is canceled (rule
// SND-53). The answer to HELP needs no opt-in (rule SND-51).
func consentGiven(f *Facts) *Verdict {
	switch {
	case f.Confirmation && !f.Registered && f.Consent != consent.OptedOut:
		return &Verdict{Decision: Refuse, Code: message.CodeCanceled, Detail: map[string]any{"reason": "opted_in"}}
	case f.Confirmation:
		return nil
	case f.Registered || f.Consent == consent.OptedOut:
		return &Verdict{Decision: Refuse, Code: message.CodeOptedOut}
	case f.RequireConsent && !f.Automatic && f.Consent != consent.OptedIn:
		return &Verdict{Decision: Refuse, Code: message.CodeConsentRequired}
	}
	return nil
}

// identityLimit defers messages beyond the daily limit of a service identity (rule SND-24).
func identityLimit(f *Facts) *Verdict {
	if f.IdentityLimit == nil || f.Routed || f.IdentityUsed < *f.IdentityLimit {
		return nil
	}
	until := line.DayOf(f.Now).End
	return deferFor(ReasonIdentity, &until, "")
}

// lineFor chooses a line that has capacity, or defers the message until a line has capacity (rule SND-43). An automatic
// text needs a line that can send, but no capacity, and is sent even while the organisation is paused (rules SND-29 and
// SND-52).
func lineFor(f *Facts) Verdict {
	if f.Automatic {
		for i := range f.Candidates {
			if f.Candidates[i].Line.CanSend() {
				return Verdict{Decision: Send, Line: &f.Candidates[i]}
			}
		}
		return *deferFor(ReasonLineUnavailable, nil, f.NamedLineID)
	}
	if f.Paused {
		return pausedOrganisation(f)
	}
	c := choose(f)
	if c.line != nil {
		return Verdict{Decision: Send, Line: c.line}
	}
	v := Verdict{Decision: Defer, Deferral: c.deferral}
	if c.limitedByText {
		v.Detail = map[string]any{"rule": "identical_text_max_per_day"}
	}
	return v
}
