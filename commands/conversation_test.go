package commands_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/commands"
	"ledgerline/domain/conversation"
	"ledgerline/domain/fault"
	"ledgerline/events"
	"ledgerline/eventstore"
)

// handled makes an agent or a workflow the handler of a conversation.
func (h *fixture) handled(r commands.ReceivedMessage, by string) {
	h.t.Helper()
	_, err := h.ledger.Append(h.t.Context(), eventstore.Append{
		Organisation: h.org, Workspace: h.wsp.ID, Actor: events.Actor{Type: "system"}, RequestID: "req_test", At: noon,
		Streams: []eventstore.StreamEvents{{Stream: r.ConversationID, Expected: eventstore.AnyVersion, Events: []events.Event{&events.ConversationHandlerChanged{
			ConversationRef: events.ConversationRef{ConversationID: r.ConversationID, ContactID: r.ContactID}, From: "team", To: by,
		}}}},
	})
	require.NoError(h.t, err)
}

func (h *fixture) session() commands.Request {
	r := h.live()
	r.Actor = events.Actor{Type: "user", ID: h.user.String()}
	return r
}

func TestHandoffMakesTheTeamTheHandlerAndAddsTheReasonAsANote(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	r := h.says(number(1), "help me")
	made, err := h.CreateTeam(t.Context(), h.live(), "Support")
	require.NoError(t, err)
	team := uuid.MustParse(made.Ref)
	h.handled(r, "agent:1")
	before := h.head()
	_, handedOff, err := h.HandOff(t.Context(), h.session(), r.ConversationID, commands.Handoff{Reason: "is angry", TeamID: &team})
	require.NoError(t, err)
	require.True(t, handedOff)
	happened := h.history(before)
	require.Equal(t, []string{"conversation.team_set", "conversation.handler_changed", "agent.handoff", "note.added"}, types(happened))
	handoff := as[*events.AgentHandoff](h, happened[2])
	require.Equal(t, []any{"agent:1", &team, "is angry"}, []any{handoff.From, handoff.TeamID, handoff.Why.Reason})
	note := as[*events.NoteAdded](h, happened[3])
	require.Equal(t, []any{&h.user, "is angry"}, []any{note.AuthorUserID, note.Content.Body})

	before = h.head()
	_, handedOff, err = h.HandOff(t.Context(), h.live(), r.ConversationID, commands.Handoff{Reason: "again", TeamID: &team})
	require.NoError(t, err)
	require.False(t, handedOff, "the team handled it already")
	require.Equal(t, []string{"note.added"}, types(h.history(before)))
	other := uuid.New()
	_, _, err = h.HandOff(t.Context(), h.live(), r.ConversationID, commands.Handoff{TeamID: &other})
	require.Len(t, fault.Of(err).Issues, 2)
}

func TestMessageOfAPersonMakesTheTeamTheHandlerAndOneOfAProgramDoesNot(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	r := h.says(number(1), "help me")
	h.handled(r, "agent:1")
	before := h.head()
	reply := commands.AcceptMessage{Reply: &commands.ReplyTo{ConversationID: r.ConversationID}, Body: "x", Source: "agent"}
	_, err := h.AcceptMessage(t.Context(), h.live(), reply)
	require.NoError(t, err)
	require.Equal(t, []string{"message.queued"}, types(h.history(before)))
	before = h.head()
	reply.ByStaff = true
	_, err = h.AcceptMessage(t.Context(), h.session(), reply)
	require.NoError(t, err)
	require.Equal(t, []string{"conversation.handler_changed", "message.queued"}, types(h.history(before)))
}

func TestAgentCannotReplyAfterAConcurrentAssignment(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	r := h.says(number(1), "hi")
	agent := uuid.New()
	start := make(chan struct{})
	var wg sync.WaitGroup
	var refusals []error
	wg.Go(func() {
		<-start
		for range 20 {
			_, err := h.AcceptMessage(t.Context(), h.live(), commands.AcceptMessage{
				Reply: &commands.ReplyTo{ConversationID: r.ConversationID, AgentUserID: agent}, Body: "x", Source: "dashboard",
			})
			refusals = append(refusals, err)
		}
	})
	other, _ := h.node()
	wg.Go(func() {
		<-start
		to := h.user
		_, err := other.UpdateConversation(t.Context(), h.live(), r.ConversationID, commands.UpdateConversation{
			Change: conversation.Change{Assignee: conversation.Setting[uuid.UUID]{Given: true, Value: &to}},
		})
		require.NoError(t, err)
	})
	close(start)
	wg.Wait()
	assigned := false
	for _, e := range h.history(r.Position) {
		assigned = assigned || e.Type == "conversation.assigned"
		require.False(t, assigned && e.Type == "message.queued", "an agent replied after the conversation was assigned to another user")
	}
	require.True(t, assigned)
	for _, err := range refusals {
		require.True(t, err == nil || fault.Is(err, fault.NotFound), "%v", err)
	}
}

func TestEndSnoozeReturnsTheEndOfASnoozeThatHasNotEnded(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	r := h.says(number(1), "hi")
	until := noon.Add(time.Hour)
	_, err := h.UpdateConversation(t.Context(), h.live(), r.ConversationID, commands.UpdateConversation{
		Change: conversation.Change{SnoozedUntil: conversation.Setting[time.Time]{Given: true, Value: &until}},
	})
	require.NoError(t, err)
	sleeps, err := h.EndSnooze(t.Context(), system(), r.ConversationID)
	require.NoError(t, err)
	require.Equal(t, &until, sleeps)
	_, err = h.clock.Advance(time.Hour)
	require.NoError(t, err)
	before := h.head()
	for range 2 {
		sleeps, err = h.EndSnooze(t.Context(), system(), r.ConversationID)
		require.NoError(t, err)
		require.Nil(t, sleeps)
	}
	require.Equal(t, []string{"conversation.woken"}, types(h.history(before)))
	_, err = h.EndSnooze(t.Context(), system(), "cnv_nothing")
	require.True(t, fault.Is(err, fault.NotFound))
}
