package sending

import (
	"context"
	"time"

	"ledgerline/commands/engine"
	"ledgerline/domain/message"
	"ledgerline/events"
)

// AttemptResult is what came of an attempt. Exactly one of Sent, Failed, Retry and Lost is set.
type AttemptResult struct {
	// Chat is what the carrier said about the number being on the chat channel, when it was asked on the way.
	Chat   *bool
	Sent   *AcceptedByCarrier
	Failed *RejectedByCarrier
	Retry  string // why it failed for now; it is tried again after 30 s, 2 min and 10 min, then it fails with carrier_unreachable
	Lost   bool   // the carrier, asked after a crash, never got it: it may be tried again at once
}

// AcceptedByCarrier is an attempt that the carrier took.
type AcceptedByCarrier struct {
	CarrierID  string
	Channel    string // chat or sms; "" is the channel it was tried on
	Reconciled bool   // found out by asking the carrier later
}

// RejectedByCarrier is an attempt that the carrier refused for good.
type RejectedByCarrier struct {
	Code    string
	Details map[string]any
}

// CompleteAttempt tells the outcome of an attempt and gives the message as it is then. The outcome of an attempt that
// is not the one under way comes too late and changes nothing.
func (s *Sender) CompleteAttempt(ctx context.Context, req engine.Request, messageID string, attempt int, out AttemptResult) (message.Message, engine.Result, error) {
	return s.changeAfter(ctx, req, messageID, func(ctx context.Context, u *unit, m *engine.Aggregate[message.Message]) error {
		if out.Chat == nil || m.State.Content.To == "" {
			return nil
		}
		num, err := u.Number(ctx, m.State.Content.To)
		if err == nil {
			RecordCapabilityOn(u.Unit, num, m, *out.Chat, m.State.LineID)
		}
		return err
	}, func(m message.Message, now time.Time) []events.Event {
		switch {
		case out.Sent != nil:
			channel := out.Sent.Channel
			if channel == "" {
				channel = m.Channel
			}
			return m.RecordAttemptAccepted(attempt, channel, out.Sent.CarrierID, out.Sent.Reconciled)
		case out.Failed != nil:
			return m.RecordAttemptRejected(attempt, out.Failed.Code, out.Failed.Details)
		case out.Lost:
			return m.RecordAttemptLost(attempt, now)
		}
		return m.RecordAttemptFailed(attempt, out.Retry, now)
	})
}

// ReceiptKind is what a carrier's receipt tells.
type ReceiptKind string

// The kinds of receipts.
const (
	ReceiptDelivered ReceiptKind = "delivered"
	ReceiptRead      ReceiptKind = "read"
	ReceiptFailed    ReceiptKind = "failed"
)

// Receipt is a carrier's receipt for a message.
type Receipt struct {
	Kind      ReceiptKind
	At        time.Time // zero: now
	CarrierID string
	Code      string // with failed; default carrier_rejected
	Details   map[string]any
}

// RecordReceipt takes a receipt. Late and repeated ones change nothing.
func (s *Sender) RecordReceipt(ctx context.Context, req engine.Request, messageID string, r Receipt) (message.Message, engine.Result, error) {
	return s.change(ctx, req, messageID, func(m message.Message, now time.Time) []events.Event {
		// A carrier's clock, or a receipt that overtook its answer, may say that a message arrived before we knew it
		// sent; nobody should read it so.
		if r.At.Before(m.SentAt) {
			r.At = m.SentAt
		}
		if r.At.IsZero() || m.SentAt.IsZero() {
			r.At = now
		}
		switch r.Kind {
		case ReceiptDelivered:
			return m.RecordDelivered(r.At, r.CarrierID)
		case ReceiptRead:
			return m.RecordRead(r.At, r.CarrierID)
		case ReceiptFailed:
			if r.Code == "" {
				r.Code = message.CodeCarrierRejected
			}
			return m.RecordUndelivered(r.Code, r.Details, r.CarrierID)
		}
		return nil
	})
}

// ReceiptMissing tells that a message sent 24 h ago has had no receipt; earlier, or when it has one, nothing happens.
func (s *Sender) RecordReceiptMissing(ctx context.Context, req engine.Request, messageID string) (message.Message, engine.Result, error) {
	return s.change(ctx, req, messageID, func(m message.Message, now time.Time) []events.Event { return m.RecordReceiptMissing(now) })
}
