package commands

import (
	"context"
	"fmt"
	"time"

	"ledgerline/commands/engine"
	"ledgerline/commands/sending"
	"ledgerline/domain/fault"
	"ledgerline/domain/line"
	"ledgerline/domain/number"
	"ledgerline/domain/phone"
)

// Prober asks the carrier of a line whether a number (E.164) is on the chat channel. It is what commands need of the
// carriers, which they do not know.
type Prober interface {
	Probe(ctx context.Context, through line.Line, phone string) (bool, error)
}

// LookUpNumber is what POST /v1/lookup asks (interface 4.5, decisions section 7).
type LookUpNumber struct {
	Phone string // as it was typed
	// Lines gives, when a carrier has to be asked, the lines to ask through, in this order; those that cannot send now are
	// passed over.
	Lines func(context.Context) ([]string, error)
	// Answer renders the answer so that it commits with the receipt; nil without one.
	Answer func(NumberLookup) ([]byte, error)
}

// NumberLookup is what is known of a number.
type NumberLookup struct {
	Result
	Phone string // E.164
	number.ChatCheck
	Cached bool // known from before
}

// probes is how many lines are asked for one lookup before it is given up.
const probes = 3

// LookUpNumber tells whether a number is on the chat channel: from memory, or by asking a carrier through one of the lines.
// Refusals: validation_failed (a test key looks up sandbox numbers only), conflict when no line can be asked,
// service_unavailable when none answers. The carrier is asked before anything is appended.
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
	var said *sending.CapabilityAnswer
	if !known {
		if said, err = a.probe(ctx, req, in.Lines, e164, prober); err != nil {
			return NumberLookup{}, err
		}
	}
	var found NumberLookup
	result, err := a.run(ctx, req, func(ctx context.Context, u *unit) error {
		var err error
		if found, err = u.lookup(ctx, e164, said); err != nil || in.Answer == nil {
			return err
		}
		if u.Body, err = in.Answer(found); err != nil {
			return fmt.Errorf("commands: render answer: %w", err)
		}
		return nil
	})
	found.Result = result
	return found, err
}

func (u *unit) lookup(ctx context.Context, e164 string, said *sending.CapabilityAnswer) (NumberLookup, error) {
	num, err := u.Number(ctx, e164)
	if err != nil {
		return NumberLookup{}, err
	}
	if said != nil {
		sending.RecordCapabilityOn(u.Unit, num, nil, said.Chat, said.LineID)
	}
	chat, known := num.State.ValidChatCheck(u.Now)
	if !known { // it grew too old between the two looks
		return NumberLookup{}, engine.Unavailable(engine.ErrInconsistent)
	}
	if holder, found := num.State.ContactIn(u.Request.Workspace); found {
		u.Subject = holder // the answer that is kept for retries holds the number
	}
	return NumberLookup{Phone: e164, ChatCheck: chat, Cached: said == nil}, nil
}

// probe asks through one line after the other until a carrier tells.
func (a *App) probe(ctx context.Context, req Request, lines func(context.Context) ([]string, error), e164 string, prober Prober) (*sending.CapabilityAnswer, error) {
	ids, err := lines(ctx)
	if err != nil {
		return nil, err
	}
	var last error
	asked := 0
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
		last = err
		if asked++; asked == probes {
			break
		}
	}
	if last == nil {
		return nil, fault.New(fault.Conflict, "No line of this workspace can look numbers up now.")
	}
	f := fault.New(fault.Unavailable, "The number cannot be looked up right now. Try again.")
	f.RetryAfter, f.Cause = probeAgain, last
	return nil, f
}

// probeAgain is after what time a lookup that no carrier answered is worth repeating.
const probeAgain = 10 * time.Second
