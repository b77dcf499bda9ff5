package commands_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/commands"
	"ledgerline/commands/sending"
	"ledgerline/domain/fault"
	"ledgerline/domain/message"
	"ledgerline/events"
	"ledgerline/eventstore"
)

func TestMessageToAnUnknownNumberCreatesContactAndConversation(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	before := h.head()
	q, err := h.AcceptMessage(t.Context(), h.live(), text("415-555-2671"))
	require.NoError(t, err)
	happened := h.history(before)
	require.Equal(t, []string{"contact.created", "number.linked", "conversation.started", "message.queued"}, types(happened))
	created, started, queued := as[*events.ContactCreated](h, happened[0]), as[*events.ConversationStarted](h, happened[2]), as[*events.MessageQueued](h, happened[3])
	require.Equal(t, created.ConversationID, started.ConversationID)
	require.Equal(t, q.Event, *queued)
	require.Equal(t, "+14155552671", queued.Content.To)
	require.Equal(t, []any{q.Ref, noon, happened[3].Position}, []any{queued.MessageID, q.At, q.Position})

	second, err := h.AcceptMessage(t.Context(), h.live(), commands.AcceptMessage{ContactID: &created.ContactID, Body: "again", Source: "api"})
	require.NoError(t, err)
	require.Equal(t, []string{"message.queued"}, types(h.history(q.Position)))
	require.Equal(t, started.ConversationID, second.Event.ConversationID)
}

func TestConcurrentMessagesToANewNumberCreateOneContactAndOneConversation(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	other, _ := h.node()
	errs := make([]error, 64)
	var all sync.WaitGroup
	for i := range errs {
		app := h.App
		if i%2 == 1 {
			app = other
		}
		all.Go(func() { _, errs[i] = app.AcceptMessage(t.Context(), h.live(), text(number(1))) })
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
	require.Len(t, h.history(0, "contact.created"), 1)
	require.Len(t, h.history(0, "conversation.started"), 1)
	require.Len(t, h.history(0, "message.queued"), len(errs))
}

func TestAllIssuesOfAMessageAreReportedTogether(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	foreign := h.workspace("Other")
	to, contact, late := "123", "ctc_x", noon.Add(message.MaxScheduleAhead+time.Millisecond)
	metadata := map[string]any{}
	for i := range 51 {
		metadata[number(i)] = i
	}
	_, err := h.AcceptMessage(t.Context(), h.live(), commands.AcceptMessage{
		To: &to, ContactID: &contact, PoolID: &foreign.DefaultPoolID, LineID: &foreign.SandboxLineID, SendAt: &late, Body: " \n\u200b", Metadata: metadata, Source: "api",
	})
	var paths []string
	for _, i := range fault.Of(err).Issues {
		paths = append(paths, i.Path)
	}
	require.Equal(t, []string{"/to", "/body", "/metadata", "/send_at", "/pool_id", "/line_id"}, paths)

	// The id of a resource of another kind is not found.
	id := h.contact(number(1))
	_, err = h.AcceptMessage(t.Context(), h.live(), commands.AcceptMessage{ContactID: &id, LineID: &id, PoolID: &h.line, Body: "x", Source: "api"})
	require.Len(t, fault.Of(err).Issues, 2)
}

func TestTestKeySendsToSandboxNumbersThroughTheSandboxLine(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	_, err := h.AcceptMessage(t.Context(), h.test(), text(number(1)))
	require.Equal(t, "/to", fault.Of(err).Issues[0].Path)
	id := h.contact(number(1))
	_, err = h.AcceptMessage(t.Context(), h.test(), commands.AcceptMessage{ContactID: &id, Body: "x", Source: "api"})
	require.Equal(t, "/to", fault.Of(err).Issues[0].Path)
	to := "+14155550100"
	_, err = h.AcceptMessage(t.Context(), h.test(), commands.AcceptMessage{To: &to, LineID: &h.line, Body: "x", Source: "api"})
	require.Equal(t, "/line_id", fault.Of(err).Issues[0].Path)

	q, err := h.AcceptMessage(t.Context(), h.test(), text(to))
	require.NoError(t, err)
	require.True(t, q.Event.IsTest)
	a, err := h.Sending.BeginAttempt(t.Context(), system(), q.Ref, nil, nil)
	require.NoError(t, err)
	require.Equal(t, sending.StepSend, a.Step)
	require.Equal(t, h.wsp.SandboxLineID, a.Line.ID)
	c, err := h.FindContact(t.Context(), q.Event.ContactID)
	require.NoError(t, err)
	require.Empty(t, c.LineID)
}

func TestFutureSendAtSchedulesAndPastSendAtMeansNow(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	in := text(number(1))
	later := noon.Add(time.Hour)
	in.SendAt = &later
	q, err := h.AcceptMessage(t.Context(), h.live(), in)
	require.NoError(t, err)
	a, err := h.Sending.BeginAttempt(t.Context(), system(), q.Ref, nil, nil)
	require.NoError(t, err)
	require.Equal(t, []any{sending.StepWait, later, message.Scheduled}, []any{a.Step, a.Until, a.Message.Status})
	_, err = h.clock.Set(later)
	require.NoError(t, err)
	a, err = h.Sending.BeginAttempt(t.Context(), system(), q.Ref, nil, nil)
	require.NoError(t, err)
	require.Equal(t, sending.StepSend, a.Step)
	require.Equal(t, []string{"message.due", "message.routed", "contact.messaged", "contact.line_assigned", "message.sending"},
		types(h.history(q.Position)))

	past := noon.Add(-time.Hour)
	in.SendAt = &past
	q, err = h.AcceptMessage(t.Context(), h.live(), in)
	require.NoError(t, err)
	require.Nil(t, q.Event.SendAt)
	require.Equal(t, []string{"message.queued"}, types(h.history(q.Position-1)))
}

func TestAnswerCommitsWithTheIdempotencyRecord(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	req, in := h.live(), text(number(1))
	req.Idempotency = &eventstore.IdempotencyRecord{Workspace: h.wsp.ID, Key: "k", Fingerprint: []byte("f"), Status: 201}
	in.Answer = func(q commands.AcceptedMessage) ([]byte, error) { return []byte(q.Event.MessageID), nil }
	q, err := h.AcceptMessage(t.Context(), req, in)
	require.NoError(t, err)
	_, err = h.AcceptMessage(t.Context(), req, in)
	exists := (*eventstore.IdempotencyRecordExists)(nil)
	require.ErrorAs(t, err, &exists)
	require.Equal(t, q.Ref, string(exists.Record.Body))
	require.Equal(t, q.Event.ContactID, exists.Record.Subject)
	require.Len(t, h.history(0, "message.queued"), 1)
}

func TestWriteWithAChangedCredentialIsRefused(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	other, _ := h.node()
	k := h.key("live", "send")
	_, err := other.FindKeyAccess(t.Context(), k.Secret, false)
	require.NoError(t, err)
	_, err = h.RevokeAPIKey(t.Context(), h.live(), k.ID, nil)
	require.NoError(t, err)
	req := h.live()
	access, err := other.FindKeyAccess(t.Context(), k.Secret, false) // remembered
	require.NoError(t, err)
	req.Guards = access.Guards
	_, err = other.AcceptMessage(t.Context(), req, text(number(1)))
	require.ErrorIs(t, err, commands.ErrCredentialChanged)
	_, err = other.FindKeyAccess(t.Context(), k.Secret, true)
	require.True(t, fault.Is(err, fault.Unauthorized))
	require.Empty(t, h.history(0, "message.queued"))
}

func TestAnUnreachableLedgerIsUnavailable(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.ledger.Pool().Close()
	_, err := h.CreateContact(t.Context(), h.live(), commands.CreateContact{Phone: number(1)})
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	require.Equal(t, time.Second, fault.Of(err).RetryAfter)
}
