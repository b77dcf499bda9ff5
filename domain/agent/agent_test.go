package agent_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/agent"
	"ledgerline/domain/fault"
	"ledgerline/events"
)

var (
	id       = uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8051")
	identity = uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8052")
)

func given(t *testing.T, more ...events.Event) agent.Agent {
	t.Helper()
	created, err := agent.Create(id, identity, agent.Properties{Name: " Helper ", Instructions: "Help.", AllowedLineIDs: []string{"ln_1", "ln_1"}})
	require.NoError(t, err)
	var a agent.Agent
	for _, e := range append(created, more...) {
		a = a.Apply(e, events.Envelope{})
	}
	return a
}

func codes(err error) []string {
	var found []string
	for _, i := range fault.Of(err).Issues {
		found = append(found, i.Path+" "+i.Code)
	}
	return found
}

func TestAgentStartsAsADraftWithATrimmedName(t *testing.T) {
	t.Parallel()
	a := given(t)
	require.Equal(t, agent.Draft, a.Status)
	require.Equal(t, agent.Properties{Name: "Helper", Instructions: "Help.", AllowedLineIDs: []string{"ln_1"}}, a.Properties)
}

func TestAllProblemsOfAnAgentAreReportedTogether(t *testing.T) {
	t.Parallel()
	zero, many := int64(0), int64(100_001)
	_, err := agent.Create(id, identity, agent.Properties{Instructions: " ", Model: strings.Repeat("m", 101), DailyLimit: &zero})
	require.Equal(t, []string{"/name required", "/instructions required", "/model too_long", "/daily_limit too_small"}, codes(err))
	_, err = agent.Create(id, identity, agent.Properties{
		Name: strings.Repeat("é", 121), Instructions: strings.Repeat("é", 20_001), AllowedLineIDs: distinctLines(501), DailyLimit: &many,
	})
	require.Equal(t, []string{"/name too_long", "/instructions too_long", "/allowed_line_ids too_many_items", "/daily_limit too_large"}, codes(err))
	_, err = agent.Create(id, identity, agent.Properties{Name: strings.Repeat("é", 120), Instructions: strings.Repeat("é", 20_000)})
	require.NoError(t, err)
}

func distinctLines(n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = strings.Repeat("x", i+1)
	}
	return lines
}

func TestAgentMovesFromDraftToLiveAndBetweenLiveAndPausedOnly(t *testing.T) {
	t.Parallel()
	states := map[agent.Status]agent.Agent{
		agent.Draft:  given(t),
		agent.Live:   given(t, &events.AgentActivated{AgentID: id}),
		agent.Paused: given(t, &events.AgentActivated{AgentID: id}, &events.AgentPaused{AgentID: id}),
	}
	for from, a := range states {
		require.Equal(t, from, a.Status)
		for to := range states {
			made, err := a.Update(agent.Change{Status: &to}, true)
			switch {
			case from == to:
				require.NoError(t, err)
				require.Empty(t, made, "a PATCH to the status it has changes nothing")
			case to == agent.Live:
				require.Equal(t, []events.Event{&events.AgentActivated{AgentID: id, From: string(from)}}, made)
			case from == agent.Live && to == agent.Paused:
				require.Equal(t, []events.Event{&events.AgentPaused{AgentID: id}}, made)
			default:
				require.True(t, fault.Is(err, fault.Conflict), "%s to %s", from, to)
			}
		}
	}
}

func TestAgentBecomesLiveOnlyWithAModelEndpoint(t *testing.T) {
	t.Parallel()
	live := agent.Live
	_, err := given(t).Update(agent.Change{Status: &live}, false)
	require.True(t, fault.Is(err, fault.Conflict))
	already, err := given(t, &events.AgentActivated{AgentID: id}).Update(agent.Change{Status: &live}, false)
	require.NoError(t, err)
	require.Empty(t, already)
}

func TestEditsOfAnAgentComeBeforeItsMoveAndNameWhatChanged(t *testing.T) {
	t.Parallel()
	live, name, five := agent.Live, "Clerk", int64(5)
	made, err := given(t).Update(agent.Change{Name: &name, DailyLimit: &five, SetDailyLimit: true, Status: &live}, true)
	require.NoError(t, err)
	require.Equal(t, []events.Event{
		&events.AgentUpdated{AgentID: id, Changed: []string{"name", "daily_limit"}, Name: "Clerk", Instructions: "Help.", AllowedLineIDs: []string{"ln_1"}, DailyLimit: &five},
		&events.AgentActivated{AgentID: id, From: "draft"},
	}, made)
}

func TestServiceIdentityHasTheNameOfItsAgentAsLongAsItMayBe(t *testing.T) {
	t.Parallel()
	require.Equal(t, "Helper", agent.Properties{Name: "Helper"}.IdentityName())
	require.Equal(t, strings.Repeat("é", 80), agent.Properties{Name: strings.Repeat("é", 120)}.IdentityName())
}
