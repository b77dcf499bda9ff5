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

// gated is a carrier that accepts every message. It can hang with messages to one number, and fail the next message.
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

// waitForRow waits until a query returns true.
func waitForRow(t *testing.T, a *app.App, sql string, args ...any) {
	t.Helper()
	require.Eventually(t, func() bool {
		var yes bool
		a.QueryRow(sql, args, &yes)
		return yes
	}, 30*time.Second, 10*time.Millisecond, sql)
}

func TestAMessageThatWaitsForAPoolLeavesByAKnownLineThatComesBack(t *testing.T) {
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
			deferred := sendSettled(a, app.Map{"to": phone, "body": "Hello again"})
			require.Equal(t, []any{"line_new_contacts_hour"}, deferrals(a.Live, deferred))
			row.move(t, a, known, false)
			a.Settle()
			require.Equal(t, []any{"delivered", known}, []any{status(a.Live, deferred), message(a.Live, deferred)["line_id"]})
			require.Equal(t, "queued", status(a.Live, ahead), "the known line has no capacity for new contacts")
		})
	}
}

// A message that was attempted on a line is deferred because its organisation is paused. Then its line is paused too.
func TestAMessageWhoseLineStopsWhileTheOrganisationIsPausedLeavesByAnotherLine(t *testing.T) {
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

func TestTheFirstMessageThatWaitsForALineLeavesFirst(t *testing.T) {
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

func TestCapacityThatIsReservedForAMessageGoesToNoOther(t *testing.T) {
	t.Parallel()
	limits := line.DefaultLimits()
	limits.NewContactsPerHour, limits.NewContactsPerDay = 2, 5
	fake := &gated{slow: "+12127770001", at: make(chan struct{}), on: make(chan struct{})}
	a := app.Start(t, app.Limits(limits), app.Carrier(func(*app.Node) carrier.Carrier { return fake }))
	open := sync.OnceFunc(func() { close(fake.on) })
	t.Cleanup(open)
	own := a.Lines[0].ID
	a.Live.Post("/v1/lines/"+a.Lines[1].ID+"/pause", app.Map{}).Is(200)
	post := func(phone string, named bool) string {
		in := app.Map{"to": phone, "body": "Hello, number " + phone[len(phone)-2:]}
		if named {
			in["line_id"] = own
		}
		return a.Live.Post("/v1/messages", in).Is(201).Text("id")
	}
	post("+12127770011", true)
	post("+12127770012", true)
	a.Settle()
	first := post("+12127770001", false)
	a.Settle()
	second := post("+12127770002", false)
	a.Settle()
	require.Equal(t, []any{"line_new_contacts_hour"}, deferrals(a.Live, second))
	_, err := a.Clock.Advance(time.Hour)
	require.NoError(t, err)
	<-fake.at // the carrier has the first message and does not answer
	waitForRow(t, a, `select exists (select from ledger_events where stream = $1 and type = 'message.sent')`, second)
	third := post("+12127770003", true)
	waitForRow(t, a, `select exists (select from ledger_events where stream = $1 and type = 'message.deferred')`, third)
	open()
	a.Settle()
	require.Equal(t, "sent", status(a.Live, first))
	require.Equal(t, "queued", status(a.Live, third), "the hour's capacity is used")
	a.Advance(24 * time.Hour)
	require.Equal(t, "sent", status(a.Live, third), "a day later")
}

// A line that is paused and resumed again and again, faster than the assign task runs, ends with every message sent.
func TestDeferredMessageLeavesWhenItsLineCanSendAgain(t *testing.T) {
	t.Parallel()
	limits := line.DefaultLimits()
	limits.NewContactsPerHour, limits.PreReplyMaxMessages = 1, 10
	for name, known := range map[string]bool{"named by the message": false, "known to the contact": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := app.Start(t, app.Limits(limits))
			own, phone := a.Lines[0].ID, a.Phone()
			move := func(to string) { a.Live.Post("/v1/lines/"+own+"/"+to, app.Map{}).Is(200) }
			in := app.Map{"to": phone, "body": "Hello again"}
			if known {
				sendSettled(a, app.Map{"to": phone, "body": "Hello", "line_id": own})
				sendSettled(a, app.Map{"to": a.Phone(), "body": "Hello", "line_id": a.Lines[1].ID})
			} else {
				in["line_id"] = own
			}
			move("pause")
			a.Settle()
			deferred := sendSettled(a, in)
			require.Equal(t, "queued", status(a.Live, deferred))
			for range 5 {
				move("resume")
				move("pause")
			}
			move("resume")
			a.Settle()
			require.Equal(t, "delivered", status(a.Live, deferred))
		})
	}
}

func TestAMessageThatFallsBackWhileItsLineStopsWaitsForALine(t *testing.T) {
	t.Parallel()
	limits := line.DefaultLimits()
	limits.NewContactsPerHour = 1
	fake := &gated{slow: "+12127770001", at: make(chan struct{}), on: make(chan struct{})}
	a := app.Start(t, app.LinesSendSMS(), app.Limits(limits), app.Carrier(func(*app.Node) carrier.Carrier { return fake }))
	open := sync.OnceFunc(func() { close(fake.on) })
	t.Cleanup(open)
	own := a.Lines[0].ID
	a.Live.Do("PATCH", "/v1/pools/"+a.PoolID, app.Map{"fallback_sms_mode": "not_chat_or_failed"}).Is(200)
	a.Live.Post("/v1/lines/"+a.Lines[1].ID+"/pause", app.Map{}).Is(200)
	sendSettled(a, app.Map{"to": a.Phone(), "body": "Hello", "line_id": own})
	deferred := sendSettled(a, app.Map{"to": fake.slow, "body": "Hello"})
	require.Equal(t, []any{"line_new_contacts_hour"}, deferrals(a.Live, deferred))
	_, err := a.Clock.Advance(time.Hour) // the hour has capacity again
	require.NoError(t, err)
	<-fake.at
	a.Live.Post("/v1/lines/"+own+"/pause", app.Map{}).Is(200)
	refusal := error(&carrier.Rejected{Code: "not_on_chat"})
	fake.next.Store(&refusal)
	fake.on <- struct{}{}
	a.Settle()
	require.Equal(t, []any{"line_new_contacts_hour", "line_unavailable"}, deferrals(a.Live, deferred))
	a.Live.Post("/v1/lines/"+own+"/resume", app.Map{}).Is(200)
	<-fake.at
	open()
	a.Settle()
	shows(t, message(a.Live, deferred), app.Map{"status": "sent", "channel": "sms"})
}

// sendSettled sends a message, waits until no work is due, and returns the message's id.
func sendSettled(a *app.App, in app.Map) string {
	id := a.Live.Post("/v1/messages", in).Is(201).Text("id")
	a.Settle()
	return id
}

func TestCapacityThatAMessageCannotUseGoesToTheNext(t *testing.T) {
	t.Parallel()
	for _, why := range []string{"its text left there today", "its sender may not use that line"} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			limits := line.DefaultLimits()
			limits.NewContactsPerHour, limits.IdenticalTextMaxPerDay = 2, 1
			a := app.Start(t, app.Limits(limits))
			to := func(by *app.Client, in app.Map) string {
				in["to"] = a.Phone()
				id := by.Post("/v1/messages", in).Is(201).Text("id")
				a.Settle()
				return id
			}
			full, some, by, body := a.Lines[0].ID, a.Lines[1].ID, a.Live, "Sale"
			to(a.Live, app.Map{"body": "One", "line_id": full})
			to(a.Live, app.Map{"body": "Two", "line_id": full})
			to(a.Live, app.Map{"body": "Sale", "line_id": some})
			if why == "its sender may not use that line" {
				_, by = newIdentity(a, app.Map{"allowed_line_ids": []string{full}})
				body = "Else"
			}
			first := to(by, app.Map{"body": body})
			require.Equal(t, []any{"line_new_contacts_hour"}, deferrals(a.Live, first))
			next := to(a.Live, app.Map{"body": "Another"})
			require.Equal(t, some, message(a.Live, next)["line_id"])
			require.Equal(t, map[any]int{"queued": 1, "delivered": 1}, counted(t, a.Live, []string{first, next}))
			a.Advance(time.Hour - time.Millisecond)
			require.Equal(t, "queued", status(a.Live, first))
			a.Advance(time.Millisecond)
			require.Equal(t, full, message(a.Live, first)["line_id"])
		})
	}
}

func TestAMessageThatCouldNotUseCapacityIsEvaluatedAgainWhenLinesChange(t *testing.T) {
	t.Parallel()
	limits := line.DefaultLimits()
	limits.NewContactsPerHour, limits.IdenticalTextMaxPerDay = 1, 1
	a := app.Start(t, app.Limits(limits))
	var ids []string
	for range 4 { // to two lines
		ids = append(ids, send(a.Live, a.Phone(), "Sale"))
		a.Settle()
	}
	a.Advance(time.Hour) // there is capacity for new contacts again, but not for the text
	require.Equal(t, map[any]int{"delivered": 2, "queued": 2}, counted(t, a.Live, ids))
	a.AddLine()
	a.Settle()
	require.Equal(t, map[any]int{"delivered": 3, "queued": 1}, counted(t, a.Live, ids))
}

func TestAMessageWaitsUntilThereIsCapacityThatItCanUse(t *testing.T) {
	t.Parallel()
	limits := line.DefaultLimits()
	limits.NewContactsPerDay, limits.SendsPerDay = 1, 2
	a := app.Start(t, app.Limits(limits))
	own, other, phone := a.Lines[0].ID, a.Lines[1].ID, "+12127770001"
	a.Live.Do("PATCH", "/v1/pools/"+a.PoolID, app.Map{"rotation": "round_robin"}).Is(200)
	for i, named := range []string{own, own, other} { // their line is full; the other one has capacity for known contacts
		to := []string{phone, phone, "+12127770002"}[i]
		a.Live.Post("/v1/messages", app.Map{"to": to, "body": fmt.Sprint("Hello ", i), "line_id": named}).Is(201)
		a.Settle()
	}
	deferred := send(a.Live, phone, "Hello again")
	a.Settle()
	require.Equal(t, []any{"line_sends_day"}, deferrals(a.Live, deferred))
	for _, move := range []string{"pause", "resume"} { // capacity may have become free: the queue is read
		a.Live.Post("/v1/lines/"+other+"/"+move, app.Map{}).Is(200)
		a.Settle()
	}
	require.Equal(t, "queued", status(a.Live, deferred), "the other line has capacity, but not for a contact that is new to it")
	a.Advance(23 * time.Hour) // the next day, when it is light
	require.NotEqual(t, "queued", status(a.Live, deferred))
}

func TestCapacityForAMessageInQuietHoursGoesToTheNextMessageAtOnce(t *testing.T) {
	t.Parallel()
	limits := line.DefaultLimits()
	limits.NewContactsPerHour = 1
	a := app.Start(t, app.Limits(limits))
	sendOn := func(phone string) string {
		return sendSettled(a, app.Map{"to": phone, "body": "Hello", "line_id": a.Lines[0].ID})
	}
	a.Advance(7*time.Hour + 30*time.Minute)
	sendOn(a.Phone())
	var late []string
	for i := range 3 {
		late = append(late, sendOn(fmt.Sprint("+1212777000", i)))
	}
	early := sendOn("+18082345601")
	require.Equal(t, []any{"line_new_contacts_hour"}, deferrals(a.Live, early))
	a.Advance(time.Hour) // half past eight in New York, half past two in Honolulu
	require.Equal(t, "delivered", status(a.Live, early))
	require.Equal(t, map[any]int{"queued": 3}, counted(t, a.Live, late))
}

func TestMessageThatWaitsForItsContactsLineLeavesByAnotherWhenThatLineIsPaused(t *testing.T) {
	t.Parallel()
	limits := line.DefaultLimits()
	limits.SendsPerDay = 1
	a := app.Start(t, app.Limits(limits))
	phone := a.Phone()
	first := sendSettled(a, app.Map{"to": phone, "body": "Hello"})
	own := text(message(a.Live, first), "line_id")
	deferred := sendSettled(a, app.Map{"to": phone, "body": "Hello again"})
	require.Equal(t, []any{"line_sends_day"}, deferrals(a.Live, deferred))
	a.Live.Post("/v1/lines/"+own+"/pause", app.Map{}).Is(200)
	a.Settle()
	require.Equal(t, "delivered", status(a.Live, deferred))
	require.NotEqual(t, own, message(a.Live, deferred)["line_id"])
}
