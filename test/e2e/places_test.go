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
	"ledgerline/processes/carrier"
	"ledgerline/test/app"
)

// gated takes everything; it can be made to wait with a message to one number, and to answer the next one with an error.
type gated struct {
	mute
	slow   string
	at, on chan struct{}
	next   atomic.Pointer[error]
}

func (g *gated) Send(_ context.Context, out carrier.Outbound) (carrier.Accepted, error) {
	if g.slow != "" && out.To == g.slow {
		g.at <- struct{}{}
		<-g.on
	}
	if err := g.next.Swap(nil); err != nil {
		return carrier.Accepted{}, *err
	}
	return carrier.Accepted{CarrierID: out.MessageID}, nil
}

func shortly(t *testing.T, a *app.App, sql string, args ...any) {
	t.Helper()
	require.Eventually(t, func() bool {
		var yes bool
		a.QueryRow(sql, args, &yes)
		return yes
	}, 30*time.Second, 10*time.Millisecond, sql)
}

func TestWhoWaitsForAPoolGoesByALineThatItKnowsWhenThatComesBack(t *testing.T) {
	t.Parallel()
	pause := func(t *testing.T, a *app.App, id string, away bool) {
		t.Helper()
		a.Live.Post("/v1/lines/"+id+map[bool]string{true: "/pause", false: "/resume"}[away], app.Map{}).Is(200)
	}
	quarantine := func(t *testing.T, a *app.App, id string, away bool) {
		t.Helper()
		_, err := a.Nodes[0].App.ChangeLineState(t.Context(), a.Operator(), id, map[bool]line.State{true: line.Quarantined, false: line.Ready}[away], nil)
		require.NoError(t, err)
	}
	leave := func(t *testing.T, a *app.App, id string, away bool) {
		t.Helper()
		a.Live.Do("PATCH", "/v1/lines/"+id, app.Map{"pool_id": map[bool]any{true: nil, false: a.PoolID}[away]}).Is(200)
	}
	for _, row := range []struct {
		from, rotation string
		move           func(t *testing.T, a *app.App, id string, away bool)
	}{
		{"a pause", "sticky", pause},
		{"a pause", "round_robin", pause},
		{"quarantine", "sticky", quarantine},
		{"quarantine", "round_robin", quarantine},
		{"outside the pool", "round_robin", leave},
	} {
		t.Run(row.from+", "+row.rotation, func(t *testing.T) {
			t.Parallel()
			limits := line.DefaultLimits()
			limits.NewContactsPerHour, limits.PreReplyMaxMessages = 1, 10
			a := app.Start(t, app.Limits(limits))
			known, other, phone := a.Lines[0].ID, a.Lines[1].ID, a.Phone()
			a.Live.Do("PATCH", "/v1/pools/"+a.PoolID, app.Map{"rotation": row.rotation}).Is(200)
			sendSettled(a, app.Map{"to": phone, "body": "Hello", "line_id": known})
			sendSettled(a, app.Map{"to": a.Phone(), "body": "Hello", "line_id": other})
			row.move(t, a, known, true)
			a.Settle()
			ahead := sendSettled(a, app.Map{"to": a.Phone(), "body": "Hello"})
			held := sendSettled(a, app.Map{"to": phone, "body": "Hello again"})
			require.Equal(t, []any{"line_new_contacts_hour"}, deferrals(a.Live, held))
			row.move(t, a, known, false)
			a.Settle()
			require.Equal(t, []any{"delivered", known}, []any{status(a.Live, held), message(a.Live, held)["line_id"]})
			require.Equal(t, "queued", status(a.Live, ahead), "the known line has no room for who is new to it")
		})
	}
}

// A message that was tried on a line is held by the organisation's pause; its line is paused meanwhile.
func TestWhatWasTriedOnALineThatStopsWhileTheOrganisationIsPausedLeavesByAnother(t *testing.T) {
	t.Parallel()
	fake := &gated{}
	a := app.Start(t, app.Carrier(func(*app.Node) carrier.Carrier { return fake }))
	fake.next.Store(&carrier.ErrTransient)
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
		ids = append(ids, sendSettled(a, app.Map{"to": a.Phone(), "body": fmt.Sprint("Hello ", i)}))
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
	fake := &gated{slow: "+12127770001", at: make(chan struct{}), on: make(chan struct{})}
	a := app.Start(t, app.Limits(limits), app.Carrier(func(*app.Node) carrier.Carrier { return fake }))
	open := sync.OnceFunc(func() { close(fake.on) })
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
	_, err := a.Pool.Exec(t.Context(), `update scheduled_tasks set lease_until = now() + interval '4 seconds' where process = 'sending' and key = $1`, contact)
	require.NoError(t, err)
	_, err = a.Clock.Advance(time.Hour)
	require.NoError(t, err)
	<-fake.at // the first one is on its way, and stays there
	shortly(t, a, `select not exists (select from scheduled_tasks where process = 'release' and (lease_until > now() or due_at <= $2)) and
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
	_, err := a.Pool.Exec(t.Context(), `update scheduled_tasks set lease_until = now() + interval '4 seconds' where process = 'sending' and key = $1`, contact)
	require.NoError(t, err)
	move("resume")
	shortly(t, a, `select not exists (select from scheduled_tasks where process = 'release' and (lease_until > now() or due_at <= $2)) and
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
	sendSettled(a, app.Map{"to": phone, "body": "Hello", "line_id": own})
	sendSettled(a, app.Map{"to": a.Phone(), "body": "Hello", "line_id": a.Lines[1].ID})
	move("pause")
	a.Settle()
	held := a.Live.Post("/v1/messages", app.Map{"to": phone, "body": "Hello again"}).Is(201)
	a.Settle()
	contact := held.Text("contact_id")
	// Its worker is slow, and its line is paused again before it is served.
	_, err := a.Pool.Exec(t.Context(), `update scheduled_tasks set lease_until = now() + interval '3 seconds' where process = 'sending' and key = $1`, contact)
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

func TestWhatFallsBackWhileItsLineStopsWaitsForALine(t *testing.T) {
	t.Parallel()
	limits := line.DefaultLimits()
	limits.NewContactsPerHour = 1
	fake := &gated{slow: "+12127770001", at: make(chan struct{}), on: make(chan struct{})}
	a := app.Start(t, app.Limits(limits), app.Carrier(func(*app.Node) carrier.Carrier { return fake }))
	open := sync.OnceFunc(func() { close(fake.on) })
	t.Cleanup(open)
	own := a.Lines[0].ID
	a.Live.Do("PATCH", "/v1/pools/"+a.PoolID, app.Map{"fallback_sms_mode": "not_chat_or_failed"}).Is(200)
	a.Live.Post("/v1/lines/"+a.Lines[1].ID+"/pause", app.Map{}).Is(200)
	sendSettled(a, app.Map{"to": a.Phone(), "body": "Hello", "line_id": own})
	held := sendSettled(a, app.Map{"to": fake.slow, "body": "Hello"})
	require.Equal(t, []any{"line_new_contacts_hour"}, deferrals(a.Live, held))
	_, err := a.Clock.Advance(time.Hour) // it is let go
	require.NoError(t, err)
	<-fake.at
	a.Live.Post("/v1/lines/"+own+"/pause", app.Map{}).Is(200)
	refusal := error(&carrier.Rejected{Code: "not_on_chat"})
	fake.next.Store(&refusal)
	fake.on <- struct{}{}
	a.Settle()
	require.Equal(t, []any{"line_new_contacts_hour", "line_unavailable"}, deferrals(a.Live, held))
	a.Live.Post("/v1/lines/"+own+"/resume", app.Map{}).Is(200)
	<-fake.at
	open()
	a.Settle()
	shows(t, message(a.Live, held), app.Map{"status": "sent", "channel": "sms"})
}
