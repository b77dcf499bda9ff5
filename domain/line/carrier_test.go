package line_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/fault"
	"ledgerline/domain/line"
	"ledgerline/events"
)

func TestLineIsAssignedToACarrierWithTheAccountItNeeds(t *testing.T) {
	t.Parallel()
	l := line.Line{ID: "ln_1", State: line.Ready, Carrier: line.Simulator}
	account := events.CarrierAccount{URL: "https://mac.example.com:1234/bb", Password: "secret", Secret: "s", Method: line.PrivateAPI}
	configured, err := l.ConfigureCarrier(line.BlueBubbles, account)
	require.NoError(t, err)
	l = l.Apply(configured[0], events.Envelope{})
	require.Equal(t, line.BlueBubbles, l.Carrier)
	require.Equal(t, account, l.Account)

	renewed, err := l.ConfigureCarrier(line.BlueBubbles, events.CarrierAccount{Password: "another", Secret: "s"})
	require.NoError(t, err)
	require.Equal(t, events.CarrierAccount{URL: account.URL, Password: "another", Secret: "s", Method: line.PrivateAPI},
		l.Apply(renewed[0], events.Envelope{}).Account, "what is not given stays")
	scripted, err := l.ConfigureCarrier(line.BlueBubbles, events.CarrierAccount{Password: "secret", Method: line.AppleScript})
	require.NoError(t, err)
	renewed, err = l.Apply(scripted[0], events.Envelope{}).ConfigureCarrier(line.BlueBubbles, events.CarrierAccount{Password: "x"})
	require.NoError(t, err)
	require.Equal(t, line.AppleScript, l.Apply(renewed[0], events.Envelope{}).Account.Method)

	back, err := l.ConfigureCarrier(line.Simulator, account)
	require.NoError(t, err)
	require.Empty(t, l.Apply(back[0], events.Envelope{}).Account, "the simulator needs none")

	retired, err := l.MoveByOperator(line.Retired, nil)
	require.NoError(t, err)
	l = l.Apply(retired[0], events.Envelope{})
	require.Empty(t, l.Account)
	_, err = l.ConfigureCarrier(line.BlueBubbles, account)
	require.True(t, fault.Is(err, fault.Conflict))
	_, err = line.Line{IsSandbox: true}.ConfigureCarrier(line.BlueBubbles, account)
	require.True(t, fault.Is(err, fault.Conflict))
}

func TestAccountProblemsAreReportedTogether(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "mac", "ftp://mac", "https://", "https://me:pw@mac", "https://mac/?password=x", "https://mac/#x"} {
		_, err := line.Line{ID: "ln_1"}.ConfigureCarrier(line.BlueBubbles, events.CarrierAccount{URL: address, Method: "x"})
		require.Len(t, fault.Of(err).Issues, 3, address)
	}
	_, err := line.Line{ID: "ln_1"}.ConfigureCarrier("pigeons", events.CarrierAccount{})
	require.Len(t, fault.Of(err).Issues, 1)
}
