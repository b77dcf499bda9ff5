package commands_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/commands"
	"ledgerline/commands/sending"
	"ledgerline/domain/consent"
	"ledgerline/domain/fault"
	"ledgerline/domain/line"
	"ledgerline/events"
)

func TestMessageFromAnUnknownNumberCreatesAContact(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	before := h.head()
	r := h.says(number(1), "hi there")
	happened := h.history(before)
	require.Equal(t, []string{"contact.created", "number.linked", "conversation.started", "message.received", "contact.replied", "contact.line_assigned"}, types(happened))
	require.Equal(t, events.Actor{Type: "contact", ID: r.ContactID}, happened[3].Actor)
	require.Equal(t, h.wsp.ID, happened[3].WorkspaceID)
	e := as[*events.MessageReceived](h, happened[3])
	require.Equal(t, []any{r.MessageID, h.line, "chat", "hi there", number(1), linePhone},
		[]any{e.MessageID, e.LineID, e.Channel, e.Content.Body, e.Content.From, e.Content.To})
	h.says(number(1), "again")
	require.Equal(t, []string{"message.received"}, types(h.history(r.Position)))
}

func TestContactIsAssignedTheLineThatItWroteToFirst(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	second, err := h.ProvisionLine(t.Context(), h.live(), commands.ProvisionLine{Phone: "+12125550198", State: line.Active})
	require.NoError(t, err)
	lines := map[string]string{linePhone: h.line, "+12125550198": second.Ref}
	for i := range 8 {
		to := []string{linePhone, "+12125550198"}[i%2]
		_, err := h.ReceiveMessage(t.Context(), system(), commands.InboundMessage{LinePhone: to, From: number(i), Body: "hi"})
		require.NoError(t, err)
		require.Equal(t, lines[to], h.begin(h.message(number(i))).Line.ID)
	}
	write := func() string {
		r, err := h.ReceiveMessage(t.Context(), system(), commands.InboundMessage{LinePhone: "+12125550198", From: number(0), Body: "hi"})
		require.NoError(t, err)
		c, err := h.FindContact(t.Context(), r.ContactID)
		require.NoError(t, err)
		return c.LineID
	}
	require.Equal(t, h.line, write(), "the contact has a line already")
	_, err = h.ChangeLineState(t.Context(), h.live(), h.line, line.Quarantined, nil)
	require.NoError(t, err)
	require.Equal(t, second.Ref, write(), "the contact's line is out of service")
}

func TestSTOPOptsOutWithFullEvidenceAndOneConfirmation(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	second := h.workspace("Second")
	_, err := h.CreateContact(t.Context(), h.in(second), commands.CreateContact{Phone: number(1)})
	require.NoError(t, err)
	id := h.contact(number(1))
	before := h.head()
	r := h.says(number(1), " “Stop.” ")
	happened := h.history(before)
	require.Equal(t, []string{
		"conversation.started", "message.received", "contact.replied", "contact.line_assigned", "contact.opted_out", "number.opted_out", "contact.opted_out", "message.queued",
	}, types(happened))
	optedOut := as[*events.ContactOptedOut](h, happened[4])
	require.Equal(t, []any{id, "stop", r.MessageID, h.line, "chat", "inbound_message"},
		[]any{optedOut.ContactID, *optedOut.Keyword, *optedOut.MessageID, *optedOut.LineID, *optedOut.Channel, *optedOut.Source})
	require.Equal(t, " “Stop.” ", optedOut.Evidence.Text)
	require.Equal(t, number(1), optedOut.Evidence.Phone)
	require.Equal(t, second.ID, happened[6].WorkspaceID)
	confirmation := as[*events.MessageQueued](h, happened[7])
	require.Equal(t, []any{"opt_out_confirmation", r.MessageID, h.line, r.AutomaticReplyID}, []any{confirmation.Automatic, *confirmation.ReplyTo, *confirmation.LineID, confirmation.MessageID})
	require.Nil(t, confirmation.Source)
	require.Contains(t, confirmation.Content.Body, "Acme")
	require.Equal(t, sending.StepSend, h.begin(r.AutomaticReplyID).Step, "the confirmation is exempt from consent")

	before = h.head()
	require.Empty(t, h.says(number(1), "STOP").AutomaticReplyID)
	require.Equal(t, []string{"message.received", "contact.opted_out"}, types(h.history(before)))
}

func TestSTOPFromAnUnknownNumberCreatesAnOptedOutContact(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	before := h.head()
	h.says(number(1), "stop")
	require.Equal(t, []string{
		"contact.created", "number.linked", "conversation.started", "message.received", "contact.replied", "contact.line_assigned", "contact.opted_out", "number.opted_out", "message.queued",
	}, types(h.history(before)))
	_, err := h.AcceptMessage(t.Context(), h.live(), text(number(1)))
	require.True(t, fault.Is(err, fault.ContactOptedOut))
}

func TestSTARTOptsInAnyContactAndYESOnlyOneThatIsOptedOut(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	require.Equal(t, consent.None, h.says(number(1), "yes").Keyword)
	h.says(number(1), "stop")
	require.Equal(t, consent.Start, h.says(number(1), "Yes!").Keyword)
	h.message(number(1))
	h.says(number(1), "stop")
	r := h.says(number(1), "START")
	h.message(number(1))
	c, err := h.FindContact(t.Context(), r.ContactID)
	require.NoError(t, err)
	require.Equal(t, consent.OptedIn, c.Consent)
}

func TestHELPIsAnsweredUnlessTheContactIsOptedOut(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	r := h.says(number(1), "help?")
	require.Equal(t, consent.Help, r.Keyword)
	a := h.begin(r.AutomaticReplyID)
	require.Equal(t, sending.StepSend, a.Step)
	require.Contains(t, a.Message.Content.Body, "Acme")
	waits := h.says(number(1), "help")
	h.says(number(1), "stop")
	require.Equal(t, "contact_opted_out", h.begin(waits.AutomaticReplyID).Message.ErrorCode, "the automatic text had not been sent")
	require.Empty(t, h.says(number(1), "help").AutomaticReplyID)
	r = h.says(number(1), "help")
	_, err := h.SetConsent(t.Context(), h.live(), r.ContactID, consent.Unknown, "call")
	require.NoError(t, err)
	require.Empty(t, h.says(number(1), "help").AutomaticReplyID, "the number is in the register")
}

func TestMessageReportedTwiceByTheCarrierIsReceivedOnce(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	other, _ := h.node()
	got, errs := make([]commands.ReceivedMessage, 8), make([]error, 8)
	var all sync.WaitGroup
	for i := range got {
		app := h.App
		if i%2 == 1 {
			app = other
		}
		all.Go(func() {
			got[i], errs[i] = app.ReceiveMessage(t.Context(), system(), commands.InboundMessage{LinePhone: linePhone, From: number(1), Body: "stop", CarrierID: "in-1"})
		})
	}
	all.Wait()
	first := h.history(0, "message.received")
	require.Len(t, first, 1)
	firsts := 0
	for i := range got {
		require.NoError(t, errs[i])
		require.Equal(t, first[0].Stream, got[i].MessageID)
		if !got[i].Duplicate {
			firsts++
		}
	}
	require.Equal(t, 1, firsts)
	require.Len(t, h.history(0, "message.queued"), 1)
}

func TestMessageToAnUnknownLineIsNotFound(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	_, err := h.ReceiveMessage(t.Context(), system(), commands.InboundMessage{LinePhone: number(9), From: number(1), Body: "x"})
	require.True(t, fault.Is(err, fault.NotFound))
}

func TestMessageToTheSandboxLineIsTestTraffic(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	r, err := h.ReceiveMessage(t.Context(), system(), commands.InboundMessage{LinePhone: h.wsp.SandboxPhone, From: "+14155550191", Body: "HELP\x00"})
	require.NoError(t, err)
	require.Equal(t, h.wsp.SandboxLineID, h.begin(r.AutomaticReplyID).Line.ID)
	require.True(t, h.state(r.MessageID).IsTest)
}
