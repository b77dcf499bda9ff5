package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/line"
	"ledgerline/domain/organisation"
	"ledgerline/events"
	"ledgerline/test/app"
)

func TestChangedSettingReleasesTheMessagesThatItNowAllows(t *testing.T) {
	t.Parallel()
	set := func(t *testing.T, a *app.App, hours events.QuietHours) {
		t.Helper()
		_, err := a.Nodes[0].App.SetCompliance(t.Context(), a.Operator(), organisation.ComplianceChange{QuietHours: &hours})
		require.NoError(t, err)
		a.Settle()
	}
	t.Run("quiet hours", func(t *testing.T) {
		t.Parallel()
		a := app.Start(t, app.Limits(line.DefaultLimits()))
		set(t, a, events.QuietHours{Start: "18:00", End: "15:00"})
		id := send(a.Live, a.Phone(), "Hello")
		a.Settle()
		require.Equal(t, []any{"quiet_hours"}, deferrals(a.Live, id))
		set(t, a, events.QuietHours{Start: "20:00", End: "09:00"})
		require.Equal(t, "delivered", status(a.Live, id))
	})
	t.Run("first-message rules", func(t *testing.T) {
		t.Parallel()
		limits := line.DefaultLimits()
		a := app.Start(t, app.Limits(limits))
		phone := a.Phone()
		var ids []string
		for _, body := range []string{"one", "two", "three", "four"} {
			ids = append(ids, send(a.Live, phone, body))
		}
		a.Settle()
		require.Equal(t, []any{"first_message_rules"}, deferrals(a.Live, ids[3]))
		limits.PreReplyMaxMessages = 4
		_, err := a.Nodes[0].App.SetSendingLimits(t.Context(), a.Operator(), limits)
		require.NoError(t, err)
		a.Settle()
		require.Equal(t, "delivered", status(a.Live, ids[3]))
	})
	t.Run("a pool that no longer keeps contacts on their line", func(t *testing.T) {
		t.Parallel()
		limits := line.DefaultLimits()
		limits.SendsPerDay = 2
		a := app.Start(t, app.Limits(limits))
		phone := a.Phone()
		var ids []string
		for _, body := range []string{"one", "two", "three"} {
			ids = append(ids, send(a.Live, phone, body))
		}
		a.Settle()
		require.Equal(t, []any{"line_sends_day"}, deferrals(a.Live, ids[2]))
		pool := a.Live.Get("/v1/pools").Is(200).Data()[0]
		a.Live.Do("PATCH", "/v1/pools/"+text(pool, "id"), app.Map{"rotation": "round_robin"}).Is(200)
		a.Settle()
		require.Equal(t, "delivered", status(a.Live, ids[2]))
	})
}

func TestContactInQuietHoursKeepsItsPositionAndReservesNoCapacity(t *testing.T) {
	t.Parallel()
	limits := line.DefaultLimits()
	limits.NewContactsPerHour, limits.NewContactsPerDay = 1, 2
	a := app.Start(t, app.Limits(limits))
	lineID := a.Lines[0].ID
	sendOn := func(phone, body string) string {
		return a.Live.Post("/v1/messages", app.Map{"to": phone, "body": body, "line_id": lineID}).Is(201).Text("id")
	}
	first := sendOn(a.Phone(), "first")
	a.Settle()
	require.Equal(t, "delivered", status(a.Live, first))
	far := sendOn("+18082345601", "it is early in Honolulu") // 7 AM
	a.Settle()
	second := sendOn(a.Phone(), "second")
	a.Settle()
	require.Equal(t, []any{"line_new_contacts_hour"}, deferrals(a.Live, second), "a contact in quiet hours uses no capacity of the day")
	a.Advance(time.Hour)
	require.Equal(t, "delivered", status(a.Live, second))
	require.NotContains(t, []any{"delivered", "read"}, status(a.Live, far))
}
