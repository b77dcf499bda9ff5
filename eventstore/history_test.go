package eventstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/test/testpg"
)

// names folds the names of the teams of a stream.
func names(before []string, r *eventstore.Recorded) []string {
	if e, ok := r.Event.(*events.TeamCreated); ok {
		return append(before[:len(before):len(before)], e.Name)
	}
	return before
}

// mustAppend appends, also while the connections are being replaced.
func (h *testLedger) mustAppend(t *testing.T, l *eventstore.Ledger, streams ...eventstore.StreamEvents) {
	t.Helper()
	_, err := l.Append(t.Context(), h.write(streams...))
	require.NoError(t, err)
}

// settled waits until the ledger has found the rewind and has settled it.
func settled(t *testing.T, l *eventstore.Ledger, generation uint64) {
	t.Helper()
	require.Eventually(t, func() bool { return l.Generation() > generation && l.Rewound() == nil }, settleLimit, pollPause)
}

func TestAnAppendThatWasDecidedOnALostHistoryIsRefused(t *testing.T) {
	t.Parallel()
	h := newTestLedger(t, 1)
	loader := eventstore.NewAggregateLoader(h.Ledger, 100, names)
	h.mustAppend(t, h.Ledger, one("team_1", 0, team("kept")))
	older := testpg.TakeCopy(t, h.dsn)
	h.pool.Reset()
	h.mustAppend(t, h.Ledger, one("team_1", 1, team("lost")), one("team_2", 0, team("lost too")))
	cached, err := loader.Load(t.Context(), "team_1")
	require.NoError(t, err)
	require.Equal(t, []string{"kept", "lost"}, cached.State)
	generation := h.Generation()

	older.Restore()
	h.pool.Reset()
	other, _ := h.open(t, 1)
	h.mustAppend(t, other, one("team_1", 1, team("another")), one("team_3", 0, team("and one more")))

	// The versions are those that the decision was made on, the events are others.
	decided := h.write(one("team_1", 2, team("based on a lost event")))
	decided.Generation = generation
	_, err = h.Append(t.Context(), decided)
	require.ErrorIs(t, err, eventstore.ErrRewound)
	settled(t, h.Ledger, generation)
	_, err = h.Append(t.Context(), decided)
	require.ErrorIs(t, err, eventstore.ErrRewound, "the decision is old for good")

	now, err := loader.LoadCached(t.Context(), "team_1")
	require.NoError(t, err)
	require.False(t, now.Cached)
	require.Equal(t, []string{"kept", "another"}, now.State)
	h.mustAppend(t, h.Ledger, one("team_1", 2, team("after")))
	var lost int64
	require.NoError(t, h.pool.QueryRow(t.Context(), `select lost_position from ledger_rewinds`).Scan(&lost))
	require.Equal(t, int64(3), lost)
}

func TestALedgerThatEndsEarlierThanItDidIsFoundByTheNextRead(t *testing.T) {
	t.Parallel()
	h := newTestLedger(t, 1)
	h.mustAppend(t, h.Ledger, one("team_1", 0, team("kept")))
	older := testpg.TakeCopy(t, h.dsn)
	h.pool.Reset()
	h.mustAppend(t, h.Ledger, one("team_2", 0, team("lost")))
	generation := h.Generation()
	older.Restore()
	h.pool.Reset()
	require.Eventually(t, func() bool { // the first reads use connections that the restore has ended
		_, err := h.Head(t.Context(), 0)
		return eventstore.IsRewound(err)
	}, settleLimit, pollPause)
	settled(t, h.Ledger, generation)
	head, err := h.Head(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, int64(1), head)
	require.Equal(t, int64(1), h.KnownHead(0))
}

func TestPersonalDataIsNotEncryptedWithAKeyThatWasLost(t *testing.T) {
	t.Parallel()
	h := newTestLedger(t, 1)
	h.mustAppend(t, h.Ledger, one("team_1", 0, team("kept")))
	older := testpg.TakeCopy(t, h.dsn)
	h.pool.Reset()
	h.mustAppend(t, h.Ledger, one("ctc_1", 0, contact("ctc_1", "+12025550101"))) // creates the key of ctc_1
	generation := h.Generation()
	older.Restore()
	h.pool.Reset()
	_, _ = h.Append(t.Context(), h.write(one("team_2", 0, team("finds the rewind"))))
	settled(t, h.Ledger, generation)
	h.mustAppend(t, h.Ledger, one("ctc_other", 0, contact("ctc_1", "+12025550101"))) // loads the key, as the stream is not that of ctc_1
	other, _ := h.open(t, 1)
	found, err := other.Load(t.Context(), "ctc_other", 0)
	require.NoError(t, err)
	require.False(t, found[0].Erased)
	created, ok := found[0].Event.(*events.ContactCreated)
	require.True(t, ok)
	require.Equal(t, "+12025550101", created.Person.Phone)
}

func TestARewindThatWasReportedInAnEarlierGenerationChangesNothing(t *testing.T) {
	t.Parallel()
	h := newTestLedger(t, 1)
	generation := h.Generation()
	require.ErrorIs(t, h.ReportRewind(generation-1, 0, eventstore.Point{Position: 7, ID: uuid.New()}), eventstore.ErrRewound)
	require.Nil(t, h.Rewound())
	require.Equal(t, generation, h.Generation())
}

func TestARewindIsOverWhenEverySettlerAgrees(t *testing.T) {
	t.Parallel()
	h := newTestLedger(t, 1)
	agrees := make(chan error)
	h.OnSettle(func(context.Context, eventstore.Rewind) error { return <-agrees })
	generation := h.Generation()
	_ = h.ReportRewind(generation, 0, eventstore.Point{Position: 7, ID: uuid.New()})
	agrees <- context.DeadlineExceeded
	require.NotNil(t, h.Rewound())
	_, err := h.Append(t.Context(), h.write(one("team_1", 0, team("refused"))))
	require.ErrorIs(t, err, eventstore.ErrRewound)
	agrees <- nil
	settled(t, h.Ledger, generation)
	h.mustAppend(t, h.Ledger, one("team_1", 0, team("accepted")))
}

// settleLimit bounds a wait for a rewind, and pollPause is between two looks.
const (
	settleLimit = 20 * time.Second
	pollPause   = 10 * time.Millisecond
)
