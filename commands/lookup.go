package commands

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/domain/line"
	"ledgerline/domain/message"
	"ledgerline/domain/number"
	"ledgerline/domain/phone"
)

// Prober asks the carrier of a line whether a number (E.164) is on the chat channel. It is what commands need of the
// carriers, which they do not know.
type Prober interface {
	Probe(ctx context.Context, through line.Line, phone string) (bool, error)
}

// Capability is what a carrier said, within the last 30 days, about a number being on the chat channel. Whoever is about
// to ask a carrier asks here first, and tells RecordCapability what the carrier then said; lookups, sends and the contacts
// share one memory. It answers from this process's memory, which may be a moment old; known is false when a carrier has
// to be asked.
func (a *App) Capability(ctx context.Context, organisation uuid.UUID, e164 string) (chat number.Chat, known bool, err error) {
	num, err := find(ctx, a.numbers, number.Stream(a.ledger.NumberHash(organisation, e164)), false)
	if err != nil {
		return number.Chat{}, false, err
	}
	chat, known = num.State.OnChat(a.ledger.Now())
	return chat, known, nil
}

// CapabilityAnswer is what a carrier said about a number.
type CapabilityAnswer struct {
	Phone     string // E.164
	Chat      bool
	LineID    string // through which it was asked
	MessageID string // that it was asked for, whose timeline tells it; "" when none
}

// RecordCapability remembers what a carrier said, for the request's organisation or, with a MessageID, for the message's.
// chat_capable of all its contacts with the number follows. To record it together with other events of a command, see
// unit.recordCapability.
func (a *App) RecordCapability(ctx context.Context, req Request, said CapabilityAnswer) (Result, error) {
	record := func(ctx context.Context, u *unit, m *aggregate[message.Message]) error {
		num, err := u.number(ctx, said.Phone)
		if err == nil {
			u.recordCapability(num, m, said.Chat, said.LineID)
		}
		return err
	}
	if said.MessageID == "" {
		return a.run(ctx, req, func(ctx context.Context, u *unit) error { return record(ctx, u, nil) })
	}
	var result Result
	err := a.onMessage(ctx, req, said.MessageID, &result, record)
	return result, err
}

// recordCapability records what a carrier said on the number and, unless it is nil, on the message's timeline.
func (u *unit) recordCapability(num numberState, m *aggregate[message.Message], chat bool, lineID string) {
	num.record(num.State.Check(chat, lineID, u.now)...)
	if m != nil {
		m.record(m.State.CheckedCapability(chat, u.now, lineID)...)
	}
}

// Lookup is what POST /v1/lookup asks (interface 4.5, decisions section 7).
type Lookup struct {
	Phone string // as it was typed
	// Lines gives, when a carrier has to be asked, the lines to ask through, in this order; those that cannot send now are
	// passed over.
	Lines func(context.Context) ([]string, error)
	// Answer renders the answer so that it commits with the receipt; nil without one.
	Answer func(LookedUp) ([]byte, error)
}

// LookedUp is what is known of a number.
type LookedUp struct {
	Result
	Phone string // E.164
	number.Chat
	Cached bool // known from before
}

// probes is how many lines are asked for one lookup before it is given up.
const probes = 3

// Lookup tells whether a number is on the chat channel: from memory, or by asking a carrier through one of the lines.
// Refusals: validation_failed (a test key looks up sandbox numbers only), conflict when no line can be asked,
// service_unavailable when none answers. The carrier is asked before anything is appended.
func (a *App) Lookup(ctx context.Context, req Request, in Lookup, prober Prober) (LookedUp, error) {
	e164, err := a.phone(in.Phone, "/phone")
	if err != nil {
		return LookedUp{}, err
	}
	if req.Test && !phone.IsSandbox(e164) {
		return LookedUp{}, fault.Invalid("/phone", "not_sandbox", "A test key looks up sandbox test numbers only.")
	}
	_, known, err := a.Capability(ctx, req.Organisation, e164)
	if err != nil {
		return LookedUp{}, err
	}
	var said *CapabilityAnswer
	if !known {
		if said, err = a.probe(ctx, req, in.Lines, e164, prober); err != nil {
			return LookedUp{}, err
		}
	}
	var found LookedUp
	result, err := a.run(ctx, req, func(ctx context.Context, u *unit) error {
		var err error
		if found, err = u.lookup(ctx, e164, said); err != nil || in.Answer == nil {
			return err
		}
		if u.body, err = in.Answer(found); err != nil {
			return fmt.Errorf("commands: render answer: %w", err)
		}
		return nil
	})
	found.Result = result
	return found, err
}

func (u *unit) lookup(ctx context.Context, e164 string, said *CapabilityAnswer) (LookedUp, error) {
	num, err := u.number(ctx, e164)
	if err != nil {
		return LookedUp{}, err
	}
	if said != nil {
		u.recordCapability(num, nil, said.Chat, said.LineID)
	}
	chat, known := num.State.OnChat(u.now)
	if !known { // it grew too old between the two looks
		return LookedUp{}, unavailable(errAgain)
	}
	if holder, found := num.State.Contact(u.req.Workspace); found {
		u.subject = holder // the answer that is kept for retries holds the number
	}
	return LookedUp{Phone: e164, Chat: chat, Cached: said == nil}, nil
}

// probe asks through one line after the other until a carrier tells.
func (a *App) probe(ctx context.Context, req Request, lines func(context.Context) ([]string, error), e164 string, prober Prober) (*CapabilityAnswer, error) {
	ids, err := lines(ctx)
	if err != nil {
		return nil, err
	}
	var last error
	asked := 0
	for _, id := range ids {
		l, err := find(ctx, a.lines, id, true)
		if err != nil {
			return nil, err
		}
		if l.State.Workspace != req.Workspace || l.State.IsSandbox != req.Test || !l.State.CanSend() {
			continue
		}
		chat, err := prober.Probe(ctx, l.State, e164)
		if err == nil {
			return &CapabilityAnswer{Phone: e164, Chat: chat, LineID: id}, nil
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
