package e2e_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/line"
	"ledgerline/processes"
	"ledgerline/testkit/app"
)

// gated takes everything; it can be made to wait, or to fail once, with a message to one number.
type gated struct {
	slow    string
	at, on  chan struct{}
	failing atomic.Bool
}

func (*gated) Reachable(context.Context, processes.Via, string) (bool, error) { return true, nil }

func (g *gated) Send(_ context.Context, out processes.Outgoing) (processes.Accepted, error) {
	if g.failing.CompareAndSwap(true, false) {
		return processes.Accepted{}, processes.ErrTransient
	}
	if g.slow != "" && out.To == g.slow {
		close(g.at)
		<-g.on
	}
	return processes.Accepted{CarrierID: out.MessageID}, nil
}

func (*gated) Outcome(context.Context, processes.Outgoing) (processes.Accepted, bool, error) {
	return processes.Accepted{}, false, nil
}

func shortly(t *testing.T, a *app.App, sql string, args ...any) {
	t.Helper()
	require.Eventually(t, func() bool {
		var yes bool
		a.One(sql, args, &yes)
		return yes
	}, 30*time.Second, 10*time.Millisecond, sql)
}

// A line that the contact knows is quarantined, and put back, instead of paused and resumed.
func TestWhoWaitsForAPoolGoesByALineThatItKnowsWhenThatLeavesQuarantine(t *testing.T) {
	t.Parallel()
	for _, rotation := range []string{"sticky", "round_robin"} {
		t.Run(rotation, func(t *testing.T) {
			t.Parallel()
			limits := line.DefaultLimits()
			limits.NewContactsPerHour, limits.PreReplyMaxMessages = 1, 10
			a := app.Start(t, app.Limits(limits))
			known, other, phone := a.Lines[0].ID, a.Lines[1].ID, a.Phone()
			to := func(phone, body string, lineID any) string {
				in := app.Map{"to": phone, "body": body}
				if lineID != nil {
					in["line_id"] = lineID
				}
				id := a.Live.Post("/v1/messages", in).Is(201).Text("id")
				a.Settle()
				return id
			}
			operate := func(state line.State) {
				_, err := a.Nodes[0].App.ChangeLineState(t.Context(), a.Operator(), known, state, nil)
				require.NoError(t, err)
				a.Settle()
			}
			a.Live.Do("PATCH", "/v1/pools/"+a.PoolID, app.Map{"rotation": rotation}).Is(200)
			to(phone, "Hello", known)
			to(a.Phone(), "Hello", other)
			operate(line.Quarantined)
			to(a.Phone(), "Hello", nil)
			held := to(phone, "Hello again", nil)
			require.Equal(t, []any{"line_new_contacts_hour"}, deferrals(a.Live, held))
			operate(line.Ready)
			require.Equal(t, []any{"delivered", known}, []any{status(a.Live, held), message(a.Live, held)["line_id"]})
		})
	}
}

// A line that the contact knows is out of every pool, and comes into the one that is waited for.
func TestWhoWaitsForAPoolGoesByALineThatItKnowsWhenThatJoinsIt(t *testing.T) {
	t.Parallel()
	limits := line.DefaultLimits()
	limits.NewContactsPerHour, limits.PreReplyMaxMessages = 1, 10
	a := app.Start(t, app.Limits(limits))
	known, other, phone := a.Lines[0].ID, a.Lines[1].ID, a.Phone()
	to := func(phone, body string, lineID any) string {
		in := app.Map{"to": phone, "body": body}
		if lineID != nil {
			in["line_id"] = lineID
		}
		id := a.Live.Post("/v1/messages", in).Is(201).Text("id")
		a.Settle()
		return id
	}
	a.Live.Do("PATCH", "/v1/pools/"+a.PoolID, app.Map{"rotation": "round_robin"}).Is(200)
	to(phone, "Hello", known)
	to(a.Phone(), "Hello", other)
	a.Live.Do("PATCH", "/v1/lines/"+known, app.Map{"pool_id": nil}).Is(200)
	a.Settle()
	held := to(phone, "Hello again", nil)
	require.Equal(t, []any{"line_new_contacts_hour"}, deferrals(a.Live, held))
	a.Live.Do("PATCH", "/v1/lines/"+known, app.Map{"pool_id": a.PoolID}).Is(200)
	a.Settle()
	require.Equal(t, []any{"delivered", known}, []any{status(a.Live, held), message(a.Live, held)["line_id"]})
}

// A message that was tried on a line is held by the organisation's pause; its line is paused meanwhile.
func TestWhatWasTriedOnALineThatStopsWhileTheOrganisationIsPausedLeavesByAnother(t *testing.T) {
	t.Parallel()
	carrier := &gated{}
	a := app.Start(t, app.Carrier(func(*app.Node) processes.Carrier { return carrier }))
	carrier.failing.Store(true)
	id := send(a.Live, a.Phone(), "Hello")
	a.Settle()
	own := text(message(a.Live, id), "line_id")
	_, err := a.Nodes[0].App.PauseOrganisation(t.Context(), a.Operator(), "unpaid")
	require.NoError(t, err)
	a.Advance(time.Minute)
	require.Equal(t, []any{"line_unavailable"}, deferrals(a.Live, id))
	_, err = a.Nodes[0].App.ChangeLineState(t.Context(), a.Operator(), own, line.Quarantined, nil)
	require.NoError(t, err)
	a.Settle()
	_, err = a.Nodes[0].App.ResumeOrganisation(t.Context(), a.Operator())
	require.NoError(t, err)
	a.Settle()
	a.Advance(24 * time.Hour)
	require.Equal(t, "sent", status(a.Live, id))
}

// Who waited first for a line that comes back goes first.
func TestWhoWaitedFirstForALineThatComesBackGoesFirst(t *testing.T) {
	t.Parallel()
	limits := line.DefaultLimits()
	limits.NewContactsPerHour = 1
	a := app.Start(t, app.Limits(limits))
	for _, l := range a.Lines {
		a.Live.Post("/v1/lines/"+l.ID+"/pause", app.Map{}).Is(200)
	}
	a.Settle()
	var ids []string
	for i := range 12 {
		ids = append(ids, send(a.Live, a.Phone(), fmt.Sprint("Hello ", i)))
		a.Settle()
	}
	a.Live.Post("/v1/lines/"+a.Lines[0].ID+"/resume", app.Map{}).Is(200)
	a.Settle()
	var went []int
	for i, id := range ids {
		if status(a.Live, id) == "delivered" {
			went = append(went, i)
		}
	}
	require.Equal(t, []int{0}, went)
}

// Who was let go, found the hour used up and others before it goes back to the queue, which nobody looks at any more.
func TestWhoIsLetGoAndFindsItsRoomTakenKeepsAQueueThatIsLookedAt(t *testing.T) {
	t.Parallel()
	limits := line.DefaultLimits()
	limits.NewContactsPerHour, limits.NewContactsPerDay = 2, 5
	carrier := &gated{slow: "+12127770001", at: make(chan struct{}), on: make(chan struct{})}
	a := app.Start(t, app.Limits(limits), app.Carrier(func(*app.Node) processes.Carrier { return carrier }))
	open := sync.OnceFunc(func() { close(carrier.on) })
	t.Cleanup(open)
	own := a.Lines[0].ID
	a.Live.Post("/v1/lines/"+a.Lines[1].ID+"/pause", app.Map{}).Is(200)
	post := func(phone string, named bool) app.Answer {
		in := app.Map{"to": phone, "body": "Hello, number " + phone[len(phone)-2:]}
		if named {
			in["line_id"] = own
		}
		return a.Live.Post("/v1/messages", in).Is(201)
	}
	post("+12127770011", true)
	post("+12127770012", true)
	a.Settle()
	first := post("+12127770001", false)
	a.Settle()
	second := post("+12127770002", false)
	a.Settle()
	require.Equal(t, []any{"line_new_contacts_hour"}, deferrals(a.Live, second.Text("id")))
	contact := second.Text("contact_id")
	// Its worker is slow.
	_, err := a.Pool.Exec(t.Context(), `update process_todo set lease_until = now() + interval '4 seconds' where process = 'sending' and key = $1`, contact)
	require.NoError(t, err)
	_, err = a.Clock.Advance(time.Hour)
	require.NoError(t, err)
	<-carrier.at // the first one is on its way, and stays there
	shortly(t, a, `select not exists (select from process_todo where process = 'release' and (lease_until > now() or due_at <= $2)) and
		(select stage = 'going' from sending_waiting where contact_id = $1)`, contact, a.Clock.Now())
	third := post("+12127770003", true) // takes the other place of the hour
	shortly(t, a, `select exists (select from ledger_events where stream = $1 and type = 'message.sent')`, third.Text("id"))
	shortly(t, a, `select not exists (select from sending_waiting where contact_id = $1 and stage = 'going')`, contact)
	open()
	a.Settle()
	require.Equal(t, "sent", status(a.Live, first.Text("id")))
	a.Advance(24 * time.Hour)
	require.Equal(t, "sent", status(a.Live, second.Text("id")), "a day later")
}

// Who was let go and found its line paused again rests, while the line comes back: nobody looks.
func TestWhoRestsWhileItsLineComesBackIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	own := a.Lines[0].ID
	move := func(to string) {
		a.Live.Post("/v1/lines/"+own+"/"+to, app.Map{}).Is(200)
	}
	move("pause")
	a.Settle()
	held := a.Live.Post("/v1/messages", app.Map{"to": a.Phone(), "body": "Hello", "line_id": own}).Is(201)
	a.Settle()
	contact := held.Text("contact_id")
	_, err := a.Pool.Exec(t.Context(), `update process_todo set lease_until = now() + interval '4 seconds' where process = 'sending' and key = $1`, contact)
	require.NoError(t, err)
	move("resume")
	shortly(t, a, `select not exists (select from process_todo where process = 'release' and (lease_until > now() or due_at <= $2)) and
		(select stage = 'going' from sending_waiting where contact_id = $1)`, contact, a.Clock.Now())
	move("pause")
	tx, err := a.Pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `select from sending_waiting where contact_id = $1 for update`, contact)
	require.NoError(t, err)
	shortly(t, a, `select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like 'update sending_waiting set stage%')`)
	move("resume")
	shortly(t, a, `select not exists (select from feed_consumers f join feed_checkpoints c on c.name = f.name and c.revision = f.revision
		join ledger_events e on e.shard = c.shard and e.position > c.position where f.name = 'process_sending' and e.type = 'line.state_changed')`)
	require.NoError(t, tx.Commit(t.Context()))
	a.Settle()
	a.Advance(time.Hour)
	require.NotEqual(t, "queued", status(a.Live, held.Text("id")))
}

func TestWhoseRestEndsGoesByALineThatItKnowsAtOnce(t *testing.T) {
	t.Parallel()
	limits := line.DefaultLimits()
	limits.NewContactsPerHour, limits.PreReplyMaxMessages = 1, 10
	a := app.Start(t, app.Limits(limits))
	own, phone := a.Lines[0].ID, a.Phone()
	move := func(to string) {
		a.Live.Post("/v1/lines/"+own+"/"+to, app.Map{}).Is(200)
	}
	a.Live.Post("/v1/messages", app.Map{"to": phone, "body": "Hello", "line_id": own}).Is(201)
	a.Live.Post("/v1/messages", app.Map{"to": a.Phone(), "body": "Hello", "line_id": a.Lines[1].ID}).Is(201)
	a.Settle()
	move("pause")
	a.Settle()
	held := a.Live.Post("/v1/messages", app.Map{"to": phone, "body": "Hello again"}).Is(201)
	a.Settle()
	contact := held.Text("contact_id")
	// Its worker is slow, and its line is paused again before it is served.
	_, err := a.Pool.Exec(t.Context(), `update process_todo set lease_until = now() + interval '3 seconds' where process = 'sending' and key = $1`, contact)
	require.NoError(t, err)
	move("resume")
	shortly(t, a, `select exists (select from sending_waiting where contact_id = $1 and stage = 'going')`, contact)
	move("pause")
	shortly(t, a, `select exists (select from sending_waiting where contact_id = $1 and stage = 'unfit')`, contact)
	a.Settle()
	move("resume")
	a.Settle()
	require.Equal(t, "delivered", status(a.Live, held.Text("id")))
}
