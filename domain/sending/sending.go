// Package sending is the one place where it is decided whether a message may leave: a row of pure rules, asked when a
// message is accepted and asked again when it is taken for sending (interface section 1).
//
// A new rule is one more function in the row: quiet hours, the capacity of a line, the first-message rules.
package sending

import (
	"time"

	"ledgerline/domain/consent"
	"ledgerline/domain/fault"
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
	Registered     bool // the organisation's register of opt-outs holds the number
	RequireConsent bool // the organisation's setting
	Automatic      bool // the answer to a word the contact just sent: exempt from consent
	LineFound      bool // a line can take it
	NamedLineID    string
	HoldEnds       time.Time // when a message that is held already fails; zero when it is not held
}

// Outcome is what the rules say.
type Outcome int

// The outcomes.
const (
	Go Outcome = iota
	Hold
	Refuse
)

// ReasonLineUnavailable holds a message that no line can take now.
const ReasonLineUnavailable = "line_unavailable"

// Verdict is an outcome with its reason.
type Verdict struct {
	Outcome Outcome
	Code    string // with Refuse: the error code, which is also the code of the refusal of a request
	Hold    message.Hold
	Detail  map[string]any
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
	beforeLeaving = []rule{consentGiven, lineAvailable}
)

// Check asks the rules in their order.
func Check(f Facts) Verdict {
	rules := beforeLeaving
	if f.Moment == Accepting {
		rules = atAccepting
	}
	for _, r := range rules {
		if v := r(&f); v != nil {
			return expire(&f, *v)
		}
	}
	return Verdict{Outcome: Go}
}

// expire refuses what has been held too long (decisions section 7).
func expire(f *Facts, v Verdict) Verdict {
	if v.Outcome == Hold && !f.HoldEnds.IsZero() && !f.Now.Before(f.HoldEnds) {
		return Verdict{Outcome: Refuse, Code: message.CodeHoldExpired, Detail: map[string]any{"reason": v.Hold.Reason}}
	}
	return v
}

// consentGiven is interface section 1 rules 1 and 2. The register counts as well as the contact: a contact whose
// consent was cleared is still refused while the register holds its number.
func consentGiven(f *Facts) *Verdict {
	switch {
	case f.Automatic:
		return nil
	case f.Registered || f.Consent == consent.OptedOut:
		return &Verdict{Outcome: Refuse, Code: message.CodeOptedOut}
	case f.RequireConsent && f.Consent != consent.OptedIn:
		return &Verdict{Outcome: Refuse, Code: message.CodeConsentRequired}
	}
	return nil
}

func lineAvailable(f *Facts) *Verdict {
	if f.LineFound {
		return nil
	}
	return &Verdict{Outcome: Hold, Hold: message.Hold{Reason: ReasonLineUnavailable, LineID: f.NamedLineID}}
}
