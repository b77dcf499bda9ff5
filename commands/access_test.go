package commands_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/commands"
	"ledgerline/domain/apikey"
	"ledgerline/domain/fault"
	"ledgerline/domain/line"
	"ledgerline/domain/organisation"
)

func TestAPIKeyIsFoundByItsSecretUntilRevokedOrExpired(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	expires := noon.Add(time.Hour)
	k, err := h.CreateAPIKey(t.Context(), h.live(), commands.CreateAPIKey{Name: "ci", Env: apikey.Test, Scopes: []string{"send", "read"}, ExpiresAt: &expires})
	require.NoError(t, err)
	require.Regexp(t, `^ll_test_`+k.Prefix+`[a-z2-7]{40}$`, k.Secret)
	access, err := h.FindKeyAccess(t.Context(), k.Secret, true)
	require.NoError(t, err)
	require.Equal(t, []any{k.ID, h.wsp.ID, h.org, "Acme"}, []any{access.Key.ID, access.Key.Workspace, access.Organisation.ID, access.Organisation.Name})
	require.True(t, access.Key.HasScope(apikey.Read) && access.Key.HasScope(apikey.Send) && !access.Key.HasScope(apikey.Admin))
	require.Len(t, access.Guards, 2)

	for _, wrong := range []string{"", "ll_live_", k.Secret + "a", strings.Replace(k.Secret, "test", "live", 1), k.Secret[:len(k.Secret)-1] + "\x00"} {
		_, err := h.FindKeyAccess(t.Context(), wrong, false)
		require.True(t, fault.Is(err, fault.Unauthorized), wrong)
	}
	_, err = h.clock.Advance(time.Hour)
	require.NoError(t, err)
	_, err = h.FindKeyAccess(t.Context(), k.Secret, false)
	require.True(t, fault.Is(err, fault.Unauthorized))

	revoked := h.key(apikey.Live, "admin")
	for range 2 {
		_, err = h.RevokeAPIKey(t.Context(), h.live(), revoked.ID, nil)
		require.NoError(t, err)
	}
	_, err = h.FindKeyAccess(t.Context(), revoked.Secret, false)
	require.True(t, fault.Is(err, fault.Unauthorized))
}

func TestSecretOfAnotherInstallationIsRefusedWithoutAQuery(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.ledger.Pool().Close()
	_, err := h.FindKeyAccess(t.Context(), "ll_live_"+strings.Repeat("a", 48), true)
	require.True(t, fault.Is(err, fault.Unauthorized))
}

func TestUserIsFoundWithItsRoles(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	second := h.workspace("Second")
	_, err := h.GrantRole(t.Context(), h.in(second), h.user, organisation.Agent)
	require.NoError(t, err)
	access, err := h.FindUserAccess(t.Context(), h.user, true)
	require.NoError(t, err)
	require.Equal(t, map[uuid.UUID]organisation.Role{h.wsp.ID: organisation.Manager, second.ID: organisation.Agent}, access.User.Roles)
	_, err = h.RevokeRole(t.Context(), h.in(second), h.user)
	require.NoError(t, err)
	access, err = h.FindUserAccess(t.Context(), h.user, false)
	require.NoError(t, err)
	require.False(t, access.User.MemberOf(second.ID))
	_, err = h.FindUserAccess(t.Context(), uuid.New(), false)
	require.True(t, fault.Is(err, fault.Unauthorized))
}

func TestPausingTheOrganisationInvalidatesTheGuardsOfCallers(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	access, err := h.FindUserAccess(t.Context(), h.user, true)
	require.NoError(t, err)
	_, err = h.PauseOrganisation(t.Context(), h.live(), "unpaid")
	require.NoError(t, err)
	req := h.live()
	req.Guards = access.Guards
	_, err = h.CreateLabel(t.Context(), req, "x", nil)
	require.ErrorIs(t, err, commands.ErrCredentialChanged)
	access, err = h.FindUserAccess(t.Context(), h.user, true)
	require.NoError(t, err)
	require.True(t, access.Organisation.Paused)
	_, err = h.ResumeOrganisation(t.Context(), h.live())
	require.NoError(t, err)
}

func TestCommandThatAppendsNothingStillVerifiesItsCaller(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	contact := h.contact("+12125550142")
	req := h.live()
	access, err := h.FindUserAccess(t.Context(), h.user, true)
	require.NoError(t, err)
	req.Guards = access.Guards
	idle := func() (errs []error) {
		_, nothing := h.UpdateContact(t.Context(), req, contact, commands.UpdateContact{})
		_, refusal := h.UpdateContact(t.Context(), req, "ctc_none", commands.UpdateContact{})
		_, preview := h.PreviewMessage(t.Context(), req, text("+12125550142"))
		return append(errs, nothing, refusal, preview)
	}
	before := idle()
	require.NoError(t, before[0])
	require.True(t, fault.Is(before[1], fault.NotFound))
	require.NoError(t, before[2])
	elsewhere, _ := h.node()
	_, err = elsewhere.RevokeRole(t.Context(), h.live(), h.user)
	require.NoError(t, err)
	for _, err := range idle() {
		require.ErrorIs(t, err, commands.ErrCredentialChanged)
	}
}

func TestNamesAndLineNumbersAreUnique(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	_, err := h.CreateLabel(t.Context(), h.live(), "Lead", nil)
	require.NoError(t, err)
	_, err = h.CreateLabel(t.Context(), h.live(), "lead ", nil)
	require.True(t, fault.Is(err, fault.Conflict))
	_, err = h.CreatePool(t.Context(), h.live(), commands.CreatePool{Name: "DEFAULT", Rotation: line.Sticky})
	require.True(t, fault.Is(err, fault.Conflict))
	_, err = h.ProvisionLine(t.Context(), h.live(), commands.ProvisionLine{Phone: linePhone})
	require.True(t, fault.Is(err, fault.Conflict))
}

func TestTeamMembersMustBelongToTheWorkspace(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	made, err := h.CreateTeam(t.Context(), h.live(), "Support", h.user)
	require.NoError(t, err)
	team := uuid.MustParse(made.Ref)
	again, err := h.AddTeamMember(t.Context(), h.live(), team, h.user)
	require.NoError(t, err)
	require.GreaterOrEqual(t, again.Position, made.Position)
	second := h.workspace("Second")
	_, err = h.AddTeamMember(t.Context(), h.in(second), team, h.user)
	require.True(t, fault.Is(err, fault.NotFound))
	_, err = h.CreateTeam(t.Context(), h.in(second), "Sales", h.user)
	require.True(t, fault.Is(err, fault.ValidationFailed))
}
