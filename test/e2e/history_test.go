package e2e_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/projections"
	"ledgerline/service"
	"ledgerline/test/app"
	"ledgerline/test/testpg"
)

// answers repeats a request until it has this status.
func answers(t *testing.T, status int, request func() app.Answer) (last app.Answer) {
	t.Helper()
	require.Eventually(t, func() bool { last = request(); return last.Status == status }, 30*time.Second, 20*time.Millisecond)
	return last
}

// exactlyAsInTheLedger requires that every consumer has applied every event of the ledger that is there now, and no
// other.
func exactlyAsInTheLedger(t *testing.T, a *app.App) {
	t.Helper()
	a.Settle()
	for what, sql := range map[string]string{
		"messages without an event": `select array(select m.id from read.messages m where not exists (select from ledger_events e where e.stream = m.id))`,
		"events without a message":  `select array(select e.stream from ledger_events e where e.type = 'message.queued' and not exists (select from read.messages m where m.id = e.stream))`,
		"contacts without an event": `select array(select c.id from read.contacts c where not exists (select from ledger_events e where e.stream = c.id))`,
		"messages that never left":  `select array(select message_id from sending_outbox)`,
		"checkpoints of another history": `select array(select c.name from feed_checkpoints c join feed_consumers f using (name, revision) where c.position > 0
			and not exists (select from ledger_events e where e.shard = c.shard and e.position = c.position and e.id = c.event_id))`,
		"unsent messages": `select array(select m.id from read.messages m where m.status in ('queued', 'scheduled', 'sending'))`,
	} {
		var found []string
		a.QueryRow(sql, nil, &found)
		require.Empty(t, found, what)
	}
}

func TestANodeThatKeepsRunningWhenTheHistoryGoesBackTakesNothingOfTheLostHistoryAlong(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	kept := send(a.Live, a.Phone(), "kept")
	a.Settle()
	older := testpg.TakeCopy(t, a.DSN)
	a.Pool.Reset()

	var lost []string
	answers(t, http.StatusOK, func() app.Answer { return a.Live.Get("/v1/messages/" + kept) })
	for range 5 {
		answer := answers(t, http.StatusCreated, func() app.Answer {
			return a.Live.Post("/v1/messages", app.Map{"to": a.Phone(), "body": "lost"})
		})
		lost = append(lost, answer.Text("id"))
	}
	a.Settle()
	generation := a.Nodes[0].Ledger.Generation()

	older.Restore()
	a.Pool.Reset()
	var after []string
	for range 20 { // more events than were lost, so that they have the positions of the lost ones and later ones
		answer := answers(t, http.StatusCreated, func() app.Answer {
			return a.Live.Post("/v1/messages", app.Map{"to": a.Phone(), "body": "after"})
		})
		after = append(after, answer.Text("id"))
	}
	require.Greater(t, a.Nodes[0].Ledger.Generation(), generation)
	exactlyAsInTheLedger(t, a)
	for _, id := range lost {
		a.Live.Get("/v1/messages/"+id).Refused(http.StatusNotFound, "not_found")
	}
	for _, id := range append(after, kept) {
		require.NotEmpty(t, message(a.Live, id)["sent_at"], id)
	}
	answers(t, http.StatusOK, func() app.Answer { return a.Anonymous().Get("/readyz") })
}

func TestANodeThatStartsOnAnOlderCopyContinuesThere(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	send(a.Live, a.Phone(), "kept")
	a.Settle()
	older := testpg.TakeCopy(t, a.DSN)
	a.Pool.Reset()
	answers(t, http.StatusCreated, func() app.Answer {
		return a.Live.Post("/v1/messages", app.Map{"to": a.Phone(), "body": "lost"})
	})
	a.Settle()
	a.StopAll()
	older.Restore()
	a.Pool.Reset()
	a.StartNode(service.All)
	after := send(a.Live, a.Phone(), "after")
	exactlyAsInTheLedger(t, a)
	require.NotEmpty(t, message(a.Live, after)["sent_at"])
}

func TestTablesOfAnotherHistoryAreRebuiltAndProcessesWithThemAreStopped(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	id := send(a.Live, a.Phone(), "hello")
	a.Settle()
	a.StopAll()
	// As after a restore of single tables: two consumers have applied events that the ledger does not have.
	a.Exec(`alter table feed_checkpoints disable trigger all`)
	a.Exec(`update feed_checkpoints set position = position + 1000, event_id = gen_random_uuid() where name in ($1, 'process_sending')`, projections.Messages.ID)
	a.Exec(`alter table feed_checkpoints enable trigger all`)
	a.StartNode(service.All)
	require.Equal(t, "hello", message(a.Live, id)["body"])
	ready := a.Anonymous().Get("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, ready.Status)
	require.Contains(t, string(ready.Raw), "process_sending")
	waiting := send(a.Live, a.Phone(), "does not leave")
	require.Equal(t, "queued", message(a.Live, waiting)["status"])
}
