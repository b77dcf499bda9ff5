package commands_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/commands"
	"ledgerline/commands/sending"
	"ledgerline/domain/identity"
	"ledgerline/domain/rules"
	"ledgerline/events"
)

func TestPreviewCountsCapacityThatOtherNodesUsed(t *testing.T) {
	t.Parallel()
	for want, set := range map[string]func(h *fixture, by *commands.Request) commands.AcceptMessage{
		rules.ReasonNewHour: func(h *fixture, _ *commands.Request) commands.AcceptMessage {
			limits, err := h.SendingLimits(h.t.Context(), h.live())
			require.NoError(h.t, err)
			limits.NewContactsPerHour = 1
			_, err = h.SetSendingLimits(h.t.Context(), h.live(), limits)
			require.NoError(h.t, err)
			return text(number(2))
		},
		rules.ReasonSendsDay: func(h *fixture, _ *commands.Request) commands.AcceptMessage { // the text
			limits, err := h.SendingLimits(h.t.Context(), h.live())
			require.NoError(h.t, err)
			limits.IdenticalTextMaxPerDay = 1
			_, err = h.SetSendingLimits(h.t.Context(), h.live(), limits)
			require.NoError(h.t, err)
			return text(number(2))
		},
		rules.ReasonIdentity: func(h *fixture, by *commands.Request) commands.AcceptMessage {
			one := int64(1)
			made, err := h.CreateIdentity(h.t.Context(), h.live(), commands.CreateIdentity{
				Name: "Bot", Kind: identity.AIAgent, Env: "live", Scopes: []string{"send"}, DailyLimit: &one,
			})
			require.NoError(h.t, err)
			by.Actor = events.Actor{Type: "identity", ID: made.Identity.ID.String()}
			return text(number(2))
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t)
			by := h.live()
			ask := set(h, &by)
			other, _ := h.node()
			preview := func() sending.Preview {
				p, err := other.PreviewMessage(t.Context(), by, ask)
				require.NoError(t, err)
				return p
			}
			require.Equal(t, rules.Send, preview().Decision)
			q, err := h.AcceptMessage(t.Context(), by, text(number(1)))
			require.NoError(t, err)
			require.Equal(t, sending.StepSend, h.begin(q.Ref).Step)
			require.Equal(t, []any{rules.Defer, want}, []any{preview().Decision, preview().Reason})
		})
	}
}
