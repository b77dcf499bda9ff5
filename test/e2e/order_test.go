package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/test/app"
)

// departures returns the messages in the order of their message.sent events.
func departures(a *app.App, contactID string) (ids []string) {
	a.QueryRow(`select coalesce(array_agg(stream order by position), '{}') from ledger_events
		where type = 'message.sent' and data->>'contact_id' = $1`, []any{contactID}, &ids)
	return ids
}

func TestMessagesToOneContactLeaveInTheOrderInWhichTheyWereAccepted(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards)
		phone := a.Phone()
		var sent []string
		for i := range 40 {
			sent = append(sent, send(a.Live, phone, fmt.Sprint(i)))
		}
		a.Settle()
		require.Equal(t, sent, departures(a, text(message(a.Live, sent[0]), "contact_id")))
	})
}

func TestScheduledMessageDoesNotDelayLaterOnes(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards)
		phone := a.Phone()
		scheduled := a.Live.Post("/v1/messages", app.Map{"to": phone, "body": "later", "send_at": stamp(time.Minute)}).Is(201).Text("id")
		now := send(a.Live, phone, "now")
		a.Settle()
		contact := text(message(a.Live, now), "contact_id")
		require.Equal(t, []string{now}, departures(a, contact))
		a.Advance(time.Minute)
		require.Equal(t, []string{now, scheduled}, departures(a, contact))
	})
}

func TestScheduledMessageIsQueuedWhenDueEvenBehindADeferredOne(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	for _, l := range a.Lines {
		_, err := a.Nodes[0].App.ChangeLineState(t.Context(), a.Operator(), l.ID, "quarantined", nil)
		require.NoError(t, err)
	}
	phone := a.Phone()
	deferred := send(a.Live, phone, "deferred")
	scheduled := a.Live.Post("/v1/messages", app.Map{"to": phone, "body": "later", "send_at": stamp(time.Minute)}).Is(201).Text("id")
	a.Settle()
	require.Equal(t, []any{"queued", "scheduled"}, []any{status(a.Live, deferred), status(a.Live, scheduled)})
	a.Advance(time.Minute)
	require.Equal(t, "queued", status(a.Live, scheduled))
	require.Equal(t, []any{"contact_busy"}, deferrals(a.Live, scheduled))
}

func TestManyScheduledMessagesDoNotDelayLaterOnes(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	phone := a.Phone()
	for range 105 {
		a.Live.Post("/v1/messages", app.Map{"to": phone, "body": "later", "send_at": stamp(time.Hour)}).Is(201)
	}
	now := send(a.Live, phone, "now")
	a.Settle()
	require.Equal(t, "delivered", status(a.Live, now))
	a.Advance(time.Hour)
	require.Len(t, departures(a, text(message(a.Live, now), "contact_id")), 106)
}

func TestARetryKeepsTheOrder(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards)
		phone := a.SandboxNumber(86) // each message is refused twice
		first, second := send(a.Test, phone, "first"), send(a.Test, phone, "second")
		a.Settle()
		require.Equal(t, "sending", status(a.Test, first))
		require.Equal(t, "queued", status(a.Test, second))
		for _, d := range []time.Duration{30 * time.Second, 2 * time.Minute, 30 * time.Second, 2 * time.Minute} {
			a.Advance(d)
		}
		require.Equal(t, []string{first, second}, departures(a, text(message(a.Test, first), "contact_id")))
	})
}

func TestFailedMessageDoesNotDelayLaterOnes(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	phone := a.SandboxNumber(80)
	first, second := send(a.Test, phone, "first"), send(a.Test, phone, "second")
	a.Settle()
	require.Equal(t, "failed", status(a.Test, first))
	require.Equal(t, "failed", status(a.Test, second))
}

func TestDeferredMessageKeepsTheOrderAndLeavesWhenALineCanSendAgain(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	reason := "checked"
	for _, l := range a.Lines {
		_, err := a.Nodes[0].App.ChangeLineState(t.Context(), a.Operator(), l.ID, "quarantined", &reason)
		require.NoError(t, err)
	}
	phone := a.Phone()
	var sent []string
	for i := range 5 {
		sent = append(sent, send(a.Live, phone, fmt.Sprint(i)))
	}
	a.Settle()
	deferred := a.Live.Get("/v1/messages/" + sent[0] + "/events").Is(200)
	require.Equal(t, []any{"accepted", "deferred"}, deferred.Column("type"))
	require.Equal(t, "line_unavailable", deferred.Text("data.1.detail.reason"))
	_, err := a.Nodes[0].App.ChangeLineState(t.Context(), a.Operator(), a.Lines[0].ID, "ready", nil)
	require.NoError(t, err)
	a.Settle()
	require.Equal(t, sent, departures(a, text(message(a.Live, sent[0]), "contact_id")))
	require.Equal(t, a.Lines[0].ID, message(a.Live, sent[4])["line_id"])
}

func TestMessageDeferredForSevenDaysFails(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	for _, l := range a.Lines {
		_, err := a.Nodes[0].App.ChangeLineState(t.Context(), a.Operator(), l.ID, "quarantined", nil)
		require.NoError(t, err)
	}
	id := send(a.Live, a.Phone(), "deferred")
	a.Settle()
	a.Advance(7*24*time.Hour - time.Millisecond)
	require.Equal(t, "queued", status(a.Live, id))
	a.Advance(time.Millisecond)
	shows(t, message(a.Live, id), app.Map{"status": "failed", "error_code": "hold_expired"})
}

// quarantineFirstLine takes the first line out of service.
func quarantineFirstLine(t *testing.T, a *app.App) {
	t.Helper()
	_, err := a.Nodes[0].App.ChangeLineState(t.Context(), a.Operator(), a.Lines[0].ID, "quarantined", nil)
	require.NoError(t, err)
}

func TestCancelingADeferredMessageReleasesLaterOnes(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	quarantineFirstLine(t, a)
	phone := a.Phone()
	deferred := a.Live.Post("/v1/messages", app.Map{"to": phone, "body": "deferred", "line_id": a.Lines[0].ID}).Is(201).Text("id")
	behind := send(a.Live, phone, "behind")
	a.Settle()
	require.Equal(t, []any{"contact_busy"}, deferrals(a.Live, behind))
	a.Live.Post("/v1/messages/"+deferred+"/cancel", nil).Is(200)
	a.Settle()
	require.Equal(t, "delivered", status(a.Live, behind))
}

func TestCanceledMessageIsRemovedFromTheCapacityQueue(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	quarantineFirstLine(t, a)
	deferred := a.Live.Post("/v1/messages", app.Map{"to": a.Phone(), "body": "deferred", "line_id": a.Lines[0].ID}).Is(201).Text("id")
	waiting := func() (n int) {
		a.Settle()
		a.QueryRow(`select count(*) from capacity_queue`, nil, &n)
		return n
	}
	require.Equal(t, 1, waiting())
	a.Live.Post("/v1/messages/"+deferred+"/cancel", nil).Is(200)
	require.Zero(t, waiting())
}

func TestDeferredAutomaticTextDoesNotDelayOtherMessages(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	quarantineFirstLine(t, a)
	phone := a.Phone()
	a.Inbound(phone, a.Lines[0].Phone, "HELP")
	a.Settle()
	other := send(a.Live, phone, "Good morning")
	a.Settle()
	require.Equal(t, "delivered", status(a.Live, other))
	var answer string
	a.QueryRow(`select id from read.messages where direction = 'outbound' and source is null`, nil, &answer)
	require.Equal(t, []any{"line_unavailable"}, deferrals(a.Live, answer))
	_, err := a.Nodes[0].App.ChangeLineState(t.Context(), a.Operator(), a.Lines[0].ID, "ready", nil)
	require.NoError(t, err)
	a.Settle()
	require.Equal(t, "delivered", status(a.Live, answer))
}
