package number_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/fault"
	"ledgerline/domain/number"
	"ledgerline/events"
)

var one, two = uuid.New(), uuid.New()

func fold(n number.Number, list ...events.Event) number.Number {
	for _, e := range list {
		n = n.Apply(e, events.Envelope{})
	}
	return n
}

func TestNumberBelongsToOneContactInAWorkspace(t *testing.T) {
	t.Parallel()
	linked, err := number.Number{}.Link("ctc_1", one)
	require.NoError(t, err)
	n := fold(number.Number{}, linked...)
	_, err = n.Link("ctc_2", one)
	require.True(t, fault.Is(err, fault.Conflict))
	require.Equal(t, "ctc_1", fault.Of(err).Details["contact_id"])
	linked, err = n.Link("ctc_2", two)
	require.NoError(t, err)
	both := fold(n, linked...)
	require.Len(t, n.Holders, 1, "an older state stays as it was")
	unlinked := both.Unlink("ctc_1")
	require.Equal(t, []events.Event{&events.NumberUnlinked{ContactID: "ctc_1", WorkspaceID: one}}, unlinked)
	left := fold(both, unlinked...)
	require.Len(t, both.Holders, 2, "an older state stays as it was")
	_, found := left.ContactIn(one)
	require.False(t, found)
	id, _ := left.ContactIn(two)
	require.Equal(t, "ctc_2", id)
	require.Empty(t, left.Unlink("ctc_1"))
}

func TestRepeatedOptOutOfANumberRecordsNoEvent(t *testing.T) {
	t.Parallel()
	n := number.Number{}
	require.Empty(t, n.OptIn("ctc_1"))
	n = fold(n, n.OptOut("ctc_1")...)
	require.True(t, n.OptedOut)
	require.Empty(t, n.OptOut("ctc_1"))
	n = fold(n, n.OptIn("ctc_2")...)
	require.False(t, n.OptedOut)
}

func TestOptOutOfANumberSurvivesItsContact(t *testing.T) {
	t.Parallel()
	n := fold(number.Number{}, &events.NumberLinked{ContactID: "ctc_1", WorkspaceID: one}, &events.NumberOptedOut{ContactID: "ctc_1"})
	n = fold(n, n.Unlink("ctc_1")...)
	require.Empty(t, n.Holders)
	require.True(t, n.OptedOut)
}
