package sending_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/consent"
	"ledgerline/domain/fault"
	"ledgerline/domain/sending"
)

func TestConsentDecidesAtAcceptingAndAgainBeforeLeaving(t *testing.T) {
	t.Parallel()
	for _, moment := range []sending.Moment{sending.Accepting, sending.Leaving} {
		for _, row := range []struct {
			consent    consent.Status
			registered bool
			required   bool
			automatic  bool
			want       fault.Code
		}{
			{consent: consent.Unknown},
			{consent: consent.OptedIn},
			{consent: consent.OptedOut, want: fault.ContactOptedOut},
			{consent: consent.Unknown, registered: true, want: fault.ContactOptedOut},
			{consent: consent.OptedIn, required: true},
			{consent: consent.Unknown, required: true, want: fault.ConsentRequired},
			{consent: consent.OptedOut, required: true, want: fault.ContactOptedOut},
			{consent: consent.OptedOut, registered: true, automatic: true},
		} {
			v := sending.Check(sending.Facts{
				Moment: moment, Consent: row.consent, Registered: row.registered, RequireConsent: row.required, Automatic: row.automatic, LineFound: true,
			})
			if row.want == "" {
				require.Equal(t, sending.Verdict{}, v)
				require.NoError(t, v.Fault())
				continue
			}
			require.Equal(t, sending.Refuse, v.Outcome)
			require.Equal(t, string(row.want), v.Code)
			require.True(t, fault.Is(v.Fault(), row.want))
		}
	}
}

func TestAMessageWithoutALineIsHeldUntilTheHoldExpires(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f := sending.Facts{Moment: sending.Leaving, Now: noon, Consent: consent.Unknown, NamedLineID: "ln_1"}
	v := sending.Check(f)
	require.Equal(t, sending.Hold, v.Outcome)
	require.Equal(t, []string{"line_unavailable", "ln_1"}, []string{v.Hold.Reason, v.Hold.LineID})
	require.NoError(t, v.Fault())
	f.HoldEnds = noon.Add(1)
	require.Equal(t, sending.Hold, sending.Check(f).Outcome)
	f.HoldEnds = noon
	require.Equal(t, "hold_expired", sending.Check(f).Code)
	f.LineFound = true
	require.Equal(t, sending.Go, sending.Check(f).Outcome)
	f.Moment, f.LineFound = sending.Accepting, false
	require.Equal(t, sending.Go, sending.Check(f).Outcome)
}
