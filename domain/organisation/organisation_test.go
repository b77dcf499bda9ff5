package organisation_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/fault"
	"ledgerline/domain/organisation"
	"ledgerline/events"
)

func TestOrganisationNeedsANameAndATimeZone(t *testing.T) {
	t.Parallel()
	made, err := organisation.Create(uuid.New(), "Acme", "Europe/Berlin")
	require.NoError(t, err)
	o := organisation.Organisation{}.Apply(made[0], events.Envelope{})
	require.True(t, o.Exists())
	require.Equal(t, organisation.Settings{}, o.Settings)
	for _, zone := range []string{"", "Local", "Mars/Olympus"} {
		_, err := organisation.Create(uuid.New(), " ", zone)
		require.Len(t, fault.Of(err).Issues, 2, zone)
	}
	require.Error(t, organisation.CheckName("/name", strings.Repeat("ä", 121), 120))
	require.NoError(t, organisation.CheckName("/name", strings.Repeat("ä", 120), 120))
}

func TestPauseAndResumeAreEachRecordedOnce(t *testing.T) {
	t.Parallel()
	o := organisation.Organisation{ID: uuid.New()}
	do := func(changed []events.Event, err error) int {
		require.NoError(t, err)
		for _, e := range changed {
			o = o.Apply(e, events.Envelope{})
		}
		return len(changed)
	}
	require.Equal(t, 0, do(o.Resume()))
	require.Equal(t, 1, do(o.Pause("unpaid")))
	require.Equal(t, []any{true, "unpaid"}, []any{o.Paused, o.PauseReason})
	require.Equal(t, 0, do(o.Pause("again")))
	require.Equal(t, 1, do(o.Resume()))
	require.False(t, o.Paused)
	_, err := o.Pause(strings.Repeat("ä", 501))
	require.Equal(t, "/reason", fault.Of(err).Issues[0].Path)
}

func TestUserHasOneRoleInAWorkspace(t *testing.T) {
	t.Parallel()
	o, one, two := organisation.Organisation{ID: uuid.New()}, uuid.New(), uuid.New()
	made, err := o.CreateUser(uuid.New(), events.UserPersonal{FullName: "Ada", Email: "ada@example.com"})
	require.NoError(t, err)
	u := organisation.User{}.Apply(made[0], events.Envelope{})
	require.False(t, u.MemberOf(one))
	grant := func(u organisation.User, workspace uuid.UUID, role organisation.Role) organisation.User {
		granted, err := u.GrantRole(workspace, role)
		require.NoError(t, err)
		for _, e := range granted {
			u = u.Apply(e, events.Envelope{})
		}
		return u
	}
	first := grant(u, one, organisation.Agent)
	second := grant(grant(first, one, organisation.Admin), two, organisation.Analyst)
	require.Equal(t, map[uuid.UUID]organisation.Role{one: organisation.Agent}, first.Roles, "an older state stays as it was")
	require.Equal(t, map[uuid.UUID]organisation.Role{one: organisation.Admin, two: organisation.Analyst}, second.Roles)
	again, err := second.GrantRole(one, organisation.Admin)
	require.NoError(t, err)
	require.Empty(t, again)
	_, err = second.GrantRole(one, "god")
	require.True(t, fault.Is(err, fault.ValidationFailed))
	gone := second.Apply(second.RevokeRole(one)[0], events.Envelope{})
	require.True(t, second.MemberOf(one), "an older state stays as it was")
	require.False(t, gone.MemberOf(one))
	require.Empty(t, gone.RevokeRole(one))
}

func TestRevokedSessionsAreThoseThatWereIssuedUntilThen(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 17, 0, 0, 700, time.UTC)
	user := organisation.User{}.Apply(&events.UserCreated{UserID: uuid.Max}, events.Envelope{})
	require.True(t, user.AcceptsSession(time.Time{}), "a token without a time of issue is valid until sessions are revoked")
	list := user.RevokeSessions(now)
	require.Equal(t, []events.Event{&events.SessionsRevoked{UserID: uuid.Max, Until: now.Truncate(time.Second)}}, list)
	user = user.Apply(list[0], events.Envelope{})
	require.False(t, user.AcceptsSession(time.Time{}))
	require.False(t, user.AcceptsSession(now.Truncate(time.Second)))
	require.True(t, user.AcceptsSession(now.Truncate(time.Second).Add(time.Second)))
	require.Empty(t, user.RevokeSessions(now), "they are revoked already")
}

func TestUserNeedsANameAndAnEmailAddress(t *testing.T) {
	t.Parallel()
	for _, email := range []string{"", "x", "Ada <ada@example.com>"} {
		_, err := organisation.Organisation{}.CreateUser(uuid.New(), events.UserPersonal{Email: email})
		require.Len(t, fault.Of(err).Issues, 2, email)
	}
}

func TestTeamMemberIsAddedOnce(t *testing.T) {
	t.Parallel()
	made, err := organisation.CreateTeam(uuid.New(), "Support")
	require.NoError(t, err)
	team, ada := organisation.Team{}.Apply(made[0], events.Envelope{}), uuid.New()
	team = team.Apply(team.AddMember(ada)[0], events.Envelope{})
	require.Empty(t, team.AddMember(ada))
	_, err = organisation.CreateTeam(uuid.New(), "")
	require.True(t, fault.Is(err, fault.ValidationFailed))
}

func TestAutomaticTextsNameTheOrganisation(t *testing.T) {
	t.Parallel()
	o := organisation.Organisation{Name: "Acme"}
	require.Contains(t, o.ConfirmationText(), "Acme")
	require.Contains(t, o.HelpText(), "Acme")
	o.Settings.OptOutConfirmation = "Bye."
	require.Equal(t, "Bye.", o.ConfirmationText())
}
