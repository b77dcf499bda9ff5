package line_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/fault"
	"ledgerline/domain/line"
	"ledgerline/events"
)

func TestLineCanSendOnlyWhenReadyWarmingActiveOrThrottled(t *testing.T) {
	t.Parallel()
	for _, s := range line.States() {
		want := slices.Contains([]line.State{line.Ready, line.Warming, line.Active, line.Throttled}, s)
		require.Equal(t, want, line.Line{State: s}.CanSend(), s)
	}
	require.False(t, line.Line{}.CanSend())
}

func TestReadyLineStartsWarmingWithItsFirstMessage(t *testing.T) {
	t.Parallel()
	moved := line.Line{ID: "ln_1", State: line.Ready}.StartWarming()
	require.Len(t, moved, 1)
	require.Equal(t, line.Warming, line.Line{}.Apply(moved[0], events.Envelope{}).State)
	require.Empty(t, line.Line{State: line.Warming}.StartWarming())
}

func TestOperatorMovesALineBetweenTheAllowedStatesOnly(t *testing.T) {
	t.Parallel()
	allowed := map[line.State][]line.State{
		line.Ready:       {line.Provisioning, line.Paused, line.Quarantined},
		line.Quarantined: {line.Provisioning, line.Ready, line.Warming, line.Active, line.Throttled, line.Paused},
		line.Retired:     {line.Provisioning, line.Ready, line.Warming, line.Active, line.Throttled, line.Paused, line.Quarantined},
	}
	for to, froms := range allowed {
		for _, from := range line.States() {
			moved, err := line.Line{ID: "ln_1", State: from}.MoveByOperator(to, nil)
			if !slices.Contains(froms, from) {
				require.True(t, fault.Is(err, fault.Conflict), "%s to %s", from, to)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, []events.Event{&events.LineStateChanged{LineID: "ln_1", From: string(from), To: string(to)}}, moved)
		}
	}
	_, err := line.Line{State: line.Ready}.MoveByOperator(line.Active, nil)
	require.True(t, fault.Is(err, fault.ValidationFailed))
}

func TestNamesAndReasonsAreBoundedForEveryCaller(t *testing.T) {
	t.Parallel()
	edge, past := strings.Repeat("ä", 500), strings.Repeat("ä", 501)
	moves := map[string]func(string) error{
		"pause":  func(r string) error { _, err := line.Line{State: line.Active}.Pause(r); return err },
		"resume": func(r string) error { _, err := line.Line{State: line.Paused}.Resume(r); return err },
		"operate": func(r string) error {
			_, err := line.Line{State: line.Active}.MoveByOperator(line.Retired, &r)
			return err
		},
		"cancel": func(r string) error {
			id := uuid.New()
			_, err := line.Requests{Open: []line.Request{{ID: id}}}.Cancel(id, &r)
			return err
		},
	}
	for name, move := range moves {
		require.NoError(t, move(edge), name)
		require.Equal(t, "/reason", fault.Of(move(past)).Issues[0].Path, name)
	}
	name := strings.Repeat("ä", 81)
	_, err := line.Provision(events.LineProvisioned{LineID: "ln_1", Carrier: line.Simulator, State: string(line.Ready), DisplayName: &name})
	require.Equal(t, "/display_name", fault.Of(err).Issues[0].Path)
}

func TestSandboxLineCannotBeQuarantinedOrRetired(t *testing.T) {
	t.Parallel()
	for _, from := range line.States() {
		for _, to := range []line.State{line.Quarantined, line.Retired} {
			_, err := line.Line{ID: "ln_1", State: from, IsSandbox: true}.MoveByOperator(to, nil)
			require.True(t, fault.Is(err, fault.Conflict), "%s to %s", from, to)
		}
	}
	_, err := line.Line{State: line.Quarantined, IsSandbox: true}.MoveByOperator(line.Ready, nil)
	require.NoError(t, err)
}

func TestLineIsMadeReadyOnlyWithTheAccountThatItsCarrierNeeds(t *testing.T) {
	t.Parallel()
	for _, s := range []line.State{line.Ready, line.Warming, line.Active} {
		_, err := line.Provision(events.LineProvisioned{LineID: "ln_1", Carrier: line.BlueBubbles, State: string(s)})
		require.True(t, fault.Is(err, fault.ValidationFailed), s)
		require.False(t, line.Line{Carrier: line.BlueBubbles, State: s}.CanSend(), s)
	}
	made, err := line.Provision(events.LineProvisioned{LineID: "ln_1", Carrier: line.BlueBubbles, State: string(line.Provisioning)})
	require.NoError(t, err)
	l := line.Line{}.Apply(made[0], events.Envelope{})
	_, err = l.MoveByOperator(line.Ready, nil)
	require.True(t, fault.Is(err, fault.Conflict))
	account, err := l.ConfigureCarrier(line.BlueBubbles, events.CarrierAccount{URL: "https://mac.example", Password: "x", Method: line.PrivateAPI})
	require.NoError(t, err)
	l = l.Apply(account[0], events.Envelope{})
	opened, err := l.MoveByOperator(line.Ready, nil)
	require.NoError(t, err)
	require.True(t, l.Apply(opened[0], events.Envelope{}).CanSend())
}

func TestLineStartsAsProvisioningReadyWarmingOrActive(t *testing.T) {
	t.Parallel()
	pool := "pool_1"
	in := events.Envelope{Organisation: uuid.New(), Workspace: uuid.New()}
	made, err := line.Provision(events.LineProvisioned{LineID: "ln_1", Phone: "+1", PoolID: &pool, Carrier: "simulator", State: "active"})
	require.NoError(t, err)
	require.Equal(t, line.Line{
		ID: "ln_1", Organisation: in.Organisation, Workspace: in.Workspace, Phone: "+1", PoolID: pool, Carrier: "simulator", State: line.Active, Health: 100,
	}, line.Line{}.Apply(made[0], in))
	for _, s := range []line.State{"", line.Paused, line.Retired, "x"} {
		_, err := line.Provision(events.LineProvisioned{State: string(s), Carrier: "simulator"})
		require.True(t, fault.Is(err, fault.ValidationFailed), s)
	}
}

func TestPoolAddsAndRemovesEachLineOnce(t *testing.T) {
	t.Parallel()
	made, err := line.CreatePool(events.PoolCreated{PoolID: "pool_1", Name: "A", Rotation: "sticky"})
	require.NoError(t, err)
	empty := line.Pool{}.Apply(made[0], events.Envelope{})
	full := empty.Apply(&events.PoolLineAdded{PoolID: "pool_1", LineID: "ln_1"}, events.Envelope{})
	require.Empty(t, empty.LineIDs, "an older state stays as it was")
	require.Equal(t, []string{"ln_1"}, full.LineIDs)
	_, err = line.CreatePool(events.PoolCreated{Name: " ", Rotation: "x"})
	require.Len(t, fault.Of(err).Issues, 2)
}
