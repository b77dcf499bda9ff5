package exchange_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/exchange"
	"ledgerline/domain/line"
	"ledgerline/events"
)

const window = 30

func messaged(x exchange.Exchange, lineID, messageID, day string) (exchange.Exchange, []events.Event) {
	made := x.RecordMessage("ctc_1", lineID, messageID, false, line.ParseDay(day), window)
	return applied(x, made), made
}

func applied(x exchange.Exchange, made []events.Event) exchange.Exchange {
	for _, e := range made {
		x = x.Apply(e, events.Envelope{})
	}
	return x
}

func TestContactIsNewToALineThatHasNotWrittenForTheWindow(t *testing.T) {
	t.Parallel()
	x, made := messaged(exchange.Exchange{}, "ln_1", "msg_1", "2026-03-01")
	require.Equal(t, []events.Event{&events.ContactMessaged{ContactID: "ctc_1", LineID: "ln_1", MessageID: "msg_1", Day: "2026-03-01", NewToLine: true}}, made)
	require.False(t, x.IsNewTo("ln_1", line.ParseDay("2026-03-30"), window))
	require.True(t, x.IsNewTo("ln_1", line.ParseDay("2026-03-31"), window))
	require.True(t, x.IsNewTo("ln_2", line.ParseDay("2026-03-01"), window))
	x, made = messaged(x, "ln_1", "msg_2", "2026-03-30")
	require.Len(t, made, 1)
	require.False(t, x.IsNewTo("ln_1", line.ParseDay("2026-04-28"), window), "the newest message counts")
}

func TestMessageBeforeTheFirstReplyIsCountedOnce(t *testing.T) {
	t.Parallel()
	x, _ := messaged(exchange.Exchange{}, "ln_1", "msg_1", "2026-03-01")
	x, _ = messaged(x, "ln_2", "msg_1", "2026-03-01") // routed to another line
	x, _ = messaged(x, "ln_1", "msg_2", "2026-03-01")
	require.Equal(t, 2, x.MessagesBeforeReply)
}

func TestAfterTheFirstReplyOneRecordPerLineAndDayIsWritten(t *testing.T) {
	t.Parallel()
	x, _ := messaged(exchange.Exchange{}, "ln_1", "msg_1", "2026-03-01")
	x = applied(x, x.RecordReply("ctc_1", "ln_1", "msg_2"))
	require.True(t, x.Replied)
	_, made := messaged(x, "ln_1", "msg_3", "2026-03-01")
	require.Empty(t, made)
	_, made = messaged(x, "ln_1", "msg_3", "2026-03-02")
	require.Len(t, made, 1)
	_, made = messaged(x, "ln_2", "msg_3", "2026-03-01")
	require.Len(t, made, 1)
}

func TestReplyAnswersEveryLineWithAnUnansweredFirstMessage(t *testing.T) {
	t.Parallel()
	x, _ := messaged(exchange.Exchange{}, "ln_1", "msg_1", "2026-03-01")
	x, _ = messaged(x, "ln_2", "msg_2", "2026-03-02")
	wrote := x.RecordReply("ctc_1", "ln_2", "msg_3")
	require.Equal(t, []events.Event{&events.ContactReplied{
		ContactID: "ctc_1", LineID: "ln_2", MessageID: "msg_3",
		Answers: []events.Answers{{LineID: "ln_1", Day: "2026-03-01"}, {LineID: "ln_2", Day: "2026-03-02"}},
	}}, wrote)
	x = applied(x, wrote)
	require.Empty(t, x.RecordReply("ctc_1", "ln_2", "msg_4"))
	require.Len(t, exchange.Exchange{}.RecordReply("ctc_1", "ln_1", "msg_1"), 1, "a first message from the contact is a reply, too")
}

func TestMissingAnswerIsRecordedOnceAndOnlyForALinesFirstMessage(t *testing.T) {
	t.Parallel()
	x, _ := messaged(exchange.Exchange{}, "ln_1", "msg_1", "2026-03-01")
	x, _ = messaged(x, "ln_1", "msg_2", "2026-03-01")
	require.Empty(t, x.RecordUnanswered("ctc_1", "ln_1", "msg_2"))
	unanswered := x.RecordUnanswered("ctc_1", "ln_1", "msg_1")
	require.Len(t, unanswered, 1)
	x = applied(x, unanswered)
	require.Empty(t, x.RecordUnanswered("ctc_1", "ln_1", "msg_1"))
	y, _ := messaged(exchange.Exchange{}, "ln_1", "msg_1", "2026-03-01")
	require.Empty(t, applied(y, y.RecordReply("ctc_1", "ln_1", "msg_3")).RecordUnanswered("ctc_1", "ln_1", "msg_1"))
}

func TestUnsentMessageDoesNotCountTowardTheLimitBeforeTheReply(t *testing.T) {
	t.Parallel()
	require.Empty(t, exchange.Exchange{}.RecordUnsent("ctc_1", "msg_1"))
	x, _ := messaged(exchange.Exchange{}, "ln_1", "msg_1", "2026-03-01")
	x, _ = messaged(x, "ln_1", "msg_2", "2026-03-01")
	unsent := x.RecordUnsent("ctc_1", "msg_1")
	require.Equal(t, []events.Event{&events.ContactMessageUnsent{ContactID: "ctc_1", MessageID: "msg_1"}}, unsent)
	x = applied(x, unsent)
	require.Equal(t, 1, x.MessagesBeforeReply)
	require.False(t, x.IsNewTo("ln_1", line.ParseDay("2026-03-01"), window), "the capacity of the line stays used")
	x = applied(x, x.RecordReply("ctc_1", "ln_1", "msg_3"))
	require.Empty(t, x.RecordUnsent("ctc_1", "msg_2"))
}

func TestMessageRoutedToAnotherLineIsCountedOnceBeforeTheReply(t *testing.T) {
	t.Parallel()
	x, _ := messaged(exchange.Exchange{}, "ln_1", "msg_1", "2026-03-01")
	x, _ = messaged(x, "ln_1", "msg_2", "2026-03-01")
	x = applied(x, x.RecordMessage("ctc_1", "ln_2", "msg_1", true, line.ParseDay("2026-03-01"), window))
	require.Equal(t, 2, x.MessagesBeforeReply)
}
