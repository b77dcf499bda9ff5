package commands

import (
	"context"
	"time"

	"ledgerline/commands/engine"
	"ledgerline/commands/sending"
	"ledgerline/domain/fault"
	"ledgerline/domain/line"
	"ledgerline/domain/number"
	"ledgerline/domain/phone"
)

// Prober asks the carrier of a line whether a number (E.164) is on the chat channel. Package commands does not know the
// carriers.
type Prober interface {
	Probe(ctx context.Context, through line.Line, phone string) (bool, error)
}

// LookUpNumber is what a lookup asks for (rules SND-56 and SND-57).
type LookUpNumber struct {
	Phone string // as it was typed
	// Lines returns the ids of the lines to ask through, in this order, and is called only when a carrier has to be asked.
	// Lines that cannot send are skipped.
	Lines func(context.Context) ([]string, error)
	// Answer, when not nil, renders the answer so that it commits with the idempotency record.
	Answer func(NumberLookup) ([]byte, error)
}

// NumberLookup is the result of a lookup.
type NumberLookup struct {
	Result
	Phone string // E.164
	number.ChatCheck
	Cached bool // no carrier was asked
}

const (
	maxProbes       = 3 // lines that are asked for one lookup
	probeRetryAfter = 10 * time.Second
)

// LookUpNumber finds out whether a number is on the chat channel: from an earlier answer, or by asking a carrier
// through one of the lines. The carrier is asked before anything is appended. Refusals: validation_failed (a test key
// looks up sandbox numbers only), conflict when no line can be asked, service_unavailable when no carrier answers.
func (a *App) LookUpNumber(ctx context.Context, req Request, in LookUpNumber, prober Prober) (NumberLookup, error) {
	e164, err := a.engine.Phone(in.Phone, "/phone")
	if err != nil {
		return NumberLookup{}, err
	}
	if req.Test && !phone.IsSandbox(e164) {
		return NumberLookup{}, fault.Invalid("/phone", "not_sandbox", "A test key looks up sandbox test numbers only.")
	}
	_, known, err := a.Sending.Capability(ctx, req.Organisation, e164)
	if err != nil {
		return NumberLookup{}, err
	}
	var carrierAnswer *sending.CapabilityAnswer // nil: an earlier answer is used
	if !known {
		if carrierAnswer, err = a.probe(ctx, req, in.Lines, e164, prober); err != nil {
			return NumberLookup{}, err
		}
	}
	var found NumberLookup
	result, err := a.run(ctx, req, func(ctx context.Context, u *unit) error {
		var err error
		if found, err = u.lookUpNumber(ctx, e164, carrierAnswer); err != nil {
			return err
		}
		return renderAnswer(u, found, in.Answer)
	})
	found.Result = result
	return found, err
}

func (u *unit) lookUpNumber(ctx context.Context, e164 string, carrierAnswer *sending.CapabilityAnswer) (NumberLookup, error) {
	num, err := u.Number(ctx, e164)
	if err != nil {
		return NumberLookup{}, err
	}
	if carrierAnswer != nil {
		sending.RecordCapabilityOn(u.Unit, num, nil, carrierAnswer.Chat, carrierAnswer.LineID)
	}
	check, known := num.State.ValidChatCheck(u.Now)
	if !known { // the earlier answer expired after it was read
		return NumberLookup{}, engine.Unavailable(engine.ErrInconsistent)
	}
	if contactID, found := num.State.ContactIn(u.Request.Workspace); found {
		u.Subject = contactID // the stored answer shows the contact's number
	}
	return NumberLookup{Phone: e164, ChatCheck: check, Cached: carrierAnswer == nil}, nil
}

// probe asks through one line after the other until a carrier answers.
func (a *App) probe(ctx context.Context, req Request, lines func(context.Context) ([]string, error), e164 string, prober Prober) (*sending.CapabilityAnswer, error) {
	ids, err := lines(ctx)
	if err != nil {
		return nil, err
	}
	var lastErr error
	probes := 0
	for _, id := range ids {
		l, err := a.engine.Lines.Find(ctx, id, true)
		if err != nil {
			return nil, err
		}
		if l.Workspace != req.Workspace || l.IsSandbox != req.Test || !l.CanSend() {
			continue
		}
		chat, err := prober.Probe(ctx, l, e164)
		if err == nil {
			return &sending.CapabilityAnswer{Phone: e164, Chat: chat, LineID: id}, nil
		}
		lastErr = err
		if probes++; probes == maxProbes {
			break
		}
	}
	if lastErr == nil {
		return nil, fault.New(fault.Conflict, "No line of this workspace can look numbers up now.")
	}
	f := fault.New(fault.Unavailable, "The number cannot be looked up right now. Try again.")
	f.RetryAfter, f.Cause = probeRetryAfter, lastErr
	return nil, f
}
