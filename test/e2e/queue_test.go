package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/line"
	"ledgerline/test/app"
)

// sendSettled has a message accepted, waits until nothing moves, and gives the message's id.
func sendSettled(a *app.App, in app.Map) string {
	id := a.Live.Post("/v1/messages", in).Is(201).Text("id")
	a.Settle()
	return id
}

func TestWhoCannotUseTheRoomThatThereIsLeavesItToTheNext(t *testing.T) {
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

func TestWhoCouldNotUseTheRoomLooksAgainWhenLinesChange(t *testing.T) {
	t.Parallel()
	limits := line.DefaultLimits()
	limits.NewContactsPerHour, limits.IdenticalTextMaxPerDay = 1, 1
	a := app.Start(t, app.Limits(limits))
	var ids []string
	for range 4 { // to two lines
		ids = append(ids, send(a.Live, a.Phone(), "Sale"))
		a.Settle()
	}
	a.Advance(time.Hour) // there is room for new contacts again, and none for the text
	require.Equal(t, map[any]int{"delivered": 2, "queued": 2}, counted(t, a.Live, ids))
	a.AddLine()
	a.Settle()
	require.Equal(t, map[any]int{"delivered": 3, "queued": 1}, counted(t, a.Live, ids))
}

func TestWhoWasLetGoInVainRestsUntilThereIsRoomThatWillDo(t *testing.T) {
	t.Parallel()
	limits := line.DefaultLimits()
	limits.NewContactsPerDay, limits.SendsPerDay = 1, 2
	a := app.Start(t, app.Limits(limits))
	own, other, phone := a.Lines[0].ID, a.Lines[1].ID, "+12127770001"
	a.Live.Do("PATCH", "/v1/pools/"+a.PoolID, app.Map{"rotation": "round_robin"}).Is(200)
	for i, named := range []string{own, own, other} { // their line is full, the other one has room for those whom it knows
		to := []string{phone, phone, "+12127770002"}[i]
		a.Live.Post("/v1/messages", app.Map{"to": to, "body": fmt.Sprint("Hello ", i), "line_id": named}).Is(201)
		a.Settle()
	}
	held := send(a.Live, phone, "Hello again")
	a.Settle()
	require.Equal(t, []any{"line_sends_day"}, deferrals(a.Live, held))
	for _, move := range []string{"pause", "resume"} { // there is room again, and it is looked at
		a.Live.Post("/v1/lines/"+other+"/"+move, app.Map{}).Is(200)
		a.Settle()
	}
	var stage string
	a.QueryRow(`select stage from sending_waiting`, nil, &stage)
	require.Equal(t, "unfit", stage)
	a.Advance(23 * time.Hour) // the next day, when it is light
	require.NotEqual(t, "queued", status(a.Live, held))
}

func TestWhoIsLetGoInQuietHoursLeavesTheRoomToTheNextAtOnce(t *testing.T) {
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

func TestWhoWaitsForItsOwnLineGoesByAnotherOneWhenThatIsPaused(t *testing.T) {
	t.Parallel()
	limits := line.DefaultLimits()
	limits.SendsPerDay = 1
	a := app.Start(t, app.Limits(limits))
	phone := a.Phone()
	first := sendSettled(a, app.Map{"to": phone, "body": "Hello"})
	own := text(message(a.Live, first), "line_id")
	held := sendSettled(a, app.Map{"to": phone, "body": "Hello again"})
	require.Equal(t, []any{"line_sends_day"}, deferrals(a.Live, held))
	a.Live.Post("/v1/lines/"+own+"/pause", app.Map{}).Is(200)
	a.Settle()
	require.Equal(t, "delivered", status(a.Live, held))
	require.NotEqual(t, own, message(a.Live, held)["line_id"])
}
