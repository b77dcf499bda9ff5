// Package sending is the one place where it is decided whether a message may leave: a row of pure rules, asked when a
// message is accepted and asked again when it is taken for sending (interface section 1).
package rules

import (
	"time"

	"ledgerline/domain/consent"
	"ledgerline/domain/fault"
	"ledgerline/domain/line"
	"ledgerline/domain/message"
)

// Moment is when the rules are asked.
type Moment int

// The two moments.
const (
	Accepting Moment = iota // by the request; what only holds a message is not looked at
	Leaving                 // by the process that sends it
)

// Facts are all that the rules know.
type Facts struct {
	Moment         Moment
	Now            time.Time
	Consent        consent.Status
	Registered     bool      // the organisation's register of opt-outs holds the number
	RequireConsent bool      // the organisation's setting
	Paused         bool      // the organisation is: nothing leaves
	Automatic      bool      // the answer to a word the contact just sent: exempt from all but its opt-out and the line
	Confirmation   bool      // it confirms the contact's opt-out: exempt from that, too
	ByHand         bool      // a person wrote it: its text may be like others
	HoldEnds       time.Time // when a message that is held already fails; zero when it is not held
	HeldFor        string    // the reason for which it was held last

	Zones  []*time.Location // that the number may be in
	Window Window

	Replied bool // the contact has written, ever
	Earlier int  // messages that it had before its first reply
	Counted bool // this message is one of them: it is tried again
	Body    string
	Media   int
	Limits  *line.Limits

	ContactID   string
	Candidates  []Candidate
	NamedLineID string

	// With a service identity, how many messages it may send on this usage day and has sent.
	IdentityLimit *int
	IdentityUsed  int
}

// Outcome is what the rules say.
type Outcome int

// The outcomes.
const (
	Go Outcome = iota
	Hold
	Refuse
)

// Reasons of a hold (decisions section 7).
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

// Verdict is an outcome with its reason.
type Verdict struct {
	Outcome Outcome
	Code    string // with Refuse: the error code, which is also the code of the refusal of a request
	Hold    message.Deferral
	Detail  map[string]any
	Line    *Candidate // with Go at Leaving: who takes it
}

func hold(reason string, until *time.Time, lineID string) *Verdict {
	return &Verdict{Outcome: Hold, Hold: message.Deferral{Reason: reason, Until: until, LineID: lineID}}
}

// ForLine tells that the message waits for room on lines, or for a line at all: it stands in a queue with others.
func (v *Verdict) ForLine() bool {
	switch v.Hold.Reason {
	case ReasonNewHour, ReasonNewDay, ReasonSendsDay, ReasonLineUnavailable:
		return v.Outcome == Hold
	}
	return false
}

// StepsAside tells that the message lets later ones to the same contact pass (decisions section 7).
func (v *Verdict) StepsAside() bool {
	return v.Outcome == Hold && v.Hold.Reason == ReasonFirstMessage
}

// Fault is the refusal of a request for this verdict; nil unless the outcome is Refuse.
func (v Verdict) Fault() error {
	switch {
	case v.Outcome != Refuse:
		return nil
	case v.Code == message.CodeConsentRequired:
		return fault.New(fault.ConsentRequired, "The contact has not opted in, and the organisation requires it.")
	default:
		return fault.New(fault.Code(v.Code), "The contact opted out.")
	}
}

type rule func(*Facts) *Verdict

// atAccepting are the rules that refuse; beforeLeaving also those that hold. The first verdict counts.
var (
	atAccepting   = []rule{consentGiven}
	beforeLeaving = []rule{consentGiven, quietHours, firstMessage, identityLimit}
)

// Check asks the rules in their order, and last who can take the message.
func Check(f Facts) Verdict {
	if f.Moment == Accepting {
		return first(&f, atAccepting)
	}
	rules := beforeLeaving
	if f.Automatic {
		rules = atAccepting
	}
	v := first(&f, rules)
	if v.Outcome == Go {
		v = takenBy(&f)
	}
	return Expire(&f, v)
}

func first(f *Facts, rules []rule) Verdict {
	for _, r := range rules {
		if v := r(f); v != nil {
			return *v
		}
	}
	return Verdict{Outcome: Go}
}

// Expire refuses what has been held too long (decisions section 7). It names the reason for which it was held, not the one that
// would hold it now: at the moment at which it ends it may be night.
func Expire(f *Facts, v Verdict) Verdict {
	if v.Outcome == Hold && !f.HoldEnds.IsZero() && !f.Now.Before(f.HoldEnds) {
		return Verdict{Outcome: Refuse, Code: message.CodeHoldExpired, Detail: map[string]any{"reason": f.HeldFor}}
	}
	return v
}

// consentGiven is interface section 1 rules 1 and 2. The register counts as well as the contact: a contact whose
// consent was cleared is still refused while the register holds its number. Who opted out gets nothing but the confirmation of
// that, unless it has opted in again meanwhile; who asks for help gets it without having opted in.
func consentGiven(f *Facts) *Verdict {
	switch {
	case f.Confirmation && !f.Registered && f.Consent != consent.OptedOut:
		return &Verdict{Outcome: Refuse, Code: message.CodeCanceled, Detail: map[string]any{"reason": "opted_in"}}
	case f.Confirmation:
		return nil
	case f.Registered || f.Consent == consent.OptedOut:
		return &Verdict{Outcome: Refuse, Code: message.CodeOptedOut}
	case f.RequireConsent && !f.Automatic && f.Consent != consent.OptedIn:
		return &Verdict{Outcome: Refuse, Code: message.CodeConsentRequired}
	}
	return nil
}

// identityLimit holds what a service identity may not send any more today (administration 4.2).
func identityLimit(f *Facts) *Verdict {
	if f.IdentityLimit == nil || f.Counted || f.IdentityUsed < *f.IdentityLimit {
		return nil
	}
	until := line.DayOf(f.Now).End
	return hold(ReasonIdentity, &until, "")
}

// takenBy is interface section 1 rule 5: a message goes to a line that has room, or waits for one. Automatic texts are
// answers at once: they need a line in service and no room on it, and no pause keeps them.
func takenBy(f *Facts) Verdict {
	if f.Automatic {
		for i := range f.Candidates {
			if f.Candidates[i].Line.CanSend() {
				return Verdict{Outcome: Go, Line: &f.Candidates[i]}
			}
		}
		return *hold(ReasonLineUnavailable, nil, f.NamedLineID)
	}
	if f.Paused { // no line serves it
		v := hold(ReasonLineUnavailable, nil, f.NamedLineID)
		v.Detail = map[string]any{"rule": "organisation_paused"}
		return *v
	}
	r := choose(f)
	if r.Chosen != nil {
		return Verdict{Outcome: Go, Line: r.Chosen}
	}
	v := Verdict{Outcome: Hold, Hold: r.Hold}
	if r.Text {
		v.Detail = map[string]any{"rule": "identical_text_max_per_day"}
	}
	return v
}
