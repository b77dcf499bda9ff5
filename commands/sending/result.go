package sending

import (
	"context"
	"time"

	"ledgerline/commands/engine"
	"ledgerline/domain/message"
	"ledgerline/events"
)

// AttemptResult is the result of an attempt. Exactly one of Sent, Failed, Retry and Lost is set.
type AttemptResult struct {
	// Chat says whether the number is on the chat channel, when the carrier was asked before the attempt.
	Chat   *bool
	Sent   *AcceptedByCarrier
	Failed *RejectedByCarrier
	Retry  string        // the reason of a transient failure: retried after 30 s, 2 min and 10 min (rule SND-33)
	Pause  time.Duration // with Retry: the pause that the carrier asks for; zero for none
	Lost   bool          // the carrier never got the message: it may be sent again at once
}

// AcceptedByCarrier is the result of an attempt that the carrier accepted.
type AcceptedByCarrier struct {
	CarrierID  string
	Channel    string // chat or sms; "" is the channel of the attempt
	From       string // the number that the SMS provider has chosen; "" if none
	Reconciled bool   // found out by a lookup at the carrier, after the result was unknown
}

// RejectedByCarrier is the result of an attempt that the carrier refused permanently.
type RejectedByCarrier struct {
	Code    string
	Details map[string]any
}

// CompleteAttempt records the result of an attempt, and returns the changed message. The result of an attempt that is
// not in flight is late and changes nothing (rule SND-35).
func (s *Sender) CompleteAttempt(
	ctx context.Context, req engine.Request, messageID string, attempt int, result AttemptResult,
) (message.Message, engine.Result, error) {
	return s.changeAfter(ctx, req, messageID, func(ctx context.Context, u *unit, m *engine.Aggregate[message.Message]) error {
		if result.Chat == nil || m.State.Content.To == "" {
			return nil
		}
		num, err := u.Number(ctx, m.State.Content.To)
		if err == nil {
			RecordCapabilityOn(u.Unit, num, m, *result.Chat, m.State.LineID)
		}
		return err
	}, func(m message.Message, now time.Time) []events.Event {
		switch {
		case result.Sent != nil:
			channel := result.Sent.Channel
			if channel == "" {
				channel = m.Channel
			}
			list := m.RecordAttemptAccepted(attempt, channel, result.Sent.CarrierID, result.Sent.Reconciled)
			if len(list) > 0 && result.Sent.From != "" {
				if sent, ok := list[0].(*events.MessageSent); ok {
					sent.From = result.Sent.From
				}
			}
			return list
		case result.Failed != nil:
			return m.RecordAttemptRejected(attempt, result.Failed.Code, result.Failed.Details)
		case result.Lost:
			return m.RecordAttemptLost(attempt, now)
		}
		return m.RecordAttemptPostponed(attempt, result.Retry, now, result.Pause)
	})
}

// ReceiptKind is the kind of a receipt.
type ReceiptKind string

// The kinds of receipts.
const (
	ReceiptDelivered ReceiptKind = "delivered"
	ReceiptRead      ReceiptKind = "read"
	ReceiptFailed    ReceiptKind = "failed"
)

// Receipt is a carrier's report on a message.
type Receipt struct {
	Kind      ReceiptKind
	At        time.Time // zero: now
	CarrierID string
	Code      string // with ReceiptFailed; default carrier_rejected
	Details   map[string]any
}

// RecordReceipt records a receipt. Late and repeated receipts change nothing.
func (s *Sender) RecordReceipt(
	ctx context.Context, req engine.Request, messageID string, r Receipt,
) (message.Message, engine.Result, error) {
	return s.change(ctx, req, messageID, func(m message.Message, now time.Time) []events.Event {
		// A receipt may have a time before SentAt, because the carrier's clock differs or because the receipt arrives before
		// the carrier's answer to the attempt. The timeline never shows a receipt before the sending.
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

// RecordReceiptMissing records that a message sent 24 hours ago has had no receipt. Earlier, or with a receipt, it
// changes nothing (rule SND-37).
func (s *Sender) RecordReceiptMissing(
	ctx context.Context, req engine.Request, messageID string,
) (message.Message, engine.Result, error) {
	return s.change(ctx, req, messageID, func(m message.Message, now time.Time) []events.Event { return m.RecordReceiptMissing(now) })
}
