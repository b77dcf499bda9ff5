package line_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/fault"
	"ledgerline/domain/line"
	"ledgerline/events"
)

func ptr[T any](v T) *T { return &v }

func TestLineUpdateMergesTheContactCardAndRecordsOnlyWhatChanges(t *testing.T) {
	t.Parallel()
	l := line.Line{ID: "ln_1", State: line.Active, PoolID: "pool_1", DisplayName: "One", Card: events.ContactCard{Name: "Acme", ImageURL: "https://a/1.png"}}
	changed, err := l.Update(line.Change{
		DisplayName: line.TextSetting{Given: true}, Pool: line.PoolSetting{Given: true, Value: ptr("pool_2")}, CardImage: ptr("https://a/2.png"),
	})
	require.NoError(t, err)
	require.Equal(t, []events.Event{&events.LineUpdated{
		LineID: "ln_1", Changed: []string{"display_name", "pool_id", "contact_card"}, PoolID: ptr("pool_2"),
		ContactCard: events.ContactCard{Name: "Acme", ImageURL: "https://a/2.png"},
	}}, changed)
	l = l.Apply(changed[0], events.Envelope{})
	require.Empty(t, l.DisplayName)
	require.Equal(t, "pool_2", l.PoolID)
	for _, c := range []line.Change{{}, {DisplayName: line.TextSetting{Given: true}, Pool: line.PoolSetting{Given: true, Value: ptr("pool_2")}, CardName: ptr("Acme")}} {
		same, err := l.Update(c)
		require.NoError(t, err)
		require.Empty(t, same)
	}
	cleared, err := l.Update(line.Change{CardName: ptr(""), CardImage: ptr(""), Pool: line.PoolSetting{Given: true}})
	require.NoError(t, err)
	l = l.Apply(cleared[0], events.Envelope{})
	require.Empty(t, l.Card)
	require.Empty(t, l.PoolID)
}

func TestInvalidChangesOfALineAreRefused(t *testing.T) {
	t.Parallel()
	_, err := line.Line{State: line.Active}.Update(line.Change{
		DisplayName: line.TextSetting{Given: true, Value: strings.Repeat("ä", 81)}, CardName: ptr(strings.Repeat("ä", 101)), CardImage: ptr("http://a/1.png"),
	})
	require.Len(t, fault.Of(err).Issues, 3)
	_, err = line.Line{State: line.Active}.Update(line.Change{CardImage: ptr("https://a/" + strings.Repeat("x", 2048))})
	require.Len(t, fault.Of(err).Issues, 1)
	_, err = line.Line{State: line.Retired}.Update(line.Change{CardName: ptr("x")})
	require.True(t, fault.Is(err, fault.Conflict))
	_, err = line.Line{State: line.Active, IsSandbox: true}.Update(line.Change{Pool: line.PoolSetting{Given: true, Value: ptr("pool_1")}})
	require.True(t, fault.Is(err, fault.Conflict))
}

func TestPoolUpdateKeepsItsLines(t *testing.T) {
	t.Parallel()
	made, err := line.CreatePool(events.PoolCreated{PoolID: "pool_1", Name: " A ", Rotation: "sticky", FallbackSMSMode: "off"})
	require.NoError(t, err)
	p := line.Pool{}.Apply(made[0], events.Envelope{})
	require.Equal(t, "A", p.Name)
	apply := func(list []events.Event, err error) {
		require.NoError(t, err)
		require.Len(t, list, 1)
		p = p.Apply(list[0], events.Envelope{})
	}
	apply(p.AddLine("ln_1"), nil)
	require.Empty(t, p.AddLine("ln_1"))
	apply(p.Update(line.PoolChange{Name: ptr("B"), Rotation: ptr(line.RoundRobin), Fallback: ptr(line.FallbackNotChat)}))
	require.Equal(t, line.Pool{ID: "pool_1", Name: "B", Rotation: line.RoundRobin, Fallback: line.FallbackNotChat, LineIDs: []string{"ln_1"}}, p)
	apply(p.Update(line.PoolChange{Fallback: ptr(line.FallbackOff)}))
	same, err := p.Update(line.PoolChange{Name: ptr("B"), Rotation: ptr(line.RoundRobin), Fallback: ptr(line.FallbackOff)})
	require.NoError(t, err)
	require.Empty(t, same)
	apply(p.RemoveLine("ln_1"), nil)
	require.Empty(t, p.LineIDs)
	require.Empty(t, p.RemoveLine("ln_1"))
	_, err = p.Update(line.PoolChange{Name: ptr(" "), Rotation: ptr(line.Rotation("x")), Fallback: ptr(line.FallbackMode("x"))})
	require.Len(t, fault.Of(err).Issues, 3)
}

func TestWorkspaceHasAtMostFiveOpenRequestsForLines(t *testing.T) {
	t.Parallel()
	var r line.Requests
	apply := func(list []events.Event, err error) {
		t.Helper()
		require.NoError(t, err)
		for _, e := range list {
			r = r.Apply(e, events.Envelope{})
		}
	}
	ids := make([]uuid.UUID, 5)
	for i := range ids {
		ids[i] = uuid.New()
		apply(r.Add(events.LineRequestMade{RequestID: ids[i], Count: 2}))
	}
	sixth := events.LineRequestMade{RequestID: uuid.New(), Count: 1}
	_, err := r.Add(sixth)
	require.True(t, fault.Is(err, fault.Conflict))

	apply(r.Start(ids[0]))
	started, err := r.Start(ids[0])
	require.NoError(t, err)
	require.Empty(t, started, "once")
	_, err = r.Add(sixth)
	require.True(t, fault.Is(err, fault.Conflict), "one in progress is open")
	apply(r.AddLine(ids[0], "ln_1"))
	require.Len(t, r.Open, 5)
	apply(r.AddLine(ids[0], "ln_2"))
	require.Len(t, r.Open, 4, "the last line closes it")
	apply(r.Add(sixth))
	apply(r.Cancel(ids[1], ptr("no such numbers")))
	apply(r.Fulfil(ids[2]))
	require.Len(t, r.Open, 3)
	for _, closed := range ids[:3] {
		for _, move := range []func() ([]events.Event, error){
			func() ([]events.Event, error) { return r.Start(closed) }, func() ([]events.Event, error) { return r.AddLine(closed, "ln_3") },
			func() ([]events.Event, error) { return r.Fulfil(closed) }, func() ([]events.Event, error) { return r.Cancel(closed, nil) },
		} {
			_, err := move()
			require.True(t, fault.Is(err, fault.NotFound))
		}
	}
}

func TestProblemsOfARequestForLinesAreReportedTogether(t *testing.T) {
	t.Parallel()
	codes := make([]string, 11)
	for i := range codes {
		codes[i] = fmt.Sprint(200 + i)
	}
	codes[1], codes[2] = "", "a code that is none"
	err := line.CheckRequest(&events.LineRequestMade{Count: 51, AreaCodes: codes, Note: ptr(strings.Repeat("x", 1001))})
	require.Len(t, fault.Of(err).Issues, 5)
	require.NoError(t, line.CheckRequest(&events.LineRequestMade{Count: 50, AreaCodes: []string{"415", "212"}}))
}
