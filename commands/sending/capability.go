package sending

import (
	"context"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/message"
	"ledgerline/domain/number"
)

// Capability returns a carrier's answer, of the last 30 days, whether a number (E.164) is on the chat channel. known is
// false when there is none: the caller then asks a carrier and stores the answer with RecordCapability. Lookups,
// attempts and contacts share the stored answers. The result comes from the cache and may be slightly old.
func (s *Sender) Capability(
	ctx context.Context, organisation uuid.UUID, e164 string,
) (chat number.ChatCheck, known bool, err error) {
	num, err := s.engine.Numbers.Find(ctx, number.Stream(s.engine.Ledger.NumberHash(organisation, e164)), false)
	if err != nil {
		return number.ChatCheck{}, false, err
	}
	chat, known = num.ValidChatCheck(s.engine.Ledger.Now())
	return chat, known, nil
}

// CapabilityAnswer is a carrier's answer whether a number is on the chat channel.
type CapabilityAnswer struct {
	Phone     string // E.164
	Chat      bool
	LineID    string // the line through which the carrier was asked
	MessageID string // the message that it was asked for, whose timeline shows the answer; "" for none
}

// RecordCapability stores a carrier's answer in the request's organisation or, with a MessageID, in the message's. It
// changes chat_capable of all contacts of the organisation with the number.
func (s *Sender) RecordCapability(
	ctx context.Context, req engine.Request, answer CapabilityAnswer,
) (engine.Result, error) {
	record := func(ctx context.Context, u *unit, m *engine.Aggregate[message.Message]) error {
		num, err := u.Number(ctx, answer.Phone)
		if err == nil {
			RecordCapabilityOn(u.Unit, num, m, answer.Chat, answer.LineID)
		}
		return err
	}
	if answer.MessageID == "" {
		return s.run(ctx, req, func(ctx context.Context, u *unit) error { return record(ctx, u, nil) })
	}
	var result engine.Result
	err := s.onMessage(ctx, req, answer.MessageID, &result, record)
	return result, err
}

// RecordCapabilityOn records a carrier's answer on the number and, if m is not nil, on the message's timeline, as part
// of another command.
func RecordCapabilityOn(
	u *engine.Unit, num engine.Number, m *engine.Aggregate[message.Message], chat bool, lineID string,
) {
	num.Record(num.State.RecordChatCheck(chat, lineID, u.Now)...)
	if m != nil {
		m.Record(m.State.RecordCapability(chat, u.Now, lineID)...)
	}
}
