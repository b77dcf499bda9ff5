package eventstore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/events"
	"ledgerline/eventstore"
)

func TestLoadManyFoldsStreamsInOrderAndCachesOnlyWhatWasCachedBefore(t *testing.T) {
	t.Parallel()
	h := newTestLedger(t, 1)
	ctx := t.Context()
	loader := eventstore.NewAggregateLoader(h.Ledger, 10, func(s []string, r *eventstore.Recorded) []string {
		name := "?"
		switch e := r.Event.(type) {
		case *events.TeamCreated:
			name = e.Name
		case *events.ContactCreated:
			name = e.Person.Phone
		}
		return append(append([]string(nil), s...), name)
	})
	write := func(streams ...eventstore.StreamEvents) {
		_, err := h.Append(ctx, h.write(streams...))
		require.NoError(t, err)
	}
	write(one("team_b", eventstore.NoStream, team("b1"), team("b2")), one("ctc_1", eventstore.NoStream, contact("ctc_1", "+12025550123")), one("team_a", eventstore.NoStream, team("a1")))
	_, err := loader.Load(ctx, "team_a")
	require.NoError(t, err)
	write(one("team_a", 1, team("a2")))

	found, err := loader.LoadMany(ctx, []string{"team_b", "team_none", "team_a", "ctc_1"})
	require.NoError(t, err)
	require.Equal(t, []eventstore.Aggregate[[]string]{
		{Stream: "team_b", Version: 2, State: []string{"b1", "b2"}},
		{Stream: "team_none"},
		{Stream: "team_a", Version: 2, State: []string{"a1", "a2"}},
		{Stream: "ctc_1", Version: 1, State: []string{"+12025550123"}},
	}, found)
	require.True(t, loader.IsCached("team_a"))
	for _, stream := range []string{"team_b", "team_none", "ctc_1"} {
		require.False(t, loader.IsCached(stream), stream)
	}
	known, err := loader.LoadCached(ctx, "team_a")
	require.NoError(t, err)
	require.Equal(t, 2, known.Version, "LoadMany brings cached aggregates up to date")
	none, err := loader.LoadMany(ctx, nil)
	require.NoError(t, err)
	require.Empty(t, none)
}
