package e2e_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/line"
	"ledgerline/service"
	"ledgerline/test/app"
)

// deferrals returns the reasons of a message's deferrals, in order.
func deferrals(c *app.Client, id string) []any {
	var reasons []any
	for _, e := range c.Get("/v1/messages/" + id + "/events").Is(200).Data() {
		if e["type"] == "deferred" {
			reasons = append(reasons, object(e["detail"])["reason"])
		}
	}
	return reasons
}

// lastDetail is the detail of a message's newest event of a type.
func lastDetail(t *testing.T, c *app.Client, id, kind string) app.Map {
	t.Helper()
	var found app.Map
	for _, e := range c.Get("/v1/messages/" + id + "/events").Is(200).Data() {
		if e["type"] == kind {
			found = object(e["detail"])
		}
	}
	require.NotNil(t, found, "%s has no event %s", id, kind)
	return found
}

// counted counts the messages of a list by status.
func counted(t *testing.T, c *app.Client, ids []string) map[any]int {
	t.Helper()
	counts := map[any]int{}
	for _, id := range ids {
		s := status(c, id)
		if s == "read" {
			s = "delivered"
		}
		counts[s]++
	}
	return counts
}

func TestMessageInQuietHoursIsDeferredAndLeavesWhenTheyEnd(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards, app.Limits(line.DefaultLimits()))
		a.Advance(12 * time.Hour) // midnight in New York, 9 PM in San Francisco
		id := send(a.Live, a.Phone(), "Good evening")
		a.Settle()
		opens := 24*time.Hour + 0 // 9 AM in San Francisco is noon in New York
		shows(t, message(a.Live, id), app.Map{"status": "queued", "scheduled_for": stamp(opens), "line_id": nil})
		shows(t, lastDetail(t, a.Live, id, "deferred"), app.Map{"reason": "quiet_hours", "until": stamp(opens), "zone": "America/Los_Angeles", "line_id": nil})
		a.Advance(12*time.Hour - time.Millisecond)
		require.Equal(t, "queued", status(a.Live, id))
		a.Advance(time.Millisecond)
		require.Equal(t, "delivered", status(a.Live, id))
		require.Nil(t, message(a.Live, id)["scheduled_for"])
	})
}

func TestFourthMessageBeforeAReplyIsDeferredUntilTheReply(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.Limits(line.DefaultLimits()))
	phone := a.Phone()
	for i := range 3 {
		id := send(a.Live, phone, fmt.Sprintf("Message %d", i+1))
		a.Settle()
		require.Equal(t, "delivered", status(a.Live, id))
	}
	fourth := send(a.Live, phone, "Message 4")
	link := send(a.Live, phone, "see https://example.com")
	a.Settle()
	shows(t, message(a.Live, fourth), app.Map{"status": "queued", "scheduled_for": nil})
	shows(t, lastDetail(t, a.Live, fourth, "deferred"), app.Map{"reason": "first_message_rules", "until": nil})
	require.Equal(t, []any{"first_message_rules"}, deferrals(a.Live, link))
	a.Inbound(phone, a.Lines[0].Phone, "yes, go on")
	a.Settle()
	require.Equal(t, []any{"delivered", "delivered"}, []any{status(a.Live, fourth), status(a.Live, link)})
}

func TestPlainMessageOvertakesOneDeferredByTheFirstMessageRules(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.Limits(line.DefaultLimits()))
	phone := a.Phone()
	link := send(a.Live, phone, "see https://example.com")
	plain := send(a.Live, phone, "Hello")
	a.Settle()
	require.Equal(t, []any{"queued", "delivered"}, []any{status(a.Live, link), status(a.Live, plain)})
	a.Advance(7 * 24 * time.Hour)
	shows(t, message(a.Live, link), app.Map{"status": "failed", "error_code": "hold_expired"})
}

func TestContactWhoWroteFirstIsExemptFromTheFirstMessageRules(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.Limits(line.DefaultLimits()))
	phone := a.Phone()
	a.Inbound(phone, a.Lines[0].Phone, "How do I get there?")
	id := a.Live.Post("/v1/messages", app.Map{"to": phone, "body": "https://example.com/map", "media": []app.Map{{"url": "https://example.com/map.png"}}}).Is(201).Text("id")
	a.Settle()
	require.Equal(t, "delivered", status(a.Live, id))
}

func TestNewContactsOfALineAreLimitedPerHourAndDayAndTheDayRollsOverAt3AMInNewYork(t *testing.T) {
	t.Parallel()
	limits := line.DefaultLimits()
	limits.NewContactsPerHour, limits.NewContactsPerDay = 3, 5
	a := app.Start(t, app.Limits(limits))
	to := a.Lines[0].ID
	var ids []string
	for i := range 8 {
		ids = append(ids, a.Live.Post("/v1/messages", app.Map{"to": fmt.Sprintf("+1212777%04d", i), "body": fmt.Sprint("Hello ", i), "line_id": to}).Is(201).Text("id"))
		a.Settle()
	}
	require.Equal(t, map[any]int{"delivered": 3, "queued": 5}, counted(t, a.Live, ids))
	shows(t, lastDetail(t, a.Live, ids[3], "deferred"), app.Map{"reason": "line_new_contacts_hour", "until": stamp(time.Hour), "line_id": to})
	a.Advance(time.Hour - time.Millisecond)
	require.Equal(t, "queued", status(a.Live, ids[3]))
	a.Advance(time.Millisecond)
	require.Equal(t, []any{"delivered", "delivered", "queued"}, []any{status(a.Live, ids[3]), status(a.Live, ids[4]), status(a.Live, ids[5])})
	a.Advance(time.Hour)
	rollover := 15 * time.Hour // 3 AM
	shows(t, lastDetail(t, a.Live, ids[7], "deferred"), app.Map{"reason": "line_new_contacts_day", "until": stamp(rollover)})
	a.Advance(rollover - 2*time.Hour)
	require.Equal(t, map[any]int{"delivered": 5, "queued": 3}, counted(t, a.Live, ids), "there is room again, and it is night")
	a.Advance(6 * time.Hour)
	require.Equal(t, map[any]int{"delivered": 8}, counted(t, a.Live, ids))
}

func TestKnownContactsDoNotCountAsNewContacts(t *testing.T) {
	t.Parallel()
	limits := line.DefaultLimits()
	limits.NewContactsPerHour = 1
	a := app.Start(t, app.Limits(limits))
	phone := a.Phone()
	for i := range 3 {
		id := sendSettled(a, app.Map{"to": phone, "body": fmt.Sprint("Hello ", i), "line_id": a.Lines[0].ID})
		require.Equal(t, "delivered", status(a.Live, id))
	}
}

func TestIdenticalTextsOfALineAreLimitedPerDay(t *testing.T) {
	t.Parallel()
	limits := app.Unlimited()
	limits.IdenticalTextMaxPerDay = 2
	a := app.Start(t, app.Limits(limits))
	same := func(body string) string {
		return sendSettled(a, app.Map{"to": a.Phone(), "body": body, "line_id": a.Lines[0].ID})
	}
	ids := []string{same("Big sale"), same("Big sale"), same(" Big sale "), same("Small sale")}
	require.Equal(t, []any{"delivered", "delivered", "queued", "delivered"}, []any{status(a.Live, ids[0]), status(a.Live, ids[1]), status(a.Live, ids[2]), status(a.Live, ids[3])})
	shows(t, lastDetail(t, a.Live, ids[2], "deferred"), app.Map{"reason": "line_sends_day", "rule": "identical_text_max_per_day"})
}

func TestConcurrentNodesNeverExceedCapacityAndServeDeferredMessagesInOrder(t *testing.T) {
	t.Parallel()
	limits := line.DefaultLimits()
	limits.ReplyRatioMin = 0 // nobody replies, and no line may be throttled because of that
	a := app.Start(t, app.Limits(limits), app.Nodes(service.All, service.All, service.All, service.All))
	a.AddLine()
	const sends, callers = 500, 16
	var group sync.WaitGroup
	for caller := range callers {
		c := a.Live.OnNode(a.Nodes[caller%4])
		group.Go(func() {
			for i := caller; i < sends; i += callers {
				c.Post("/v1/messages", app.Map{"to": fmt.Sprintf("+1212777%04d", i), "body": fmt.Sprint("Hello ", i)}).Is(201)
			}
		})
	}
	group.Wait()
	a.Settle()
	accepted := column(a, `select stream from ledger_events where type = 'message.queued' order by position`)
	require.Len(t, accepted, sends)
	left := func() []string {
		return column(a, `select stream from ledger_events where type = 'message.sent' order by position`)
	}
	perHour, perDay := 3*limits.NewContactsPerHour, 3*limits.NewContactsPerDay
	sent := left()
	require.Len(t, sent, perHour, "who comes first is the callers' race")

	// Deferred messages leave in FIFO order, as many as there is capacity for in each hour and day.
	expect := func(more int, why string) {
		t.Helper()
		waiting := slices.DeleteFunc(slices.Clone(accepted), func(id string) bool { return slices.Contains(sent, id) })
		now := left()
		var places, firsts []int // of those that left now, among those that waited
		for _, id := range now[len(sent):] {
			places = append(places, slices.Index(waiting, id))
		}
		slices.Sort(places)
		for i := range more {
			firsts = append(firsts, i)
		}
		require.Equal(t, firsts, places, "%s, at %s", why, a.Clock.Now())
		sent = now
	}
	for _, more := range []int{perHour, perHour, perDay - 3*perHour, 0, 0} {
		a.Advance(time.Hour)
		expect(more, "hour by hour")
	}
	a.Advance(15*time.Hour - 5*time.Hour) // 3 AM: a new usage day, in the night
	expect(0, "quiet hours")
	for range 3 { // in quiet hours entries get no capacity and keep their positions
		a.Advance(time.Minute)
		expect(0, "quiet hours")
	}
	a.Advance(6*time.Hour - 3*time.Minute)
	for _, more := range []int{perHour, perHour, perHour, perDay - 3*perHour, 0} {
		expect(more, "the next day")
		a.Advance(time.Hour)
	}
	for _, l := range a.Lines {
		var routed int
		a.QueryRow(`select count(*) from ledger_events where type = 'message.routed' and data->>'line_id' = $1`, []any{l.ID}, &routed)
		require.Equal(t, 2*limits.NewContactsPerDay, routed, "every line to its cap, exactly")
	}
}

// column reads one column of texts with SQL.
func column(a *app.App, sql string, args ...any) (list []string) {
	a.QueryRow(`select coalesce(array_agg(t.x), '{}') from (`+sql+`) t (x)`, args, &list)
	return list
}

func TestLineWithUnansweredNewContactsIsPausedUntilOneReplies(t *testing.T) {
	t.Parallel()
	limits := app.Unlimited()
	limits.UnansweredStreakPause = 2
	a := app.Start(t, app.Limits(limits))
	to := a.Lines[0].ID
	first := a.Phone()
	for _, phone := range []string{first, a.Phone()} {
		a.Live.Post("/v1/messages", app.Map{"to": phone, "body": "Hello", "line_id": to}).Is(201)
	}
	a.Settle()
	state := func() (state string) {
		a.QueryRow(`select state from read.lines where id = $1`, []any{to}, &state)
		return state
	}
	a.Advance(24*time.Hour - time.Millisecond)
	require.Equal(t, "active", state())
	a.Advance(time.Millisecond)
	require.Equal(t, "paused", state())
	deferred := a.Live.Post("/v1/messages", app.Map{"to": a.Phone(), "body": "Hello again", "line_id": to}).Is(201).Text("id")
	a.Settle()
	shows(t, lastDetail(t, a.Live, deferred, "deferred"), app.Map{"reason": "line_unavailable", "line_id": to, "until": nil})
	a.Inbound(first, a.Lines[0].Phone, "Here I am")
	a.Settle()
	require.Equal(t, []any{"active", "delivered"}, []any{state(), status(a.Live, deferred)})
}

func TestFailingLineIsThrottledAndRecoversAfterTheBadDays(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	to := a.Lines[0].ID
	for i := range 25 {
		digits := 0
		if i%2 == 0 {
			digits = 85
		}
		a.Live.Post("/v1/messages", app.Map{"to": a.SandboxNumber(digits), "body": "Hello", "line_id": to}).Is(201)
	}
	a.Settle()
	state := func() (state string, score int) {
		a.QueryRow(`select state, health_score from read.lines where id = $1`, []any{to}, &state, &score)
		return state, score
	}
	var recorded []string
	history := func() []string {
		a.QueryRow(`select array_agg(type order by position) from ledger_events where stream = $1 and type in ('line.degraded', 'line.recovered')`, []any{to}, &recorded)
		return recorded
	}
	throttled, score := state()
	require.Equal(t, "throttled", throttled)
	require.Less(t, score, 60)
	require.Equal(t, []string{"line.degraded"}, history())
	a.Advance(8 * 24 * time.Hour)
	active, score := state()
	require.Equal(t, []any{"active", 100}, []any{active, score})
	require.Equal(t, []string{"line.degraded", "line.recovered"}, history())
}

func TestMessagesBehindADeferredOneAreDeferredWithContactBusy(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.Limits(line.DefaultLimits()))
	a.Advance(12 * time.Hour)
	phone := a.Phone()
	head, behind := send(a.Live, phone, "one"), send(a.Live, phone, "two")
	a.Settle()
	require.Equal(t, []any{"quiet_hours"}, deferrals(a.Live, head))
	require.Equal(t, []any{"contact_busy"}, deferrals(a.Live, behind))
	a.Advance(12 * time.Hour)
	require.Equal(t, []string{head, behind}, departures(a, text(message(a.Live, head), "contact_id")))
}

func TestDryRunAnswersWhatWouldHappenAndWritesNothing(t *testing.T) {
	t.Parallel()
	limits := line.DefaultLimits()
	limits.NewContactsPerHour = 1
	a := app.Start(t, app.Limits(limits))
	var before, after int
	head := `select max(position) from ledger_events`
	phone := a.Phone()
	ask := func(body app.Map) app.Map {
		return a.Live.IdempotencyKey("dry").Post("/v1/messages?dry_run=true", body).Is(200).JSON()
	}
	a.Settle()
	a.QueryRow(head, nil, &before)
	shows(t, ask(app.Map{"to": phone, "body": "Hello", "line_id": a.Lines[0].ID}), app.Map{
		"outcome": "send", "at": stamp(0), "line_id": a.Lines[0].ID, "from": a.Lines[0].Phone, "to": phone, "contact_id": nil, "reason": nil,
	})
	shows(t, ask(app.Map{"to": phone, "body": "see https://example.com"}), app.Map{"outcome": "hold", "reason": "first_message_rules", "at": nil})
	night := app.Noon.Add(12 * time.Hour)
	shows(t, ask(app.Map{"to": phone, "body": "Hello", "send_at": night.Format(time.RFC3339)}), app.Map{"outcome": "hold", "reason": "quiet_hours", "at": stamp(24 * time.Hour)})
	shows(t, ask(app.Map{"to": phone, "body": "Hello", "send_at": stamp(time.Hour)}), app.Map{"outcome": "schedule", "at": stamp(time.Hour)})
	for flag, wrong := range map[string]string{ // a mistyped dry_run is refused and sends nothing
		"?dry_run": "/dry_run too_short", "?dry_run=": "/dry_run too_short", "?dry_run=1&dry_run=true": "/dry_run duplicate_parameter",
		"?dryrun=true": "/dryrun unknown_parameter", "?dry_run=perhaps": "/dry_run invalid_type",
	} {
		a.Live.Post("/v1/messages"+flag, app.Map{"to": phone, "body": "Hi"}).Refused(400, "validation_failed", "query "+wrong)
	}
	a.Live.Post("/v1/messages?dry_run=true", app.Map{"to": "12", "body": ""}).Refused(400, "validation_failed", "body /to invalid_phone", "body /body required")
	a.QueryRow(head, nil, &after)
	require.Equal(t, before, after)

	send(a.Live, a.Phone(), "Hello")
	send(a.Live, a.Phone(), "Hello too")
	a.Settle()
	shows(t, ask(app.Map{"to": phone, "body": "Hello", "line_id": a.Lines[0].ID}), app.Map{
		"outcome": "hold", "reason": "line_new_contacts_hour", "at": stamp(time.Hour), "line_id": a.Lines[0].ID,
	})
	a.Inbound(phone, a.Lines[0].Phone, "STOP")
	a.Settle()
	shows(t, ask(app.Map{"to": phone, "body": "Hello"}), app.Map{"outcome": "refuse", "code": "contact_opted_out", "at": nil})
}

func TestMessageThatFailsOnChatFallsBackToSMSIfItsPoolAllows(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	a.Settle()
	pool := func(mode string) string {
		id := "pool_" + mode
		a.QueryRow(`select id from read.pools where name = $1`, []any{mode}, &id)
		return id
	}
	for _, mode := range []string{"off", "not_chat", "not_chat_or_failed"} {
		a.Live.Post("/v1/pools", app.Map{"name": mode, "fallback_sms_mode": mode}).Is(201)
	}
	a.Settle()
	for _, row := range []struct {
		mode     string
		digits   int
		fallback any
		status   string
		channel  string
		code     any
	}{
		{"off", 80, nil, "failed", "chat", "not_on_chat"},
		{"not_chat", 80, nil, "delivered", "sms", nil},
		{"not_chat", 80, false, "failed", "chat", "not_on_chat"},
		{"not_chat", 85, nil, "failed", "chat", "carrier_rejected"},
		{"not_chat_or_failed", 85, nil, "delivered", "sms", nil},
		{"not_chat", 88, nil, "failed", "sms", "sms_undeliverable"},
	} {
		body := app.Map{"to": a.SandboxNumber(row.digits), "body": "Hello", "pool_id": pool(row.mode)}
		if row.fallback != nil {
			body["fallback"] = row.fallback
		}
		id := a.Test.Post("/v1/messages", body).Is(201).Text("id")
		a.Settle()
		shows(t, message(a.Test, id), app.Map{"status": row.status, "channel": row.channel, "error_code": row.code})
		fell := false
		for _, kind := range timeline(a.Test, id) {
			fell = fell || kind == "fallback_sms"
		}
		require.Equal(t, row.channel == "sms", fell)
	}
}

func TestOnlyAMessageThatIsQueuedOrScheduledIsCanceled(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	later := a.Test.Post("/v1/messages", app.Map{"to": a.SandboxNumber(0), "body": "later", "send_at": stamp(time.Hour)}).Is(201).Text("id")
	retried := send(a.Test, a.SandboxNumber(86), "it is refused twice")
	a.Settle()
	require.Equal(t, "sending", status(a.Test, retried))
	a.Test.Post("/v1/messages/"+retried+"/cancel", nil).Refused(409, "conflict")
	a.Test.Post("/v1/messages/"+later+"/cancel", app.Map{"reason": "x"}).Refused(400, "validation_failed", "body /reason unknown_property")
	a.Test.Post("/v1/messages/"+later+"/cancel", []string{}).Refused(400, "validation_failed", "body  invalid_type")
	a.Test.Post("/v1/messages/"+later+"/cancel", app.Map{}).Is(200)
	a.Advance(30 * time.Second)
	a.Advance(2 * time.Minute)
	require.Contains(t, []any{"delivered", "read"}, status(a.Test, retried))
}

func TestATestKeyCancelsNoLiveMessage(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	live := a.Live.Post("/v1/messages", app.Map{"to": a.Phone(), "body": "later", "send_at": stamp(time.Hour)}).Is(201).Text("id")
	a.Test.Post("/v1/messages/"+live+"/cancel", nil).Refused(403, "forbidden")
	require.Equal(t, "scheduled", status(a.Live, live))
}

func TestMessagesThatWereNeverSentDoNotCountTowardTheThreeBeforeAReply(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.Limits(line.DefaultLimits()))
	phone := a.SandboxNumber(80) // not on chat
	var ids []string
	for i := range 5 {
		ids = append(ids, send(a.Test, phone, fmt.Sprintf("Message %d", i+1)))
	}
	a.Settle()
	for _, id := range ids {
		shows(t, message(a.Test, id), app.Map{"status": "failed", "error_code": "not_on_chat"})
	}
	refused := a.SandboxNumber(85) // sent, and then it fails
	for i := range 4 {
		ids[i] = send(a.Test, refused, fmt.Sprintf("Message %d", i+1))
	}
	a.Settle()
	require.Equal(t, []any{"failed", "queued"}, []any{status(a.Test, ids[2]), status(a.Test, ids[3])})
	require.Equal(t, []any{"first_message_rules"}, deferrals(a.Test, ids[3]))
}

func TestPausedOrganisationDefersAcceptedMessagesUntilItIsResumed(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	org := a.Nodes[0].App
	phone := a.Phone()
	due := a.Live.Post("/v1/messages", app.Map{"to": phone, "body": "later", "send_at": stamp(time.Hour)}).Is(201).Text("id")
	test := a.Test.Post("/v1/messages", app.Map{"to": a.SandboxNumber(0), "body": "later", "send_at": stamp(time.Hour)}).Is(201).Text("id")
	_, err := org.PauseOrganisation(t.Context(), a.Operator(), "unpaid")
	require.NoError(t, err)
	a.Advance(time.Hour)
	for client, id := range map[*app.Client]string{a.Live: due, a.Test: test} {
		shows(t, message(client, id), app.Map{"status": "queued", "scheduled_for": nil})
		shows(t, lastDetail(t, client, id, "deferred"), app.Map{"reason": "line_unavailable", "until": nil, "rule": "organisation_paused"})
	}
	a.Inbound(phone, a.Lines[0].Phone, "HELP")
	a.Settle()
	var answered string
	a.QueryRow(`select status from read.messages where direction = 'outbound' and source is null`, nil, &answered)
	require.Equal(t, "delivered", answered, "what a contact asks is answered")
	_, err = org.ResumeOrganisation(t.Context(), a.Operator())
	require.NoError(t, err)
	a.Settle()
	require.Equal(t, []any{"delivered", "delivered"}, []any{status(a.Live, due), status(a.Test, test)})
}

func TestDeferralNamesTheDayWhenTheQueueUsesUpTheDaysCapacity(t *testing.T) {
	t.Parallel()
	limits := line.DefaultLimits()
	limits.NewContactsPerHour, limits.NewContactsPerDay = 2, 4
	a := app.Start(t, app.Limits(limits))
	var ids []string
	for i := range 12 { // two lines: four now, four within the day, and four more
		ids = append(ids, a.Live.Post("/v1/messages", app.Map{"to": fmt.Sprintf("+1212777%04d", i), "body": fmt.Sprint("Hello ", i)}).Is(201).Text("id"))
		a.Settle()
	}
	rollover := 15 * time.Hour // 3 AM in New York
	for i, id := range ids {
		switch {
		case i < 4:
			require.Equal(t, "delivered", status(a.Live, id))
		case i < 8:
			require.Equal(t, []any{"line_new_contacts_hour"}, deferrals(a.Live, id), i)
			require.Equal(t, stamp(time.Hour), message(a.Live, id)["scheduled_for"])
		default:
			require.Equal(t, []any{"line_new_contacts_day"}, deferrals(a.Live, id), i)
			require.Equal(t, stamp(rollover), message(a.Live, id)["scheduled_for"])
		}
	}
	a.Advance(time.Hour)
	require.Equal(t, map[any]int{"delivered": 8, "queued": 4}, counted(t, a.Live, ids))
	a.Advance(rollover - time.Hour)
	require.Equal(t, "queued", status(a.Live, ids[11]), "it is night")
	a.Advance(6 * time.Hour)
	require.Equal(t, map[any]int{"delivered": 12}, counted(t, a.Live, ids))
}

func TestPassedEndOfADeferralIsNotShown(t *testing.T) {
	t.Parallel()
	limits := line.DefaultLimits()
	limits.NewContactsPerHour = 1
	a := app.Start(t, app.Limits(limits))
	var ids []string
	for i := range 3 {
		ids = append(ids, a.Live.Post("/v1/messages", app.Map{"to": fmt.Sprintf("+1212777%04d", i), "body": fmt.Sprint("Hello ", i), "line_id": a.Lines[0].ID}).Is(201).Text("id"))
		a.Settle()
	}
	require.Equal(t, stamp(time.Hour), message(a.Live, ids[2])["scheduled_for"])
	a.Advance(time.Hour)
	shows(t, message(a.Live, ids[2]), app.Map{"status": "queued", "scheduled_for": nil})
	require.Nil(t, a.Live.Get("/v1/messages?status=queued").Is(200).At("data.0.scheduled_for"))
	a.Advance(time.Hour)
	require.Equal(t, "delivered", status(a.Live, ids[2]))
}

func TestSandboxMessageIsPlayedAtTheTimeOfDayThatATestKeyChooses(t *testing.T) {
	t.Parallel()
	a := app.Start(t) // at noon in New York
	a.Advance(11*time.Hour + 30*time.Minute)
	to := "+12125550100"
	night := a.Test.Post("/v1/messages", app.Map{"to": to, "body": "x"}).Is(201).Text("id")
	a.Settle()
	require.Equal(t, "queued", a.Test.Get("/v1/messages/"+night).Is(200).Text("status"))

	day := a.Test.Header("x-sandbox-local-time", "10:30")
	shows(t, day.Post("/v1/messages?dry_run=true", app.Map{"to": "+12125550101", "body": "x"}).Is(200).JSON(), app.Map{"outcome": "send"})
	sent := day.Post("/v1/messages", app.Map{"to": "+12125550101", "body": "x"}).Is(201)
	a.Settle()
	require.Equal(t, "delivered", a.Test.Get("/v1/messages/"+sent.Text("id")).Is(200).Text("status"))
	reply := day.Post("/v1/conversations/"+sent.Text("conversation_id")+"/messages", app.Map{"body": "y"}).Is(201).Text("id")
	a.Settle()
	require.Equal(t, "delivered", a.Test.Get("/v1/messages/"+reply).Is(200).Text("status"))

	evening := a.Test.Header("x-sandbox-local-time", "20:30").Post("/v1/messages", app.Map{"to": "+12125550102", "body": "x"}).Is(201).Text("id")
	a.Settle()
	require.Equal(t, stamp(24*time.Hour), a.Test.Get("/v1/messages/"+evening).Is(200).Text("scheduled_for"), "the window opens 12 hours and 30 minutes later")

	a.Live.Header("x-sandbox-local-time", "10:30").Post("/v1/messages", app.Map{"to": a.Phone(), "body": "x"}).Refused(400, "validation_failed", "header /x-sandbox-local-time not_allowed")
	a.Test.Header("x-sandbox-local-time", "25:00").Post("/v1/messages", app.Map{"to": to, "body": "x"}).Refused(400, "validation_failed", "header /x-sandbox-local-time invalid_format")
}
