package message_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/fault"
	"ledgerline/domain/message"
	"ledgerline/events"
)

var (
	noon  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ref   = events.MessageRef{MessageID: "msg_1", ConversationID: "cnv_1", ContactID: "ctc_1"}
	later = noon.Add(time.Hour)

	queued    = &events.MessageQueued{MessageRef: ref, Channel: "chat"}
	scheduled = &events.MessageScheduled{MessageRef: ref, Until: later}
	due       = &events.MessageDue{MessageRef: ref}
	routed    = &events.MessageRouted{MessageRef: ref, LineID: "ln_1", From: "+1"}
	sending   = attempt(1)
	sent      = &events.MessageSent{MessageRef: ref, LineID: "ln_1", Channel: "chat", CarrierID: "c"}
	delivered = &events.MessageDelivered{MessageRef: ref, At: noon}
	read      = &events.MessageRead{MessageRef: ref, At: noon}
	failed    = &events.MessageFailed{MessageRef: ref, Code: "carrier_rejected", LineID: line("ln_1")}
	refused   = &events.MessageFailed{
		MessageRef: ref, Code: "carrier_rejected", LineID: line("ln_1"), Details: map[string]any{"channel": "chat", "attempts": 1},
	}
	rejected = &events.MessageRejected{MessageRef: ref, Attempt: 1, Code: "carrier_rejected", LineID: "ln_1", Channel: "chat"}
	missing  = &events.MessageReceiptMissing{MessageRef: ref}
)

func line(id string) *string { return &id }

func attempt(n int) *events.MessageSending {
	return &events.MessageSending{MessageRef: ref, Attempt: n, LineID: "ln_1", Channel: "chat"}
}

func retried(n int, until time.Time) *events.MessageRetried {
	return &events.MessageRetried{MessageRef: ref, Attempt: n, Reason: "timeout", Until: until}
}

func given(list ...events.Event) (m message.Message) {
	for _, e := range list {
		m = m.Apply(e, events.Envelope{Organisation: uuid.New(), Workspace: uuid.New(), At: noon})
	}
	return m
}

func then(t *testing.T, got []events.Event, want ...events.Event) {
	t.Helper()
	if len(want) == 0 {
		require.Empty(t, got)
		return
	}
	require.Equal(t, want, got)
}

func TestAcceptedMessageIsScheduledOnlyForTheFuture(t *testing.T) {
	t.Parallel()
	then(t, message.Accept(&events.MessageQueued{MessageRef: ref, Channel: "chat"}, noon), queued)
	then(t, message.Accept(&events.MessageQueued{MessageRef: ref, Channel: "chat", SendAt: &noon}, noon), queued)
	ahead := &events.MessageQueued{MessageRef: ref, Channel: "chat", SendAt: &later}
	then(t, message.Accept(ahead, noon), ahead, scheduled)
}

func TestScheduledMessageIsQueuedWhenItIsDue(t *testing.T) {
	t.Parallel()
	m := given(queued, scheduled)
	require.Equal(t, message.Scheduled, m.Status)
	then(t, m.BecomeDue(later.Add(-1)))
	then(t, m.BecomeDue(later), due)
	require.Equal(t, message.Queued, m.Apply(due, events.Envelope{}).Status)
	then(t, given(queued).BecomeDue(later))
	_, err := m.BeginAttempt("ln_1", "chat", later)
	require.True(t, fault.Is(err, fault.Conflict))
}

func TestRoutingToTheSameLineRecordsNoEvent(t *testing.T) {
	t.Parallel()
	then(t, given(queued).Route("ln_1", "+1", false), routed)
	then(t, given(queued, routed).Route("ln_1", "+1", false))
	then(t, given(queued, routed).Route("ln_2", "+2", false), &events.MessageRouted{MessageRef: ref, LineID: "ln_2", From: "+2"})
}

func TestOneAttemptIsInFlightAtATime(t *testing.T) {
	t.Parallel()
	begun, err := given(queued, routed).BeginAttempt("ln_1", "chat", noon)
	require.NoError(t, err)
	then(t, begun, sending)
	for name, m := range map[string]message.Message{
		"in flight": given(queued, routed, sending), "sent": given(queued, routed, sending, sent), "failed": given(queued, failed),
		"too early": given(queued, routed, sending, retried(1, later)), "absent": {}, "inbound": given(&events.MessageReceived{MessageRef: ref}),
	} {
		_, err := m.BeginAttempt("ln_1", "chat", noon)
		require.True(t, fault.Is(err, fault.Conflict), name)
	}
	begun, err = given(queued, routed, sending, retried(1, later)).BeginAttempt("ln_1", "chat", later)
	require.NoError(t, err)
	then(t, begun, attempt(2))
}

func TestResultIsRecordedOnceAndOnlyForTheAttemptInFlight(t *testing.T) {
	t.Parallel()
	m := given(queued, routed, sending)
	then(t, m.RecordAttemptAccepted(1, "chat", "c", false), sent)
	then(t, m.RecordAttemptAccepted(2, "chat", "c", false))
	then(t, given(queued, routed, sending, sent).RecordAttemptAccepted(1, "chat", "c", false))
	then(t, m.RecordAttemptRejected(1, "carrier_rejected", nil), rejected, refused)
	then(t, m.RecordAttemptRejected(2, "carrier_rejected", nil))
	then(t, m.RecordAttemptLost(1, noon), &events.MessageRetried{MessageRef: ref, Attempt: 1, Reason: message.ReasonLost, Until: noon})
	then(t, m.RecordAttemptLost(2, noon))
	then(t, m.RecordAttemptFailed(2, "timeout", noon))
}

func TestRetriesComeAfter30Seconds2MinutesAnd10MinutesThenTheMessageFails(t *testing.T) {
	t.Parallel()
	m := given(queued, routed, sending)
	for i, wait := range []time.Duration{30 * time.Second, 2 * time.Minute, 10 * time.Minute} {
		got := m.RecordAttemptFailed(i+1, "timeout", noon)
		then(t, got, retried(i+1, noon.Add(wait)))
		m = m.Apply(got[0], events.Envelope{}).Apply(attempt(i+2), events.Envelope{})
	}
	then(t, m.RecordAttemptFailed(4, "timeout", noon), &events.MessageFailed{
		MessageRef: ref, Code: message.CodeCarrierUnreachable, LineID: line("ln_1"), Details: map[string]any{"reason": "timeout", "attempts": 4},
	})
}

func TestReceiptsNeverMoveTheStatusBack(t *testing.T) {
	t.Parallel()
	atSent := []events.Event{queued, routed, sending, sent}
	then(t, given(atSent...).RecordDelivered(noon, "c"), delivered)
	then(t, given(atSent...).RecordRead(noon, "c"), read)
	then(t, given(append(atSent, delivered)...).RecordRead(noon, "c"), read)
	for name, m := range map[string]message.Message{
		"delivered": given(append(atSent, delivered)...), "read": given(append(atSent, read)...),
		"failed": given(append(atSent, failed)...), "never tried": given(queued), "scheduled": given(queued, scheduled), "absent": {},
	} {
		require.Empty(t, m.RecordDelivered(noon, "c"), name)
	}
	then(t, given(append(atSent, delivered, read)...).RecordRead(noon, "c"))
}

func TestReceiptBeforeTheCarriersAnswerRecordsTheMessageAsSent(t *testing.T) {
	t.Parallel()
	then(t, given(queued, routed, sending).RecordDelivered(noon, "c"), sent, delivered)
	then(t, given(queued, routed, sending).RecordRead(noon, "c"), sent, read)
	then(t, given(queued, routed, sending).RecordUndelivered("carrier_rejected", nil, "c"), sent, refused)
	then(t, given(queued, routed, sending, sent).RecordUndelivered("carrier_rejected", nil, "c"), refused)
	then(t, given(queued, routed).RecordUndelivered("carrier_rejected", nil, "c"))
	then(t, given(queued, routed, sending, sent, delivered).RecordUndelivered("carrier_rejected", nil, "c"))
}

func TestOnlyAQueuedOrScheduledMessageIsCanceledByRequest(t *testing.T) {
	t.Parallel()
	fellBack := &events.MessageFellBack{MessageRef: ref, Reason: "carrier_rejected"}
	for _, m := range []message.Message{
		given(queued, routed, sending), given(queued, routed, sending, sent), given(queued, failed),
		given(queued, routed, sending, retried(1, later)), given(queued, routed, sending, fellBack), given(queued, routed, sending, sent, fellBack),
	} {
		_, err := m.CancelByRequest()
		require.True(t, fault.Is(err, fault.Conflict), err)
	}
	canceled, err := given(queued).CancelByRequest()
	require.NoError(t, err)
	require.Len(t, canceled, 1)
	_, err = given(append([]events.Event{queued}, canceled...)...).CancelByRequest()
	require.True(t, fault.Is(err, fault.Conflict), "a canceled message cannot be canceled again")
}

func TestMessageFailsInAnyStateBeforeDelivered(t *testing.T) {
	t.Parallel()
	bare := &events.MessageFailed{MessageRef: ref, Code: "carrier_rejected"}
	then(t, given(queued).Fail("carrier_rejected", nil), bare)
	then(t, given(queued, scheduled).Fail("carrier_rejected", nil), bare)
	then(t, given(queued, routed, sending).Fail("carrier_rejected", nil), failed)
	then(t, given(queued, routed, sending, sent).Fail("carrier_rejected", nil), failed)
	then(t, given(queued, routed, sending, sent, delivered).Fail("carrier_rejected", nil))
	then(t, given(queued, routed, sending, sent, read).Fail("carrier_rejected", nil))
	then(t, given(queued, failed).Fail("carrier_rejected", nil))
	then(t, given(&events.MessageReceived{MessageRef: ref}).Fail("carrier_rejected", nil))
}

func TestARefusedAttemptIsRecordedAsRejectedBeforeTheMessageFails(t *testing.T) {
	t.Parallel()
	list := given(queued, routed, attempt(1), retried(1, later), attempt(2)).RecordAttemptRejected(2, message.CodeNotOnChat, map[string]any{"reason": "x"})
	then(t, list, &events.MessageRejected{MessageRef: ref, Attempt: 2, Code: message.CodeNotOnChat, LineID: "ln_1", Channel: "chat"},
		&events.MessageFailed{
			MessageRef: ref, Code: message.CodeNotOnChat, LineID: line("ln_1"), Details: map[string]any{"channel": "chat", "attempts": 2, "reason": "x"},
		})
	require.False(t, given(queued, routed, sending, rejected).InFlight)
}

func TestOnlyAMessageThatNoCarrierCanHaveIsCanceled(t *testing.T) {
	t.Parallel()
	canceled := &events.MessageFailed{MessageRef: ref, Code: message.CodeOptedOut}
	then(t, given(queued).Cancel(message.CodeOptedOut, nil), canceled)
	then(t, given(queued, scheduled).Cancel(message.CodeOptedOut, nil), canceled)
	withLine := *canceled
	withLine.LineID = line("ln_1")
	then(t, given(queued, routed, sending, retried(1, later)).Cancel(message.CodeOptedOut, nil), &withLine)
	then(t, given(queued, routed, sending).Cancel(message.CodeOptedOut, nil))
	then(t, given(queued, routed, sending, sent).Cancel(message.CodeOptedOut, nil))
}

func TestMissingReceiptIsRecordedOnceAfter24Hours(t *testing.T) {
	t.Parallel()
	m := given(queued, routed, sending, sent)
	day := noon.Add(message.ReceiptTimeout)
	then(t, m.RecordReceiptMissing(day.Add(-1)))
	then(t, m.RecordReceiptMissing(day), missing)
	then(t, given(queued, routed, sending, sent, missing).RecordReceiptMissing(day))
	then(t, given(queued, routed, sending, sent, delivered).RecordReceiptMissing(day))
	then(t, given(queued, routed, sending, sent, missing).RecordDelivered(noon, "c"), delivered)
}

func TestSameDeferralIsRecordedOnceAndLastsSevenDays(t *testing.T) {
	t.Parallel()
	m := given(queued)
	require.True(t, m.DeferralExpiresAt().IsZero())
	hold := message.Deferral{Reason: "quiet_hours", Until: &later, LineID: "ln_1"}
	deferred := m.Defer(hold, nil)
	then(t, deferred, &events.MessageDeferred{MessageRef: ref, Reason: "quiet_hours", Until: &later, LineID: line("ln_1")})
	m = m.Apply(deferred[0], events.Envelope{At: noon})
	same := later
	then(t, m.Defer(message.Deferral{Reason: "quiet_hours", Until: &same, LineID: "ln_1"}, nil))
	require.Len(t, m.Defer(message.Deferral{Reason: "line_unavailable"}, nil), 1)
	m = m.Apply(&events.MessageDeferred{MessageRef: ref, Reason: "line_unavailable"}, events.Envelope{At: later})
	require.Equal(t, noon.Add(7*24*time.Hour), m.DeferralExpiresAt(), "another reason does not restart the seven days")
	require.Equal(t, message.Queued, m.Status)
}

func TestAutomaticTextIsDeferredForAtMostAnHour(t *testing.T) {
	t.Parallel()
	m := given(&events.MessageQueued{MessageRef: ref, Automatic: message.Help}).Apply(&events.MessageDeferred{MessageRef: ref, Reason: "line_unavailable"}, events.Envelope{At: noon})
	require.Equal(t, noon.Add(time.Hour), m.DeferralExpiresAt())
}

func TestReceiptOfTheChatMessageDoesNotChangeTheSMS(t *testing.T) {
	t.Parallel()
	fellBack := &events.MessageFellBack{MessageRef: ref, Reason: "carrier_rejected"}
	bySMS := &events.MessageSending{MessageRef: ref, Attempt: 2, LineID: "ln_1", Channel: "sms", AfterSent: true}
	m := given(queued, routed, sending, sent, fellBack, bySMS)
	then(t, m.RecordUndelivered("carrier_rejected", nil, "c"))
	then(t, m.RecordDelivered(noon, "c"), delivered)
	require.Len(t, m.RecordUndelivered("carrier_rejected", nil, "s"), 2, "MessageSent and MessageFailed")
	require.Len(t, m.RecordDelivered(noon, "s"), 2)
}

func TestFallbackSMSIsRetriedLikeAnyOtherMessage(t *testing.T) {
	t.Parallel()
	sent := &events.MessageSent{MessageRef: ref, LineID: "ln_1", Channel: message.Chat}
	again := attempt(2)
	again.Channel, again.AfterSent = message.SMS, true
	m := given(queued, routed, attempt(1), sent, &events.MessageFellBack{MessageRef: ref, Reason: message.CodeCarrierRejected})
	require.Empty(t, m.RecordReceiptMissing(later.Add(48*time.Hour)), "its SMS has not been sent")
	m = m.Apply(again, events.Envelope{}).Apply(retried(2, later), events.Envelope{})
	require.False(t, m.Final())
	begun, err := m.BeginAttempt("ln_1", message.SMS, later)
	require.NoError(t, err)
	require.Len(t, begun, 1)
}

func TestMessageDeferredForSevenDaysBehindAnotherOneFails(t *testing.T) {
	t.Parallel()
	m := given(queued)
	deferred := m.DeferBehindEarlier(noon)
	require.Len(t, deferred, 1)
	m = m.Apply(deferred[0], events.Envelope{At: noon})
	require.Empty(t, m.DeferBehindEarlier(noon.Add(message.MaxDeferral-time.Millisecond)))
	then(t, m.DeferBehindEarlier(noon.Add(message.MaxDeferral)), &events.MessageFailed{
		MessageRef: ref, Code: message.CodeHoldExpired, Details: map[string]any{"reason": message.ReasonContactBusy},
	})
}

func TestFallbackSMSOfAnAutomaticTextIsAutomatic(t *testing.T) {
	t.Parallel()
	help := *queued
	help.Automatic = "help"
	on, ok := given(&help, routed, attempt(1)).FallBackToSMS(message.CodeCarrierRejected, nil)
	require.True(t, ok)
	require.Equal(t, &events.MessageFellBack{MessageRef: ref, Reason: message.ReasonChatFailed, Automatic: "help"}, on)
}
