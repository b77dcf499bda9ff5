package e2e_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/test/app"
)

func TestNodesShareTheWorkAndNothingIsSentTwiceOrOutOfOrder(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards, app.Nodes(app.Everything, app.Everything))
		const contacts, each = 60, 5
		accepted := make([][]string, contacts)
		var writers sync.WaitGroup
		phones := make(chan int, contacts)
		for i := range contacts {
			phones <- i
		}
		close(phones)
		for w := range 6 {
			c := a.Live.OnNode(a.Nodes[w%2])
			writers.Go(func() {
				for i := range phones {
					for n := range each {
						accepted[i] = append(accepted[i], send(c, fmt.Sprintf("+1646778%04d", i), fmt.Sprint(n)))
					}
				}
			})
		}
		writers.Wait()
		a.Settle()
		seen, err := a.Nodes[0].Simulator.List(t.Context())
		require.NoError(t, err)
		require.Len(t, seen, contacts*each)
		for _, s := range seen {
			require.Equal(t, 1, s.Sends)
			require.Equal(t, 1, s.Calls)
		}
		for i := range accepted {
			require.Equal(t, accepted[i], departures(a, text(message(a.Live, accepted[i][0]), "contact_id")))
		}
		var lines int
		a.QueryRow(`select count(distinct line_id) from read.messages`, nil, &lines)
		require.Equal(t, len(a.Lines), lines, "contacts are spread over the lines")
	})
}

func TestNodeSaysWhichRoleARequestNeeds(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.TwoNodes())
	writer, reader := a.Live.OnNode(a.Nodes[0]), a.Live.OnNode(a.Nodes[1])
	for _, refused := range []app.Answer{
		reader.Post("/v1/contacts", app.Map{"phone": a.Phone()}), reader.Post("/v1/contacts/c/opt-out", app.Map{}), reader.Do("DELETE", "/v1/labels/l", nil),
	} {
		refused.Refused(405, "bad_request")
		require.Contains(t, refused.Text("error.message"), "does not have the role write")
	}
	refused := writer.Get("/v1/contacts").Refused(405, "bad_request")
	require.Contains(t, refused.Text("error.message"), "does not have the role read")
	reader.Post("/dev/clock", app.Map{}).Refused(404, "not_found")
	reader.Do("PUT", "/v1/contacts", app.Map{}).Is(405)
}

func TestMetricsShowParkedEventsWaitingTasksAndTheDatabase(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	a.Settle()
	a.Exec(`insert into feed_parked (name, shard, position, event_id, type, reason, parked_at)
		select name, 0, 1, gen_random_uuid(), 'contact.created', 'a test', now() from feed_consumers where name = 'contacts'`)
	a.Exec(`insert into scheduled_tasks (process, key, shard, due_at, scheduled_at_position, failures, retry_at)
		values ('nobody', 'a', 0, $1, 1, 0, null), ('nobody', 'b', 0, $1, 1, 3, now())`, a.Clock.Now().Add(-time.Minute))
	metrics := string(a.Live.Get("/metrics").Is(200).Raw)
	for _, line := range []string{
		`ledgerline_feed_parked_events{consumer="contacts"} 1`, `ledgerline_feed_parked_events{consumer="messages"} 0`,
		`ledgerline_tasks_overdue_seconds{process="nobody"} 60`, `ledgerline_tasks_retrying{process="nobody"} 1`,
		`ledgerline_database_up 1`, `ledgerline_database_connections{pool="processes",state="max"}`, `ledgerline_database_connections{pool="requests",state="max"}`,
	} {
		require.Contains(t, metrics, line)
	}
}

func TestConcurrentChangesOfOneContactAreAllApplied(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.Nodes(app.Everything, app.Everything))
	contact := a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201).Text("id")
	var writers sync.WaitGroup
	const callers, each = 16, 5
	for w := range callers {
		c := a.Live.OnNode(a.Nodes[w%2])
		writers.Go(func() {
			for n := range each {
				switch (w + n) % 3 {
				case 0:
					c.Post("/v1/contacts/"+contact+"/consent", app.Map{"status": "opted_in", "source": fmt.Sprint(w, n)}).Is(200)
				case 1:
					c.Post("/v1/contacts/"+contact+"/opt-out", app.Map{"source": fmt.Sprint(w, n)}).Is(200)
				default:
					answer := c.Post("/v1/messages", app.Map{"contact_id": contact, "body": "x"})
					require.Contains(t, []int{201, 422}, answer.Status, "%s", answer.Raw)
				}
			}
		})
	}
	writers.Wait()
	a.Settle()
	rows := a.Live.Get("/v1/compliance/consent-events?limit=100").Is(200).Data()
	asked := 0
	for w := range callers {
		for n := range each {
			if (w+n)%3 != 2 {
				asked++
			}
		}
	}
	require.Equal(t, asked, len(rows)) //nolint:testifylint // the rows themselves say nothing, at length
	at := any("unknown")
	for i := len(rows) - 1; i >= 0; i-- { // oldest first
		require.Equal(t, at, rows[i]["from_status"], "each change begins where the one before it led")
		at = rows[i]["to_status"]
	}
	require.Equal(t, at, a.Live.Get("/v1/contacts/"+contact).Is(200).At("consent_status"))
	var late int
	a.QueryRow(`select count(*) from ledger_events s where s.type = 'message.sending' and exists (
		select from ledger_events o where o.stream = $1 and o.position < s.position and o.type = 'contact.opted_out'
		and not exists (select from ledger_events i where i.stream = $1 and i.position between o.position and s.position and i.type = 'contact.opted_in'))`, []any{contact}, &late)
	require.Zero(t, late, "nothing leaves after an opt-out has been committed")
}
