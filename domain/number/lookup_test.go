package number_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/number"
	"ledgerline/events"
)

func TestCarriersAnswerAboutANumberIsValidForThirtyDays(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	apply := func(n number.Number, at time.Time, list ...events.Event) number.Number {
		for _, e := range list {
			n = n.Apply(e, events.Envelope{At: at})
		}
		return n
	}
	n := apply(number.Number{}, at, &events.NumberLinked{ContactID: "ctc_2"}, &events.NumberLinked{ContactID: "ctc_1"})
	_, known := n.ValidChatCheck(at)
	require.False(t, known)
	recorded := n.RecordChatCheck(false, "ln_1", at)
	require.Equal(t, []events.Event{&events.NumberChecked{LineID: "ln_1", ContactIDs: []string{"ctc_1", "ctc_2"}}}, recorded)
	n = apply(n, at, recorded...)
	chat, known := n.ValidChatCheck(at.Add(number.ChatCheckValidity - 1))
	require.True(t, known)
	require.Equal(t, number.ChatCheck{CheckedAt: at}, chat)
	_, known = n.ValidChatCheck(at.Add(number.ChatCheckValidity))
	require.False(t, known)

	require.Empty(t, n.RecordChatCheck(false, "ln_2", at.Add(time.Hour)), "it repeats a valid answer")
	require.Len(t, n.RecordChatCheck(true, "ln_2", at.Add(time.Hour)), 1, "the answer changed")
	require.Len(t, n.RecordChatCheck(false, "ln_2", at.Add(number.ChatCheckValidity)), 1, "the valid time has passed")

	linked, err := n.Link("ctc_3", uuid.New())
	require.NoError(t, err)
	link, ok := linked[0].(*events.NumberLinked)
	require.True(t, ok)
	require.Equal(t, &at, link.CheckedAt, "a new contact gets the last answer about its number")
}
