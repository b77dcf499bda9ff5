package dispatch

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/processes/tasks"
)

func TestAutomaticTextsAndMessagesOfStaffAreDueFirstAndThoseOfOutreachesLast(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 14, 0, 0, 0, time.UTC)
	dues := map[string]time.Time{}
	for contact, queued := range map[string]*events.MessageQueued{
		"ctc_many":         {},
		"ctc_confirmation": {Automatic: "opt_out_confirmation"},
		"ctc_reply":        {ByStaff: true},
		"ctc_outreach":     {Source: new("outreach")},
	} {
		queued.MessageRef = events.MessageRef{MessageID: "msg_" + contact, ContactID: contact}
		s := &Process{wakeups: tasks.NewWakeups()}
		var b pgx.Batch
		require.NoError(t, s.Write(&b, 1, []eventstore.Recorded{recorded(eventstore.Recorded{OccurredAt: now, Event: queued})}))
		asked := b.QueuedQueries[len(b.QueuedQueries)-1]
		require.Equal(t, []string{contact}, asked.Arguments[1])
		due, ok := asked.Arguments[3].([]time.Time)
		require.True(t, ok)
		dues[contact] = due[0]
	}
	require.Equal(t, now, dues["ctc_outreach"])
	require.Equal(t, now.Add(-aheadOfOutreach), dues["ctc_many"])
	require.Equal(t, now.Add(-priority), dues["ctc_confirmation"])
	require.Equal(t, now.Add(-priority), dues["ctc_reply"])
}

func TestAReceiptThatRecordsSentSchedulesTheContact(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		actor events.Actor
		asks  []string
	}{
		{events.Actor{Type: "system", ID: "receipts"}, []string{"ctc_1"}},
		{events.Actor{Type: "system", ID: sendingProcess}, nil}, // the contact's own task goes on by itself
	} {
		sent := recorded(eventstore.Recorded{Actor: row.actor, Event: &events.MessageSent{MessageRef: events.MessageRef{MessageID: "msg_1", ContactID: "ctc_1"}}})
		w := newChanges()
		handlers.Handle(w, []eventstore.Recorded{sent})
		var keys []string
		for _, a := range w.tasks {
			keys = append(keys, a.Key)
		}
		require.Equal(t, row.asks, keys)
	}
}

func TestAMessageSentAndFallenBackInOneBatchGetsItsNewPosition(t *testing.T) {
	t.Parallel()
	ref := events.MessageRef{MessageID: "msg_1", ContactID: "ctc_1"}
	s := &Process{wakeups: tasks.NewWakeups()}
	var b pgx.Batch
	require.NoError(t, s.Write(&b, 1, []eventstore.Recorded{
		recorded(eventstore.Recorded{Position: 7, Event: &events.MessageSent{MessageRef: ref}}),
		recorded(eventstore.Recorded{Position: 8, Event: &events.MessageFellBack{MessageRef: ref}}),
	}))
	require.Equal(t, closeSQL, b.QueuedQueries[0].SQL)
	require.Equal(t, []any{[]string{"msg_1"}}, b.QueuedQueries[0].Arguments)
	require.Equal(t, openSQL, b.QueuedQueries[1].SQL)
	require.Equal(t, []int64{8}, b.QueuedQueries[1].Arguments[5])
}

// recorded sets the type of an event as the ledger does.
func recorded(r eventstore.Recorded) eventstore.Recorded {
	r.Type, r.Version = events.Default.Name(r.Event)
	return r
}
