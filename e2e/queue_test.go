package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/line"
	"ledgerline/testkit/app"
)

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
