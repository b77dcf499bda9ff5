package rules_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/consent"
	"ledgerline/domain/fault"
	"ledgerline/domain/line"
	"ledgerline/domain/rules"
	"ledgerline/events"
)

var (
	noon   = time.Date(2026, 3, 2, 17, 0, 0, 0, time.UTC) // in New York
	limits = line.DefaultLimits()
)

func zone(name string) *time.Location {
	loc, err := time.LoadLocation(name)
	if err != nil {
		panic(err)
	}
	return loc
}

// candidate is an active line without use.
func candidate(id string) rules.Candidate {
	return rules.Candidate{Line: line.Line{ID: id, State: line.Active}}
}

// ready is a message that may leave: plain, at noon, to a contact that replied, by one line.
func ready() rules.Facts {
	return rules.Facts{
		Moment: rules.Leaving, Now: noon, Consent: consent.Unknown, Zones: []*time.Location{zone("America/New_York")},
		Window: rules.WindowOf(events.QuietHours{}), Replied: true, Body: "Your table is ready.", Limits: &limits, ContactID: "ctc_1",
		Candidates: []rules.Candidate{candidate("ln_1")},
	}
}

func TestConsentIsCheckedWhenAMessageIsAcceptedAndAgainBeforeItLeaves(t *testing.T) {
	t.Parallel()
	for _, moment := range []rules.Moment{rules.Accepting, rules.Leaving} {
		for _, row := range []struct {
			consent    consent.Status
			registered bool
			required   bool
			automatic  bool
			confirms   bool
			want       fault.Code
		}{
			{consent: consent.Unknown},
			{consent: consent.OptedIn},
			{consent: consent.OptedOut, want: fault.ContactOptedOut},
			{consent: consent.Unknown, registered: true, want: fault.ContactOptedOut},
			{consent: consent.OptedIn, required: true},
			{consent: consent.Unknown, required: true, want: fault.ConsentRequired},
			{consent: consent.OptedOut, required: true, want: fault.ContactOptedOut},
			{consent: consent.OptedOut, registered: true, automatic: true, confirms: true},
			{consent: consent.OptedOut, automatic: true, want: fault.ContactOptedOut},
			{consent: consent.Unknown, registered: true, automatic: true, want: fault.ContactOptedOut},
			{consent: consent.Unknown, required: true, automatic: true},
		} {
			f := ready()
			f.Confirmation = row.confirms
			f.Moment, f.Consent, f.Registered, f.RequireConsent, f.Automatic = moment, row.consent, row.registered, row.required, row.automatic
			v := rules.Check(f)
			if row.want == "" {
				require.Equal(t, rules.Send, v.Decision)
				require.NoError(t, v.Fault())
				continue
			}
			require.Equal(t, rules.Refuse, v.Decision)
			require.Equal(t, string(row.want), v.Code)
			require.True(t, fault.Is(v.Fault(), row.want))
		}
	}
}

func TestAnOptOutIsNotConfirmedAfterAnotherOptIn(t *testing.T) {
	t.Parallel()
	f := ready()
	f.Automatic, f.Confirmation = true, true
	for _, c := range []consent.Status{consent.OptedIn, consent.Unknown} {
		f.Consent = c
		v := rules.Check(f)
		require.Equal(t, []any{rules.Refuse, "canceled", "opted_in"}, []any{v.Decision, v.Code, v.Detail["reason"]})
	}
}

func TestAMessageWithoutALineIsDeferredUntilTheDeferralExpires(t *testing.T) {
	t.Parallel()
	f := ready()
	f.Candidates, f.NamedLineID = nil, "ln_1"
	v := rules.Check(f)
	require.Equal(t, rules.Defer, v.Decision)
	require.Equal(t, []string{"line_unavailable", "ln_1"}, []string{v.Deferral.Reason, v.Deferral.LineID})
	require.True(t, v.ForLine())
	require.NoError(t, v.Fault())
	f.ExpiresAt = noon.Add(1)
	require.Equal(t, rules.Defer, rules.Check(f).Decision)
	f.ExpiresAt = noon
	f.DeferredFor = "first_message_rules"
	expired := rules.Check(f)
	require.Equal(t, []any{"hold_expired", "first_message_rules"}, []any{expired.Code, expired.Detail["reason"]})
	f.Candidates = ready().Candidates
	require.Equal(t, rules.Send, rules.Check(f).Decision)
	f.Moment, f.Candidates = rules.Accepting, nil
	require.Equal(t, rules.Send, rules.Check(f).Decision)
}

func TestAServiceIdentitySendsAtMostItsDailyLimitPerUsageDay(t *testing.T) {
	t.Parallel()
	f := ready()
	ten := 10
	f.IdentityLimit, f.IdentityUsed = &ten, 9
	require.Equal(t, rules.Send, rules.Check(f).Decision)
	f.IdentityUsed = 10
	v := rules.Check(f)
	require.Equal(t, "identity_daily_limit", v.Deferral.Reason)
	require.Equal(t, line.DayOf(noon).End, *v.Deferral.Until)
	f.Routed = true
	require.Equal(t, rules.Send, rules.Check(f).Decision, "it has been counted")
}

func TestNothingLeavesAPausedOrganisationButAutomaticTexts(t *testing.T) {
	t.Parallel()
	f := ready()
	f.Paused = true
	v := rules.Check(f)
	require.Equal(t, rules.Defer, v.Decision)
	require.Equal(t, []any{"line_unavailable", "organisation_paused"}, []any{v.Deferral.Reason, v.Detail["rule"]})
	require.Nil(t, v.Deferral.Until)
	f.Automatic = true
	require.Equal(t, rules.Send, rules.Check(f).Decision)
}
