package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/test/app"
)

func TestSandboxNumbersBehaveAsRuleSND60States(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	type moment struct {
		after  time.Duration // since the moment before
		status string
	}
	delivered := []any{"accepted", "routed", "sending", "capability_checked", "sent", "delivered"}
	read := append(append([]any{}, delivered...), "read")
	cases := []struct {
		digits   []int
		moments  []moment
		code     any
		timeline []any
	}{
		{digits: []int{0, 1, 42, 79}, moments: []moment{{0, "delivered"}, {2*time.Second - time.Millisecond, "delivered"}, {time.Millisecond, "read"}}, timeline: read},
		{digits: []int{80, 81, 82, 83, 84, 88}, moments: []moment{{0, "failed"}}, code: "not_on_chat", timeline: []any{"accepted", "routed", "sending", "capability_checked", "rejected", "failed"}},
		{digits: []int{85}, moments: []moment{{0, "failed"}}, code: "carrier_rejected", timeline: []any{"accepted", "routed", "sending", "capability_checked", "sent", "failed"}},
		{
			digits:   []int{86},
			moments:  []moment{{0, "sending"}, {30*time.Second - time.Millisecond, "sending"}, {time.Millisecond, "sending"}, {2*time.Minute - time.Millisecond, "sending"}, {time.Millisecond, "delivered"}, {2 * time.Second, "read"}},
			timeline: []any{"accepted", "routed", "sending", "capability_checked", "retried", "sending", "retried", "sending", "sent", "delivered", "read"},
		},
		{
			digits: []int{87}, moments: []moment{{0, "sent"}, {24*time.Hour - time.Millisecond, "sent"}, {time.Millisecond, "sent"}, {24 * time.Hour, "sent"}},
			timeline: []any{"accepted", "routed", "sending", "capability_checked", "sent", "receipt_missing"},
		},
		{
			digits: []int{89}, moments: []moment{{0, "sent"}, {30*time.Second - time.Millisecond, "sent"}, {time.Millisecond, "delivered"}, {2 * time.Second, "read"}},
			timeline: read,
		},
	}
	for _, c := range cases { // one after the other: they share the clock
		ids := make([]string, len(c.digits))
		for i, d := range c.digits {
			ids[i] = send(a.Test, a.SandboxNumber(d), fmt.Sprintf("to %02d", d))
		}
		for _, m := range c.moments {
			a.Advance(m.after)
			for i, id := range ids {
				require.Equal(t, m.status, status(a.Test, id), "%02d after %s", c.digits[i], m.after)
			}
		}
		for i, id := range ids {
			require.Equal(t, c.timeline, timeline(a.Test, id), "%02d", c.digits[i])
			require.Equal(t, c.code, message(a.Test, id)["error_code"], "%02d", c.digits[i])
		}
	}
}

func TestTimelineHasTimesInUTCWithMilliseconds(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	id := a.Test.Post("/v1/messages", app.Map{"to": a.SandboxNumber(86), "body": "x", "send_at": "2026-03-02T19:00:00.5+01:00"}).Is(201).Text("id")
	a.Advance(time.Hour + 500*time.Millisecond)
	a.Advance(30 * time.Second)
	a.Advance(2 * time.Minute)
	entries := a.Test.Get("/v1/messages/" + id + "/events").Is(200)
	require.Equal(t, []any{"accepted", "routed", "sending", "capability_checked", "retried", "sending", "retried", "sending", "sent", "delivered"}, entries.Column("type"))
	for path, want := range map[string]time.Duration{
		"data.0.detail.send_at": time.Hour + 500*time.Millisecond,
		"data.4.detail.until":   time.Hour + 30*time.Second + 500*time.Millisecond, "data.6.detail.until": time.Hour + 150*time.Second + 500*time.Millisecond,
		"data.9.detail.at": time.Hour + 150*time.Second + 500*time.Millisecond,
	} {
		require.Equal(t, stamp(want), entries.Text(path), path)
	}
}

func TestScriptedRepliesOfSandboxNumbersTakeEffect(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	written := func(digits int, body string) (phone string, messages []app.Map) {
		phone = a.SandboxNumber(digits)
		id := send(a.Test, phone, body)
		a.Settle()
		rows := a.Test.Get("/v1/messages?contact_id=" + text(message(a.Test, id), "contact_id")).Is(200).Data()
		for i := len(rows) - 1; i >= 0; i-- {
			messages = append(messages, rows[i])
		}
		return phone, messages
	}
	bodies := func(messages []app.Map) (list []any) {
		for _, m := range messages {
			list = append(list, m["body"])
		}
		return list
	}

	phone, stop := written(90, "Hello")
	require.Equal(t, []any{"Hello", "STOP"}, bodies(stop)[:2])
	require.Len(t, stop, 3, "one confirmation, and no reply to it")
	require.Equal(t, "delivered", stop[2]["status"])
	a.Test.Post("/v1/messages", app.Map{"to": phone, "body": "x"}).Refused(422, "contact_opted_out")

	_, help := written(91, "Hello")
	require.Equal(t, []any{"Hello", "HELP"}, bodies(help)[:2])
	require.Len(t, help, 3)
	require.Contains(t, help[2]["body"], "Acme")

	_, yes := written(92, "Hello")
	require.Equal(t, []any{"Hello", "yes"}, bodies(yes))
	for d := 93; d <= 99; d++ {
		_, echo := written(d, "Hello, échø 👋")
		require.Equal(t, []any{"Hello, échø 👋", "Hello, échø 👋"}, bodies(echo), d)
		shows(t, echo[1], app.Map{"direction": "inbound", "status": "received", "is_test": true, "to": a.Sandbox.Phone, "line_id": a.Sandbox.ID})
	}
	a.Advance(2 * time.Second)
	require.Equal(t, "read", status(a.Test, text(stop[0], "id")))
}
