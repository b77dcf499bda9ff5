package rules_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/line"
	"ledgerline/domain/rules"
	"ledgerline/events"
)

// plan is a workspace with the lines own (no pool) and a, b (pool p), each with capacity for one message to a new
// contact.
func plan(change func(*rules.Capacity)) *rules.Capacity {
	c := &rules.Capacity{
		Lines: map[string]*rules.LineCapacity{}, Pools: map[string][]string{"p": {"a", "b"}},
		MaySendFrom: func(identityID, lineID string) bool { return identityID == "only "+lineID },
	}
	for _, id := range []string{"own", "a", "b"} {
		c.Lines[id] = &rules.LineCapacity{Line: line.Line{ID: id, State: line.Active}, Sends: 1, New: 1, Texts: map[string]int{}}
	}
	if change != nil {
		change(c)
	}
	return c
}

func TestTheLineForAnEntryFollowsTheOrderOfLines(t *testing.T) {
	t.Parallel()
	pause := func(ids ...string) func(*rules.Capacity) {
		return func(c *rules.Capacity) {
			for _, id := range ids {
				c.Lines[id].Line.State = line.Paused
			}
		}
	}
	full := func(ids ...string) func(*rules.Capacity) {
		return func(c *rules.Capacity) {
			for _, id := range ids {
				c.Lines[id].New = 0
			}
		}
	}
	own := events.WantedCapacity{LineID: "own", NewContact: true, PoolID: "p"}
	for name, row := range map[string]struct {
		wants  events.WantedCapacity
		change func(*rules.Capacity)
		want   string // "" for none
	}{
		"the own line comes first":                           {own, nil, "own"},
		"the own line is waited for while it can send":       {own, full("own"), ""},
		"an own line that cannot send leaves it to the pool": {own, pause("own"), "a"},
		"the least used line of the pool":                    {events.WantedCapacity{PoolID: "p"}, func(c *rules.Capacity) { c.Lines["a"].Used = 1 }, "b"},
		"a line without capacity for new contacts":           {events.WantedCapacity{PoolID: "p"}, full("a"), "b"},
		"a known line needs none of it":                      {events.WantedCapacity{PoolID: "p", KnownLineIDs: []string{"b"}}, full("a", "b"), "b"},
		"a restricted sender uses its lines alone":           {events.WantedCapacity{PoolID: "p", IdentityID: "only b"}, full("b"), ""},
		"a text that is used up on all lines":                {events.WantedCapacity{PoolID: "p", TextHash: "t"}, nil, ""},
		"a text that one line has not used up":               {events.WantedCapacity{PoolID: "p", TextHash: "t"}, func(c *rules.Capacity) { c.Lines["b"].Texts["t"] = 1 }, "b"},
		"nothing while the organisation is paused":           {own, func(c *rules.Capacity) { c.Paused = true }, ""},
		"a named line that is paused":                        {events.WantedCapacity{LineID: "own"}, pause("own"), ""},
		"a named line that is retired: the message has to fail": {
			events.WantedCapacity{LineID: "own"}, func(c *rules.Capacity) { c.Lines["own"].Line.State = line.Retired }, "own",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lineID, fits := plan(row.change).LineFor(&row.wants)
			require.Equal(t, row.want != "", fits)
			if fits {
				require.Equal(t, row.want, lineID)
			}
		})
	}
}

func TestReservedCapacityIsNotOfferedAgainUntilItIsReleased(t *testing.T) {
	t.Parallel()
	c := plan(nil)
	w := &events.WantedCapacity{PoolID: "p"}
	for range 2 {
		lineID, fits := c.LineFor(w)
		require.True(t, fits)
		c.Reserve(lineID, w, 1)
	}
	_, fits := c.LineFor(w)
	require.False(t, fits)
	c.Reserve("a", w, -1)
	lineID, fits := c.LineFor(w)
	require.Equal(t, []any{"a", true}, []any{lineID, fits})
}

func TestNextCapacityIsThatOfTheEarliestLine(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 2, 17, 0, 0, 0, time.UTC)
	c := plan(func(c *rules.Capacity) {
		c.Lines["own"].NextAt, c.Lines["a"].NextAt, c.Lines["b"].NextAt = noon.Add(2*time.Hour), noon.Add(time.Hour), noon.Add(3*time.Hour)
	})
	require.Equal(t, noon.Add(time.Hour), c.NextAt())
}

func TestOnlyEntriesThatMayUseALineNowCompeteForIt(t *testing.T) {
	t.Parallel()
	pool := []string{"a", "b"}
	for name, row := range map[string]struct {
		wants   events.WantedCapacity
		canSend bool
		want    bool
	}{
		"the line comes first, and the contact is new to it": {events.WantedCapacity{LineID: "a", NewContact: true}, true, true},
		"the line comes first and knows the contact":         {events.WantedCapacity{LineID: "a"}, true, false},
		"another line comes first and can send":              {events.WantedCapacity{LineID: "own", PoolID: "p"}, true, false},
		"another line comes first and cannot send":           {events.WantedCapacity{LineID: "own", PoolID: "p"}, false, true},
		"the line is of its pool":                            {events.WantedCapacity{PoolID: "p"}, false, true},
		"the line is of its pool and knows the contact":      {events.WantedCapacity{PoolID: "p", KnownLineIDs: []string{"a"}}, false, false},
		"its text is used up":                                {events.WantedCapacity{PoolID: "p", TextHash: "t"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, row.want, rules.CompetesForNew(&row.wants, "a", pool, row.canSend))
		})
	}
}
