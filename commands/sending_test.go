package commands_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/commands"
	"ledgerline/commands/sending"
	"ledgerline/domain/fault"
	"ledgerline/domain/identity"
	"ledgerline/domain/line"
	"ledgerline/domain/message"
	"ledgerline/events"
	"ledgerline/eventstore"
)

func (h *fixture) begin(messageID string) sending.Attempt {
	h.t.Helper()
	a, err := h.Sending.BeginAttempt(h.t.Context(), system(), messageID, nil, nil)
	require.NoError(h.t, err)
	return a
}

// othersFirst is a queue in which earlier entries may use all capacity for new contacts. It is a function that is
// called whenever the queue is asked.
type othersFirst func()

func (f othersFirst) Blocked(_ context.Context, lineIDs []string) (map[string]bool, error) {
	if f != nil {
		f()
	}
	blocked := map[string]bool{}
	for _, id := range lineIDs {
		blocked[id] = true
	}
	return blocked, nil
}

func (othersFirst) CountBefore(context.Context, []string, int) (int, error) { return 0, nil }

// capacityFor gives the line that a deferred message could leave by now.
func (h *fixture) capacityFor(a *sending.Attempt) (lineID string, fits bool) {
	h.t.Helper()
	wants := a.Message.Deferred.Wants
	require.NotNil(h.t, wants)
	capacity, err := h.Sending.Capacity(h.t.Context(), h.live(), []*events.WantedCapacity{wants})
	require.NoError(h.t, err)
	return capacity.LineFor(wants)
}

func (h *fixture) complete(messageID string, attempt int, result sending.AttemptResult) message.Message {
	h.t.Helper()
	m, _, err := h.Sending.CompleteAttempt(h.t.Context(), system(), messageID, attempt, result)
	require.NoError(h.t, err)
	return m
}

func (h *fixture) receipt(messageID string, kind sending.ReceiptKind) message.Message {
	h.t.Helper()
	m, _, err := h.Sending.RecordReceipt(h.t.Context(), system(), messageID, sending.Receipt{Kind: kind, CarrierID: "c1"})
	require.NoError(h.t, err)
	return m
}

var sent = sending.AttemptResult{Sent: &sending.AcceptedByCarrier{CarrierID: "c1"}}

func TestAMessageIsRoutedSentDeliveredAndRead(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	id := h.message(number(1))
	before := h.head()
	a := h.begin(id)
	require.Equal(t, []any{sending.StepSend, 1, h.line, linePhone, "hello", number(1)},
		[]any{a.Step, a.Number, a.Line.ID, a.Message.FromNumber, a.Message.Content.Body, a.Message.Content.To})
	require.Equal(t, sending.StepLookup, h.begin(id).Step, "an attempt is in flight")
	require.Equal(t, message.Sent, h.complete(id, 1, sent).Status)
	require.Equal(t, message.Sent, h.complete(id, 1, sending.AttemptResult{Retry: "late"}).Status)
	require.Equal(t, sending.StepNone, h.begin(id).Step)
	for range 2 {
		require.Equal(t, message.Delivered, h.receipt(id, sending.ReceiptDelivered).Status)
	}
	require.Equal(t, message.Read, h.receipt(id, sending.ReceiptRead).Status)
	for _, late := range []sending.ReceiptKind{sending.ReceiptDelivered, sending.ReceiptFailed, sending.ReceiptRead} {
		require.Equal(t, message.Read, h.receipt(id, late).Status)
	}
	require.Equal(t, []string{
		"message.routed", "contact.messaged", "contact.line_assigned", "message.sending", "message.sent", "message.delivered", "message.read",
	}, types(h.history(before)))
}

func TestLineThatWasResumedOnAnotherNodeSendsFromThisNode(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	other, _ := h.node()
	_, err := h.PauseLine(t.Context(), h.live(), h.line, "")
	require.NoError(t, err)
	require.Equal(t, sending.StepWait, h.begin(h.message(number(1))).Step)
	_, err = other.ResumeLine(t.Context(), h.live(), h.line, "")
	require.NoError(t, err)
	require.Equal(t, sending.StepSend, h.begin(h.message(number(2))).Step)
}

func TestContactKeepsItsLineAfterTheLineWasResumedOnAnotherNode(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	other, _ := h.node()
	first := h.begin(h.message(number(1)))
	require.Equal(t, h.line, first.Line.ID)
	second, err := h.ProvisionLine(t.Context(), h.live(), commands.ProvisionLine{Phone: "+12125550198", State: line.Active})
	require.NoError(t, err)
	_, err = h.PauseLine(t.Context(), h.live(), h.line, "")
	require.NoError(t, err)
	require.Equal(t, second.Ref, h.begin(h.message(number(1))).Line.ID)
	_, err = other.ResumeLine(t.Context(), h.live(), h.line, "")
	require.NoError(t, err)
	require.Equal(t, h.line, h.begin(h.message(number(1))).Line.ID)
}

func TestRoutedMessageKeepsItsLineAfterTheLineWasResumedOnAnotherNode(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	other, _ := h.node()
	pause := func(lineID string) {
		_, err := h.PauseLine(t.Context(), h.live(), lineID, "")
		require.NoError(t, err)
	}
	resume := func(on *commands.App, lineID string) {
		_, err := on.ResumeLine(t.Context(), h.live(), lineID, "")
		require.NoError(t, err)
	}
	require.Equal(t, h.line, h.begin(h.message(number(1))).Line.ID)
	second, err := h.ProvisionLine(t.Context(), h.live(), commands.ProvisionLine{Phone: "+12125550198", State: line.Active})
	require.NoError(t, err)
	pause(h.line)
	id := h.message(number(1))
	require.Equal(t, second.Ref, h.begin(id).Line.ID)
	until := h.complete(id, 1, sending.AttemptResult{Retry: "timeout"}).NotBefore
	resume(h.App, h.line)
	pause(second.Ref)
	resume(other, second.Ref)
	_, err = h.clock.Advance(until.Sub(h.clock.Now()))
	require.NoError(t, err)
	require.Equal(t, second.Ref, h.begin(id).Line.ID)
}

func TestUnchangedDeferralIsCheckedAtASinglePositionOfTheLedger(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	id := h.message(number(1))
	look := func(meanwhile func()) sending.Attempt {
		a, err := h.Sending.BeginAttempt(t.Context(), system(), id, othersFirst(meanwhile), nil)
		require.NoError(t, err)
		return a
	}
	require.Equal(t, "line_new_contacts_hour", look(func() {}).Message.Deferred.Reason)
	require.Equal(t, "line_new_contacts_hour", look(func() {}).Message.Deferred.Reason, "nothing is recorded")
	other, _ := h.node()
	evaluations := 0
	deferred := look(func() {
		if evaluations++; evaluations == 2 { // first from the cache, then from the ledger
			_, err := other.PauseLine(t.Context(), h.live(), h.line, "")
			require.NoError(t, err)
		}
	})
	require.Equal(t, "line_unavailable", deferred.Message.Deferred.Reason, "the line was paused before the position at which the deferral was found")
}

func TestPoolThatWasChangedOnAnotherNodeIsReadAgainByThisNode(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	other, _ := h.node()
	h.begin(h.message(number(1)))
	made, err := other.CreatePool(t.Context(), h.live(), commands.CreatePool{Name: "Other", Rotation: line.Sticky})
	require.NoError(t, err)
	_, err = other.UpdateLine(t.Context(), h.live(), h.line, line.Change{Pool: line.PoolSetting{Given: true, Value: &made.Ref}})
	require.NoError(t, err)
	require.Equal(t, sending.StepWait, h.begin(h.message(number(2))).Step, "there is no line in the default pool any more")
}

func TestDeferralIsRecordedWhenAnotherNodeRecordedADifferentOne(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	other, _ := h.node()
	link := text(number(1))
	link.Body = "see https://example.com"
	q, err := h.AcceptMessage(t.Context(), h.live(), link)
	require.NoError(t, err)
	behind := func() {
		_, _, err := h.Sending.DeferBehindEarlier(t.Context(), system(), []string{q.Ref})
		require.NoError(t, err)
	}
	behind()
	_, err = other.Sending.BeginAttempt(t.Context(), system(), q.Ref, nil, nil)
	require.NoError(t, err)
	deferred, err := other.FindMessage(t.Context(), q.Ref)
	require.NoError(t, err)
	require.Equal(t, "first_message_rules", deferred.Deferred.Reason)
	behind()
	require.Equal(t, "contact_busy", h.state(q.Ref).Deferred.Reason)
}

func TestMessageToAKnownContactOvertakesMessagesThatWaitForNewContactCapacity(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	round := line.RoundRobin
	_, err := h.UpdatePool(t.Context(), h.live(), h.wsp.DefaultPoolID, line.PoolChange{Rotation: &round})
	require.NoError(t, err)
	h.begin(h.message(number(1)))
	_, err = h.ProvisionLine(t.Context(), h.live(), commands.ProvisionLine{Phone: "+12125550198", State: line.Active})
	require.NoError(t, err)
	turn := func(to string) sending.Attempt {
		a, err := h.Sending.BeginAttempt(t.Context(), system(), h.message(to), othersFirst(nil), nil)
		require.NoError(t, err)
		return a
	}
	require.Equal(t, sending.StepWait, turn(number(2)).Step)
	known := turn(number(1))
	require.Equal(t, []any{sending.StepSend, h.line}, []any{known.Step, known.Line.ID}, "the other line is less used, but earlier messages wait for it")
}

func TestMessageOfARestrictedIdentityWaitsOnlyForCapacityOfItsAllowedLines(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	theirs, err := h.ProvisionLine(t.Context(), h.live(), commands.ProvisionLine{Phone: "+12125550198", State: line.Active})
	require.NoError(t, err)
	made, err := h.CreateIdentity(t.Context(), h.live(), commands.CreateIdentity{
		Name: "Client", Kind: identity.MCPClient, Env: "live", Scopes: []string{"send"}, AllowedLineIDs: []string{theirs.Ref},
	})
	require.NoError(t, err)
	_, err = h.PauseLine(t.Context(), h.live(), theirs.Ref, "")
	require.NoError(t, err)
	by := h.live()
	by.Actor = events.Actor{Type: "identity", ID: made.Identity.ID.String()}
	q, err := h.AcceptMessage(t.Context(), by, text(number(1)))
	require.NoError(t, err)
	deferred := h.begin(q.Ref)
	require.Equal(t, &events.WantedCapacity{PoolID: h.wsp.DefaultPoolID, IdentityID: by.Actor.ID}, deferred.Message.Deferred.Wants)
	_, fits := h.capacityFor(&deferred)
	require.False(t, fits, "the other line is not for this sender")
	_, err = h.ResumeLine(t.Context(), h.live(), theirs.Ref, "")
	require.NoError(t, err)
	lineID, fits := h.capacityFor(&deferred)
	require.Equal(t, []any{theirs.Ref, true}, []any{lineID, fits})
	require.Equal(t, theirs.Ref, h.begin(q.Ref).Line.ID)
}

func TestMessageBeyondTheLimitOfIdenticalTextsWantsCapacityForItsText(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	second, err := h.ProvisionLine(t.Context(), h.live(), commands.ProvisionLine{Phone: "+12125550198", State: line.Active})
	require.NoError(t, err)
	limits := line.DefaultLimits()
	limits.NewContactsPerDay, limits.IdenticalTextMaxPerDay = 2, 1
	_, err = h.SetSendingLimits(t.Context(), h.live(), limits)
	require.NoError(t, err)
	for i, body := range []string{"hello", "one", "two"} { // the second line is full, the first one has room for another text
		in := text(number(i + 1))
		in.LineID, in.Body = &second.Ref, body
		if i == 0 {
			in.LineID = &h.line
		}
		q, err := h.AcceptMessage(t.Context(), h.live(), in)
		require.NoError(t, err)
		require.Equal(t, sending.StepSend, h.begin(q.Ref).Step)
	}
	deferred := h.begin(h.message(number(4)))
	require.NotEmpty(t, deferred.Message.Deferred.Wants.TextHash)
	_, fits := h.capacityFor(&deferred)
	require.False(t, fits, "the capacity that is left is not for this text")
	deferred.Message.Deferred.Wants.TextHash = ""
	lineID, fits := h.capacityFor(&deferred)
	require.Equal(t, []any{h.line, true}, []any{lineID, fits})
}

func TestAMessageThatWasRoutedWantsNoCapacityWhileItsLineCanSend(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	limits := line.DefaultLimits()
	limits.SendsPerDay = 1
	_, err := h.SetSendingLimits(t.Context(), h.live(), limits)
	require.NoError(t, err)
	id := h.message(number(1))
	h.begin(id)
	until := h.complete(id, 1, sending.AttemptResult{Retry: "timeout"}).NotBefore
	_, err = h.PauseOrganisation(t.Context(), h.live(), "unpaid")
	require.NoError(t, err)
	_, err = h.clock.Advance(until.Sub(h.clock.Now()))
	require.NoError(t, err)
	require.Nil(t, h.begin(id).Message.Deferred.Wants, "its capacity on the line is reserved")
	other, err := h.ProvisionLine(t.Context(), h.live(), commands.ProvisionLine{Phone: "+12125550198", State: line.Active})
	require.NoError(t, err)
	_, err = h.ResumeOrganisation(t.Context(), h.live())
	require.NoError(t, err)
	_, err = h.PauseLine(t.Context(), h.live(), h.line, "")
	require.NoError(t, err)
	require.Equal(t, other.Ref, h.begin(id).Line.ID)
}

func TestAReceiptBeforeTheCarriersAnswerRecordsThatTheMessageWasSent(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	id := h.message(number(1))
	h.begin(id)
	before := h.head()
	require.Equal(t, message.Delivered, h.receipt(id, sending.ReceiptDelivered).Status)
	require.Equal(t, message.Delivered, h.complete(id, 1, sent).Status)
	require.Equal(t, []string{"message.sent", "message.delivered"}, types(h.history(before)))
}

func TestAnUnreachableCarrierIsTriedFourTimes(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	id := h.message(number(1))
	for i, wait := range []time.Duration{30 * time.Second, 2 * time.Minute, 10 * time.Minute} {
		require.Equal(t, i+1, h.begin(id).Number)
		h.complete(id, i+1, sending.AttemptResult{Retry: "timeout"})
		a := h.begin(id)
		require.Equal(t, sending.StepWait, a.Step)
		require.Equal(t, h.clock.Now().Add(wait), a.Until)
		_, err := h.clock.Advance(wait)
		require.NoError(t, err)
	}
	require.Equal(t, 4, h.begin(id).Number)
	m := h.complete(id, 4, sending.AttemptResult{Retry: "timeout"})
	require.Equal(t, []any{message.Failed, message.CodeCarrierUnreachable}, []any{m.Status, m.ErrorCode})
}

func TestAttemptThatNeverReachedTheCarrierIsRepeatedAndIsNoFailure(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	id := h.message(number(1))
	for i := range 6 {
		require.Equal(t, i+1, h.begin(id).Number)
		h.complete(id, i+1, sending.AttemptResult{Lost: true})
	}
	require.Equal(t, 7, h.begin(id).Number)
}

func TestNothingLeavesAfterAnOptOut(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	other, _ := h.node()
	for i := range 20 {
		id := h.message(number(i))
		contact := h.state(id).ContactID
		_, err := other.FindContact(t.Context(), contact) // cached as not opted out
		require.NoError(t, err)
		errs := make([]error, 2)
		var both sync.WaitGroup
		both.Go(func() { _, errs[0] = h.OptOut(t.Context(), h.live(), contact, "call", nil) })
		both.Go(func() { _, errs[1] = other.Sending.BeginAttempt(t.Context(), system(), id, nil, nil) })
		both.Wait()
		require.NoError(t, errors.Join(errs...))
		var optedOut int64
		for _, r := range h.history(0, "contact.opted_out", "message.sending") {
			switch e := r.Event.(type) {
			case *events.ContactOptedOut:
				if e.ContactID == contact {
					optedOut = r.Position
				}
			case *events.MessageSending:
				require.False(t, e.ContactID == contact && optedOut > 0, "sending after the opt-out")
			}
		}
		if m := h.state(id); m.Status != message.Sending {
			require.Equal(t, message.CodeOptedOut, m.ErrorCode)
		}
	}
}

func TestAMessageToADeletedContactIsCanceled(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	id := h.message(number(1))
	_, err := h.DeleteContact(t.Context(), h.live(), h.state(id).ContactID)
	require.NoError(t, err)
	a := h.begin(id)
	require.Equal(t, []any{sending.StepNone, message.Failed, message.CodeCanceled}, []any{a.Step, a.Message.Status, a.Message.ErrorCode})
}

func TestAMessageWaitsBehindOthersUpToSevenDays(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	id := h.message(number(1))
	turn := func() sending.Attempt {
		a, err := h.Sending.BeginAttempt(t.Context(), system(), id, othersFirst(nil), nil)
		require.NoError(t, err)
		return a
	}
	require.Equal(t, sending.StepWait, turn().Step)
	_, err := h.clock.Advance(message.MaxDeferral)
	require.NoError(t, err)
	before := h.head()
	require.Equal(t, sending.StepNone, turn().Step)
	require.Equal(t, message.CodeHoldExpired, as[*events.MessageFailed](h, h.history(before, "message.failed")[0]).Code)
}

func TestAMessageThatHasEndedSchedulesNothing(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	id := h.message(number(1))
	var due time.Time
	var err error
	for range 2 { // the first time it tells that it waits
		due, _, err = h.Sending.DeferBehindEarlier(t.Context(), system(), []string{id})
		require.NoError(t, err)
	}
	require.Equal(t, noon.Add(message.MaxDeferral), due)
	_, err = h.clock.Advance(message.MaxDeferral)
	require.NoError(t, err)
	for range 2 { // the first time it ends it
		due, _, err = h.Sending.DeferBehindEarlier(t.Context(), system(), []string{id})
		require.NoError(t, err)
		require.Zero(t, due)
	}
}

func TestAMessageWaitsForALineUpToSevenDays(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	id := h.message(number(1))
	_, err := h.ChangeLineState(t.Context(), h.live(), h.line, line.Quarantined, nil)
	require.NoError(t, err)
	before := h.head()
	for range 2 {
		a := h.begin(id)
		require.Equal(t, []any{sending.StepWait, noon.Add(message.MaxDeferral)}, []any{a.Step, a.Until})
	}
	require.Equal(t, []string{"message.deferred"}, types(h.history(before)))

	deferred := h.message(number(2))
	h.begin(deferred)
	_, err = h.ChangeLineState(t.Context(), h.live(), h.line, line.Ready, nil)
	require.NoError(t, err)
	require.Equal(t, sending.StepSend, h.begin(deferred).Step)
	require.Equal(t, "warming", as[*events.LineStateChanged](h, h.history(before, "line.state_changed")[1]).To)

	_, err = h.ChangeLineState(t.Context(), h.live(), h.line, line.Quarantined, nil)
	require.NoError(t, err)
	_, err = h.clock.Advance(message.MaxDeferral)
	require.NoError(t, err)
	require.Equal(t, message.CodeHoldExpired, h.begin(id).Message.ErrorCode)
}

func TestAMissingReceiptIsRecordedOnceAfterADay(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	id := h.message(number(1))
	h.begin(id)
	h.complete(id, 1, sent)
	missing := func() bool {
		m, _, err := h.Sending.RecordReceiptMissing(t.Context(), system(), id)
		require.NoError(t, err)
		require.Equal(t, message.Sent, m.Status)
		return m.ReceiptMissing
	}
	require.False(t, missing())
	_, err := h.clock.Advance(message.ReceiptTimeout)
	require.NoError(t, err)
	require.True(t, missing())
	require.True(t, missing())
	require.Len(t, h.history(0, "message.receipt_missing"), 1)
}

func TestRefusedCancellationStoresNoIdempotencyRecord(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	id := h.message(number(1))
	h.begin(id)
	req := h.live()
	req.Idempotency = &eventstore.IdempotencyRecord{Workspace: h.wsp.ID, Key: "cancel", Fingerprint: []byte("f"), Status: 200}
	_, err := h.Sending.CancelByRequest(t.Context(), req, id)
	require.True(t, fault.Is(err, fault.Conflict), err)
	kept, err := h.ledger.FindIdempotencyRecord(t.Context(), h.wsp.ID, "cancel")
	require.NoError(t, err)
	require.Nil(t, kept)
}

func TestMessageWithAnAttemptInFlightIsNotCanceled(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	queued, inFlight := h.message(number(1)), h.message(number(1))
	h.begin(inFlight)
	for id, want := range map[string]message.Status{queued: message.Failed, inFlight: message.Sending} {
		m, _, err := h.Sending.Cancel(t.Context(), system(), id, message.CodeOptedOut, nil)
		require.NoError(t, err)
		require.Equal(t, want, m.Status)
	}
}

func TestOptOutThatIsCommittedAfterTheAttemptBeganStopsTheSend(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"nothing", "a field", "an opt-out", "an opt-out of another workspace's contact", "another number", "an erasure"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t)
			other, _ := h.node()
			attempt := h.begin(h.message(number(1)))
			contact, req, next := attempt.Message.ContactID, h.live(), number(2)
			var err error
			switch what {
			case "a field":
				_, err = other.UpdateContact(t.Context(), req, contact, commands.UpdateContact{Fields: map[string]any{"seat": "4A"}})
			case "an opt-out":
				_, err = other.OptOut(t.Context(), req, contact, "call", nil)
			case "an opt-out of another workspace's contact":
				elsewhere := h.in(h.workspace("Second"))
				var made commands.Result
				made, err = other.CreateContact(t.Context(), elsewhere, commands.CreateContact{Phone: number(1)})
				require.NoError(t, err)
				_, err = other.OptOut(t.Context(), elsewhere, made.Ref, "call", nil)
			case "another number":
				_, err = other.UpdateContact(t.Context(), req, contact, commands.UpdateContact{Phone: &next})
			case "an erasure":
				_, err = other.DeleteContact(t.Context(), req, contact)
			}
			require.NoError(t, err)
			may, err := h.Sending.MayStillSend(t.Context(), &attempt)
			require.NoError(t, err)
			require.Equal(t, what == "nothing" || what == "a field", may)
		})
	}
}

func TestAConfirmationReachesAContactThatOptedOutButNotAnErasedOne(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	other, _ := h.node()
	received := h.says(number(1), "STOP")
	attempt := h.begin(received.AutomaticReplyID)
	_, err := other.OptOut(t.Context(), h.live(), received.ContactID, "call", nil)
	require.NoError(t, err)
	may, err := h.Sending.MayStillSend(t.Context(), &attempt)
	require.NoError(t, err)
	require.True(t, may)
	_, err = other.DeleteContact(t.Context(), h.live(), received.ContactID)
	require.NoError(t, err)
	may, err = h.Sending.MayStillSend(t.Context(), &attempt)
	require.NoError(t, err)
	require.False(t, may)
}

func TestAssignReservesCapacityAndTheAttemptBeginsLater(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	_, err := h.PauseLine(t.Context(), h.live(), h.line, "")
	require.NoError(t, err)
	id := h.message(number(1))
	require.Equal(t, sending.StepWait, h.begin(id).Step)
	assign := func(on *commands.App) bool {
		got, err := on.Sending.Assign(t.Context(), system(), id, othersFirst(nil))
		require.NoError(t, err)
		return got
	}
	require.False(t, assign(h.App), "the line is paused")
	_, err = h.ResumeLine(t.Context(), h.live(), h.line, "")
	require.NoError(t, err)
	before := h.head()
	require.True(t, assign(h.App), "entries that wait for the same capacity come after this one")
	require.NotContains(t, types(h.history(before)), "message.sending")
	routed := h.state(id)
	require.Equal(t, []any{h.line, 0, false}, []any{routed.LineID, routed.Attempt, routed.InFlight})
	other, _ := h.node()
	require.False(t, assign(other), "a second node assigns nothing twice")
	before = h.head()
	require.Equal(t, sending.StepSend, h.begin(id).Step)
	require.NotContains(t, types(h.history(before)), "message.routed", "the capacity is reserved once")
}
