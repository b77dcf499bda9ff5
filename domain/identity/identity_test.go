package identity_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/apikey"
	"ledgerline/domain/fault"
	"ledgerline/domain/identity"
	"ledgerline/events"
)

func made(t *testing.T, e events.IdentityCreated, by *apikey.Grantor) identity.Identity {
	t.Helper()
	list, err := identity.Create(e, by)
	require.NoError(t, err)
	return folded(identity.Identity{}, list)
}

func folded(i identity.Identity, list []events.Event) identity.Identity {
	for _, e := range list {
		i = i.Apply(e, events.Envelope{})
	}
	return i
}

func bot() events.IdentityCreated {
	return events.IdentityCreated{IdentityID: uuid.New(), Name: "bot", Kind: "mcp_client", Env: "live", Scopes: []string{"send", "read"}, KeyID: "key_1"}
}

func TestIdentityUpdateRecordsOnlyWhatChanges(t *testing.T) {
	t.Parallel()
	i := made(t, bot(), nil)
	limit, disabled, name := int64(5), true, "bot"
	for _, nothing := range []identity.Change{{}, {Name: &name}, {Scopes: []string{"read", "send"}}, {AllowedLineIDs: &[]string{}}, {SetDailyLimit: true}} {
		list, err := i.Update(nothing, nil)
		require.NoError(t, err)
		require.Empty(t, list)
	}
	list, err := i.Update(identity.Change{DailyLimit: &limit, SetDailyLimit: true, Scopes: []string{"send"}, Disabled: &disabled}, nil)
	require.NoError(t, err)
	require.Len(t, list, 2)
	updated, ok := list[0].(*events.IdentityUpdated)
	require.True(t, ok)
	require.Equal(t, []string{"scopes", "daily_limit"}, updated.Changed)
	i = folded(i, list)
	require.True(t, i.Disabled)
	require.Equal(t, []apikey.Scope{apikey.Send}, i.Scopes)
	again, err := i.Update(identity.Change{Disabled: &disabled}, nil)
	require.NoError(t, err)
	require.Empty(t, again)
	disabled = false
	list, err = i.Update(identity.Change{Disabled: &disabled}, nil)
	require.NoError(t, err)
	require.False(t, folded(i, list).Disabled)
}

func TestIdentityOfAnAgentIsChangedOnlyThroughItsAgent(t *testing.T) {
	t.Parallel()
	e := bot()
	e.Kind, e.KeyID, e.Env = "ai_agent", "", ""
	i := made(t, e, nil)
	name := "other"
	_, err := i.Update(identity.Change{Name: &name}, nil)
	require.True(t, fault.Is(err, fault.Conflict))
	require.True(t, fault.Is(i.MayChangeToken(), fault.Conflict))
	list, err := i.UpdateAnyKind(identity.Change{Name: &name}, nil)
	require.NoError(t, err)
	require.Equal(t, "other", folded(i, list).Name)
	require.NoError(t, made(t, bot(), nil).MayChangeToken())
}

func TestIdentityWithoutAllowedLinesSendsFromEveryLine(t *testing.T) {
	t.Parallel()
	e := bot()
	require.True(t, made(t, e, nil).MaySendFrom("ln_1"))
	e.AllowedLineIDs = []string{"ln_2", "ln_2"}
	i := made(t, e, nil)
	require.Equal(t, []string{"ln_2"}, i.AllowedLineIDs)
	require.False(t, i.MaySendFrom("ln_1"))
	require.True(t, i.MaySendFrom("ln_2"))
}

func TestEnvironmentOfATokenIsLiveOrTest(t *testing.T) {
	t.Parallel()
	for _, env := range []string{"", "prod"} {
		e := bot()
		e.Env = env
		_, err := identity.Create(e, nil)
		require.Equal(t, "/env", fault.Of(err).Issues[0].Path)
	}
}
