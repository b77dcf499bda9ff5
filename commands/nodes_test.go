package commands_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/commands"
	"ledgerline/commands/sending"
	"ledgerline/domain/consent"
	"ledgerline/domain/fault"
	"ledgerline/domain/identity"
	"ledgerline/domain/line"
	"ledgerline/domain/message"
	"ledgerline/domain/organisation"
	"ledgerline/events"
)

// A node remembers states that another node may have changed since. The tests below change a state through a second
// node and check that the first node decides by the new state.

func TestStopWordSetOnAnotherNodeTakesEffect(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	other, _ := h.node()
	h.says(number(1), "hello")
	words := []string{"BASTA"}
	_, err := other.SetCompliance(t.Context(), h.live(), organisation.ComplianceChange{StopWords: &words})
	require.NoError(t, err)
	require.Equal(t, consent.Stop, h.says(number(1), "basta").Keyword)
}

func TestFallbackModeSetOnAnotherNodeTakesEffect(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	other, _ := h.node()
	modes := func(on *commands.App, mode line.FallbackMode) {
		_, err := on.UpdatePool(t.Context(), h.live(), h.wsp.DefaultPoolID, line.PoolChange{Fallback: &mode})
		require.NoError(t, err)
	}
	rejected := sending.AttemptResult{Failed: &sending.RejectedByCarrier{Code: message.CodeCarrierRejected}}
	modes(h.App, line.FallbackNotChatOrFailed)
	first, second := h.message(number(1)), h.message(number(2))
	h.begin(first)
	h.begin(second)
	require.Equal(t, message.SMS, h.complete(first, 1, rejected).Channel)
	modes(other, line.FallbackOff)
	require.Equal(t, message.Failed, h.complete(second, 1, rejected).Status)
}

func TestUserWhoseRoleWasRevokedOnAnotherNodeCannotJoinATeam(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	other, _ := h.node()
	_, err := h.CreateTeam(t.Context(), h.live(), "First", h.user)
	require.NoError(t, err)
	_, err = other.RevokeRole(t.Context(), h.live(), h.user)
	require.NoError(t, err)
	_, err = h.CreateTeam(t.Context(), h.live(), "Second", h.user)
	require.True(t, fault.Is(err, fault.ValidationFailed), err)
}

func TestIdentityCannotBeAllowedALineThatWasRetiredOnAnotherNode(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	other, _ := h.node()
	create := func(name string) error {
		_, err := h.CreateIdentity(t.Context(), h.live(), commands.CreateIdentity{
			Name: name, Kind: identity.AIAgent, Env: "live", Scopes: []string{"send"}, AllowedLineIDs: []string{h.line},
		})
		return err
	}
	require.NoError(t, create("one"))
	_, err := other.ChangeLineState(t.Context(), h.live(), h.line, line.Retired, nil)
	require.NoError(t, err)
	require.True(t, fault.Is(create("two"), fault.ValidationFailed))
}

func TestLimitsSetOnAnotherNodeApplyToTheUnansweredStreak(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	other, _ := h.node()
	id := h.message(number(1))
	h.begin(id)
	h.complete(id, 1, sent)
	limits, err := h.SendingLimits(t.Context(), h.live())
	require.NoError(t, err)
	limits.UnansweredStreakPause = 1
	_, err = other.SetSendingLimits(t.Context(), h.live(), limits)
	require.NoError(t, err)
	before := h.head()
	_, err = h.Sending.RecordUnanswered(t.Context(), system(), id)
	require.NoError(t, err)
	moved := h.history(before, "line.state_changed")
	require.Len(t, moved, 1)
	require.Equal(t, "paused", as[*events.LineStateChanged](h, moved[0]).To)
}
