// Package e2e_test shows the rules of the interface on the whole service: over real HTTP, on a real PostgreSQL, with
// the simulator as the carrier and a clock that is moved by hand.
package e2e_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/organisation"
	"ledgerline/test/app"
)

// onShards runs a test on installations of 1 and of 4 shards.
func onShards(t *testing.T, test func(t *testing.T, shards app.Option)) {
	t.Helper()
	for _, n := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d shards", n), func(t *testing.T) {
			t.Parallel()
			test(t, app.Shards(n))
		})
	}
}

// timeline is the types of a message's timeline, in order.
func timeline(c *app.Client, messageID string) []any {
	entries := c.Get("/v1/messages/" + messageID + "/events").Is(200).Column("type")
	// The capability of the number is recorded with the carrier's answer, which a fast receipt may overtake.
	if checked, begun := slices.Index(entries, "capability_checked"), slices.Index(entries, "sending"); checked > begun && begun >= 0 {
		entries = slices.Insert(slices.Delete(entries, checked, checked+1), begun+1, any("capability_checked"))
	}
	return entries
}

// send accepts a message and gives its id.
func send(c *app.Client, to, body string) string {
	return c.Post("/v1/messages", app.Map{"to": to, "body": body}).Is(201).Text("id")
}

func message(c *app.Client, id string) app.Map { return c.Get("/v1/messages/" + id).Is(200).JSON() }

// text is a property that is a text; "" when it is none.
func text(object app.Map, name string) string {
	value, _ := object[name].(string)
	return value
}

// object is a value that is an object; nil when it is none.
func object(value any) app.Map {
	found, _ := value.(app.Map)
	return found
}

func status(c *app.Client, id string) any { return message(c, id)["status"] }

// stamp is a time of the frozen clock as answers show it.
func stamp(sinceNoon time.Duration) string {
	return app.Noon.Add(sinceNoon).Format("2006-01-02T15:04:05.000Z")
}

// shows requires these properties of an object; it may have others.
func shows(t *testing.T, object, want app.Map) {
	t.Helper()
	for name, value := range want {
		require.Equal(t, value, object[name], name)
	}
}

func TestAMessageIsAcceptedRoutedSentDeliveredAndRead(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards)
		phone := a.Phone()
		contact := a.Live.Post("/v1/contacts", app.Map{"phone": phone, "first_name": "Grace", "labels": []string{"vip"}}).Is(201).JSON()
		require.Equal(t, phone, contact["phone"])
		require.Equal(t, []any{"vip"}, contact["labels"])
		require.Equal(t, "unknown", contact["consent_status"])

		a.Inbound(phone, a.Lines[0].Phone, "Is it ready?") // media may be sent only after the contact has written
		accepted := a.Live.Post("/v1/messages", app.Map{
			"contact_id": contact["id"], "body": "Hello Grace", "external_id": "order-1", "metadata": app.Map{"n": 1.5},
			"media": []app.Map{{"url": "https://example.com/a.png", "filename": "a.png"}},
		}).Is(201)
		require.Equal(t, "queued", accepted.Text("status"))
		id := accepted.Text("id")
		a.Settle()

		m := message(a.Live, id)
		require.Equal(t, "delivered", m["status"])
		require.Contains(t, []any{a.Lines[0].ID, a.Lines[1].ID}, m["line_id"])
		require.Equal(t, stamp(0), m["sent_at"])
		require.Equal(t, stamp(0), m["delivered_at"])
		require.Nil(t, m["read_at"])
		require.Equal(t, []any{"accepted", "routed", "sending", "capability_checked", "sent", "delivered"}, timeline(a.Live, id))

		a.Advance(2 * time.Second)
		m = message(a.Live, id)
		require.Equal(t, "read", m["status"])
		require.Equal(t, stamp(2*time.Second), m["read_at"])
		require.Equal(t, []any{"accepted", "routed", "sending", "capability_checked", "sent", "delivered", "read"}, timeline(a.Live, id))
		shows(t, m, app.Map{
			"contact_id": contact["id"], "body": "Hello Grace", "external_id": "order-1", "metadata": app.Map{"n": 1.5}, "to": phone,
			"direction": "outbound", "channel": "chat", "is_test": false, "source": "api", "sent_by_staff": false, "error_code": nil,
			"error_details": nil, "scheduled_for": nil,
			"media": []any{app.Map{"url": "https://example.com/a.png", "filename": "a.png", "mime": nil, "size": nil}},
		})

		seen := a.Live.Get("/v1/contacts/" + text(contact, "id")).Is(200)
		require.Equal(t, stamp(0), seen.Text("last_outbound_at"))
		require.Equal(t, m["line_id"], seen.Text("assigned_line_id"))
		require.Equal(t, []any{id}, a.Live.Get("/v1/messages?external_id=order-1&status=read&direction=outbound").Is(200).Column("id"))
		require.Empty(t, a.Live.Get("/v1/messages?status=sent").Is(200).Data())
		require.Equal(t, []any{contact["id"]}, a.Live.Get("/v1/contacts?q=grac&label=VIP&line_id="+text(m, "line_id")).Is(200).Column("id"))
	})
}

func TestAnAcceptedMessageShowsTheSameFromItsAnswerAndFromTheReadModel(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	contact := a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201).Text("id")
	answer := a.Live.Post("/v1/messages", app.Map{
		"contact_id": contact, "body": "later", "send_at": stamp(time.Hour), "line_id": a.Lines[0].ID,
		"metadata": app.Map{"a": app.Map{"b": []any{1.0, "x", nil}}},
	}).Is(201).JSON()
	read := message(a.Live, text(answer, "id"))
	require.Equal(t, "queued", answer["status"], "201 always says queued")
	require.Equal(t, "scheduled", read["status"])
	require.Equal(t, stamp(time.Hour), read["scheduled_for"])
	delete(answer, "status")
	delete(answer, "scheduled_for")
	for name, want := range answer {
		require.Equal(t, want, read[name], name)
	}
}

func TestAScheduledMessageIsQueuedWhenItIsDueAndCanBeCanceledBefore(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	later := func(in time.Duration) string {
		return a.Live.Post("/v1/messages", app.Map{"to": a.Phone(), "body": "later", "send_at": stamp(in)}).Is(201).Text("id")
	}
	kept, canceled := later(time.Hour), later(2*time.Hour)
	a.Settle()
	require.Equal(t, []any{"accepted"}, timeline(a.Live, kept), "a schedule is no deferral")
	require.Equal(t, stamp(time.Hour), a.Live.Get("/v1/messages/"+kept+"/events").At("data.0.detail.send_at"))
	answer := a.Live.Post("/v1/messages/"+canceled+"/cancel", nil).Is(200)
	require.Equal(t, "failed", answer.Text("status"))
	require.Equal(t, "canceled", answer.Text("error_code"))
	a.Advance(time.Hour - time.Millisecond)
	require.Equal(t, "scheduled", status(a.Live, kept))
	a.Advance(time.Millisecond)
	require.Equal(t, "delivered", status(a.Live, kept))
	a.Live.Post("/v1/messages/"+kept+"/cancel", nil).Refused(409, "conflict")
	a.Advance(2 * time.Hour)
	require.Equal(t, "failed", status(a.Live, canceled))
	require.Equal(t, []any{"accepted", "failed"}, timeline(a.Live, canceled))
}

func TestTestKeysSendThroughTheSandboxLineAlone(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	id := send(a.Test, a.SandboxNumber(1), "Hello")
	a.Settle()
	m := message(a.Test, id)
	require.Equal(t, "delivered", m["status"])
	require.Equal(t, true, m["is_test"])
	require.Equal(t, a.Sandbox.ID, m["line_id"])
	require.Equal(t, a.Sandbox.Phone, m["from"])
	a.Test.Post("/v1/messages", app.Map{"to": a.Phone(), "body": "x"}).Refused(400, "validation_failed", "body /to not_sandbox")
	a.Test.Post("/v1/messages", app.Map{"to": a.SandboxNumber(1), "body": "x", "line_id": a.Lines[0].ID}).
		Refused(400, "validation_failed", "body /line_id not_sandbox")
	a.Live.Post("/v1/messages", app.Map{"to": a.Phone(), "body": "x", "line_id": a.Sandbox.ID}).
		Refused(400, "validation_failed", "body /line_id sandbox")
}

// consentTrail is the consent history of a contact, oldest first, as "from>to source keyword".
func consentTrail(c *app.Client, contactID string) []string {
	rows := c.Get("/v1/compliance/consent-events?contact_id=" + contactID).Is(200).Data()
	trail := make([]string, 0, len(rows))
	for i := len(rows) - 1; i >= 0; i-- {
		trail = append(trail, fmt.Sprintf("%v>%v %v %v", rows[i]["from_status"], rows[i]["to_status"], rows[i]["source"], rows[i]["keyword"]))
	}
	return trail
}

func TestAContactThatRepliesSTOPCanNeverBeMessagedAgain(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards)
		other := a.NewWorkspace("Other")
		stranger := a.NewOrganisation("Stranger")
		phone := a.Phone()
		contact := a.Live.Post("/v1/contacts", app.Map{"phone": phone, "consent_status": "opted_in", "consent_source": "form"}).Is(201).Text("id")
		same := other.Live.Post("/v1/contacts", app.Map{"phone": phone}).Is(201).Text("id")
		elsewhere := stranger.Live.Post("/v1/contacts", app.Map{"phone": phone}).Is(201).Text("id")
		first := send(a.Live, phone, "Hello")
		a.Settle()
		scheduled := a.Live.Post("/v1/messages", app.Map{"to": phone, "body": "later", "send_at": stamp(time.Hour)}).Is(201).Text("id")
		scheduledThere := other.Live.Post("/v1/messages", app.Map{"to": phone, "body": "later", "send_at": stamp(time.Hour)}).Is(201).Text("id")
		a.Settle()
		line := text(message(a.Live, first), "from")

		said := a.Inbound(phone, line, "  “Stop.” ")
		a.Settle()

		require.Equal(t, "opted_out", a.Live.Get("/v1/contacts/"+contact).Is(200).Text("consent_status"))
		require.Equal(t, "opted_out", other.Live.Get("/v1/contacts/"+same).Is(200).Text("consent_status"))
		require.Equal(t, "unknown", stranger.Live.Get("/v1/contacts/"+elsewhere).Is(200).Text("consent_status"))
		shows(t, message(a.Live, scheduled), app.Map{"status": "failed", "error_code": "contact_opted_out"})
		shows(t, message(other.Live, scheduledThere), app.Map{"status": "failed", "error_code": "contact_opted_out"})

		confirmations := a.Live.Get("/v1/messages?direction=outbound&contact_id=" + contact).Is(200).Data()
		require.Len(t, confirmations, 3, "the first, the scheduled one and one confirmation")
		require.Equal(t, "delivered", confirmations[0]["status"])
		require.Nil(t, confirmations[0]["source"])
		require.Equal(t, line, confirmations[0]["from"], "through the same line")
		require.Empty(t, other.Live.Get("/v1/messages?status=delivered&contact_id="+same).Is(200).Data(), "no confirmation where nothing was said")

		a.Inbound(phone, line, "STOP")
		a.Settle()
		require.Len(t, a.Live.Get("/v1/messages?direction=outbound&contact_id="+contact).Is(200).Data(), 3, "one confirmation per opt-out")

		for _, to := range []app.Map{{"to": phone, "body": "x"}, {"contact_id": contact, "body": "x"}} {
			a.Live.Post("/v1/messages", to).Refused(422, "contact_opted_out")
		}
		other.Live.Post("/v1/messages", app.Map{"to": phone, "body": "x"}).Refused(422, "contact_opted_out")
		stranger.Live.Post("/v1/messages", app.Map{"to": phone, "body": "x"}).Is(201)

		require.Equal(t, []string{
			"unknown>opted_in form <nil>", "opted_in>opted_out inbound_message stop", "opted_out>opted_out inbound_message stop",
		}, consentTrail(a.Live, contact))
		evidence := object(a.Live.Get("/v1/compliance/consent-events?type=opted_out&contact_id=" + contact).Is(200).At("data.1"))
		shows(t, evidence, app.Map{
			"phone": phone, "text": "  “Stop.” ", "message_id": said, "channel": "chat", "occurred_at": stamp(0),
			"actor": app.Map{"type": "contact", "id": contact},
		})

		a.Advance(2 * time.Hour)
		require.Equal(t, "failed", status(a.Live, scheduled))
		a.Live.Delete("/v1/contacts/" + contact).Is(200)
		again := a.Live.Post("/v1/contacts", app.Map{"phone": phone, "consent_status": "opted_in"}).Is(201)
		require.Equal(t, "opted_out", again.Text("consent_status"), "the register outlives the contact")
		a.Live.Post("/v1/messages", app.Map{"to": phone, "body": "x"}).Refused(422, "contact_opted_out")
	})
}

func TestOptOutCancelsQueuedMessages(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	phone := a.Phone()
	for _, l := range a.Lines {
		_, err := a.Nodes[0].App.ChangeLineState(t.Context(), a.Operator(), l.ID, "quarantined", nil)
		require.NoError(t, err)
	}
	deferred := send(a.Live, phone, "deferred")
	a.Settle()
	require.Equal(t, "queued", status(a.Live, deferred))
	require.Equal(t, []any{"accepted", "deferred"}, timeline(a.Live, deferred))
	contact := text(message(a.Live, deferred), "contact_id")
	a.Live.Post("/v1/contacts/"+contact+"/opt-out", app.Map{"source": "phone call", "keyword": "stop"}).Is(200)
	a.Settle()
	require.Equal(t, "failed", status(a.Live, deferred))
	require.Equal(t, "contact_opted_out", message(a.Live, deferred)["error_code"])
	require.Equal(t, []string{"unknown>opted_out phone call stop"}, consentTrail(a.Live, contact))
}

func TestSTARTOptsInAgainAndRemovesTheNumberFromTheRegister(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	other := a.NewWorkspace("Other")
	phone := a.Phone()
	contact := a.Live.Post("/v1/contacts", app.Map{"phone": phone}).Is(201).Text("id")
	same := other.Live.Post("/v1/contacts", app.Map{"phone": phone}).Is(201).Text("id")
	a.Inbound(phone, a.Lines[0].Phone, "unsubscribe")
	a.Inbound(phone, a.Lines[0].Phone, "START")
	a.Settle()
	require.Equal(t, "opted_in", a.Live.Get("/v1/contacts/"+contact).Text("consent_status"))
	require.Equal(t, "opted_out", other.Live.Get("/v1/contacts/"+same).Text("consent_status"), "an opt-in changes one contact")
	id := send(a.Live, phone, "welcome back")
	a.Settle()
	require.Equal(t, "delivered", status(a.Live, id))
	other.Live.Post("/v1/messages", app.Map{"to": phone, "body": "x"}).Refused(422, "contact_opted_out")
	third := a.NewWorkspace("Third")
	require.Equal(t, "unknown", third.Live.Post("/v1/contacts", app.Map{"phone": phone}).Is(201).Text("consent_status"), "the register is lifted")
}

func TestYesOptsInOnlyAContactThatIsOptedOut(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	phone := a.Phone()
	contact := a.Live.Post("/v1/contacts", app.Map{"phone": phone}).Is(201).Text("id")
	a.Inbound(phone, a.Lines[0].Phone, "Yes!")
	a.Settle()
	seen := a.Live.Get("/v1/contacts/" + contact).Is(200)
	require.Equal(t, "unknown", seen.Text("consent_status"))
	require.Equal(t, stamp(0), seen.Text("first_reply_at"))
	require.Equal(t, stamp(0), seen.Text("last_inbound_at"))
	a.Live.Post("/v1/contacts/"+contact+"/opt-out", app.Map{"source": "call"}).Is(200)
	a.Inbound(phone, a.Lines[0].Phone, "Yes!")
	a.Settle()
	require.Equal(t, "opted_in", a.Live.Get("/v1/contacts/"+contact).Text("consent_status"))
	require.Equal(t, []string{"unknown>opted_out call <nil>", "opted_out>opted_in inbound_message yes"}, consentTrail(a.Live, contact))
}

func TestHELPIsAnsweredWithTheNameOfTheOrganisationAndNotAfterAnOptOut(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	phone := a.Phone()
	a.Inbound(phone, a.Lines[1].Phone, "help")
	a.Settle()
	contact := object(a.Live.Get("/v1/contacts?phone=%2B" + phone[1:]).Is(200).At("data.0"))
	require.Equal(t, "unknown", contact["consent_status"], "an inbound message makes the contact")
	answers := a.Live.Get("/v1/messages?direction=outbound&contact_id=" + text(contact, "id")).Is(200).Data()
	require.Len(t, answers, 1)
	require.Contains(t, answers[0]["body"], "Acme")
	require.Equal(t, a.Lines[1].Phone, answers[0]["from"])
	a.Live.Post("/v1/contacts/"+text(contact, "id")+"/opt-out", app.Map{"source": "call"}).Is(200)
	a.Inbound(phone, a.Lines[1].Phone, "HELP")
	a.Settle()
	answers = a.Live.Get("/v1/messages?direction=outbound&contact_id=" + text(contact, "id")).Is(200).Data()
	require.Len(t, answers, 1)
	require.Equal(t, "delivered", answers[0]["status"])
}

func TestRequestedConsentChangesAreRecordedWithActorAndSource(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	contact := a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201).Text("id")
	set := func(c *app.Client, to, source string) {
		answer := c.Post("/v1/contacts/"+contact+"/consent", app.Map{"status": to, "source": source}).Is(200)
		require.Equal(t, to, answer.Text("consent_status"))
		require.Equal(t, source, answer.Text("consent_source"))
	}
	set(a.Live.Header("user-agent", "curl/1"), "opted_in", "paper form")
	set(a.Sessions[organisation.Manager], "opted_out", "letter")
	set(a.Live, "unknown", "import")
	a.Live.Post("/v1/messages", app.Map{"contact_id": contact, "body": "x"}).Refused(422, "contact_opted_out")
	set(a.Live, "opted_in", "paper form")
	a.Live.Post("/v1/messages", app.Map{"contact_id": contact, "body": "x"}).Is(201)
	require.Equal(t, []string{
		"unknown>opted_in paper form <nil>", "opted_in>opted_out letter <nil>", "opted_out>unknown import <nil>", "unknown>opted_in paper form <nil>",
	}, consentTrail(a.Live, contact))
	rows := a.Live.Get("/v1/compliance/consent-events").Is(200).Data()
	require.Equal(t, "curl/1", rows[3]["user_agent"])
	require.Equal(t, "127.0.0.1", rows[3]["ip"])
	require.Equal(t, app.Map{"type": "user", "id": a.Users[organisation.Manager].String()}, rows[2]["actor"])
	require.Equal(t, "key", object(rows[1]["actor"])["type"])
}
