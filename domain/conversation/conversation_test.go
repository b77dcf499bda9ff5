package conversation_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/conversation"
	"ledgerline/events"
)

func TestMessageStartsOrReopensTheConversation(t *testing.T) {
	t.Parallel()
	begun := conversation.Conversation{}.EnsureOpen("cnv_1", "ctc_1", true)
	require.Equal(t, []events.Event{&events.ConversationStarted{ConversationID: "cnv_1", ContactID: "ctc_1", IsTest: true}}, begun)
	c := conversation.Conversation{}.Apply(begun[0], events.Envelope{})
	require.Equal(t, conversation.Open, c.Status)
	require.Empty(t, c.EnsureOpen("cnv_1", "ctc_1", false))
	for _, from := range []conversation.Status{conversation.Closed, conversation.Snoozed} {
		c.Status = from
		reopened := c.EnsureOpen("cnv_1", "ctc_1", false)
		require.Equal(t, []events.Event{&events.ConversationReopened{ConversationID: "cnv_1", ContactID: "ctc_1", From: string(from)}}, reopened)
		require.Equal(t, conversation.Open, c.Apply(reopened[0], events.Envelope{}).Status)
	}
}
