package e2e_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/test/app"
)

const replayed = "idempotent-replayed"

func TestARetryWithTheSameKeyGetsTheFirstAnswerAndWritesNothing(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards)
		phone := a.Phone()
		contact := a.Live.IdempotencyKey("c1").Post("/v1/contacts", app.Map{"phone": phone, "first_name": "Grace", "fields": app.Map{"a": 1, "b": 2}}).Is(201)
		id := contact.Text("id")
		writes := []struct {
			path, body string
			status     int
			other      string
		}{
			{"/v1/contacts", `{"fields": {"b":2,"a":1},"first_name":"Grace" , "phone":"` + phone + `"}`, 201, `{"phone":"` + phone + `"}`},
			{"/v1/contacts/" + id + "/consent", `{"status":"opted_in","source":"form"}`, 200, `{"status":"opted_in","source":"forms"}`},
			{"/v1/messages", `{"to":"` + phone + `","body":"Hello"}`, 201, `{"to":"` + phone + `","body":"hello"}`},
			{"/v1/contacts/" + id + "/opt-out", `{"source":"call"}`, 200, `{"source":"call","keyword":"stop"}`},
		}
		for i, w := range writes {
			key := fmt.Sprintf("c%d", i+1)
			first := contact
			if i > 0 {
				first = a.Live.IdempotencyKey(key).Post(w.path, w.body).Is(w.status)
			}
			require.Empty(t, first.Header.Get(replayed))
			a.Settle()
			var before, after int64
			a.QueryRow(`select sum(position) from ledger_heads`, nil, &before)
			again := a.Live.IdempotencyKey(key).Post(w.path, w.body).Is(w.status)
			require.Equal(t, "true", again.Header.Get(replayed))
			require.Equal(t, string(first.Raw), string(again.Raw))
			a.Live.IdempotencyKey(key).Post(w.path, strings.ReplaceAll(w.body, `,`, " ,\n")).Is(w.status) // white space does not change the fingerprint
			a.QueryRow(`select sum(position) from ledger_heads`, nil, &after)
			require.Equal(t, before, after, w.path)
			a.Live.IdempotencyKey(key).Post(w.path, w.other).Refused(409, "idempotency_conflict")
			a.Live.IdempotencyKey(key).Delete("/v1/contacts/"+id).Refused(409, "idempotency_conflict")
		}
		gone := a.Live.IdempotencyKey("d").Delete("/v1/contacts/" + id).Is(200)
		again := a.Live.IdempotencyKey("d").Delete("/v1/contacts/" + id).Is(200)
		require.Equal(t, string(gone.Raw), string(again.Raw))
		require.Equal(t, "true", again.Header.Get(replayed))
	})
}

func TestAnIdempotencyKeyBelongsToItsWorkspace(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	other := a.NewWorkspace("Other")
	one := a.Live.IdempotencyKey("k").Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
	two := other.Live.IdempotencyKey("k").Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
	require.Empty(t, two.Header.Get(replayed))
	require.NotEqual(t, one.Text("id"), two.Text("id"))
}

func TestIdempotencyRecordIsDroppedAfter24Hours(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	body := app.Map{"to": a.Phone(), "body": "Hello"}
	first := a.Live.IdempotencyKey("k").Post("/v1/messages", body).Is(201).Text("id")
	a.Advance(24*time.Hour - time.Millisecond)
	require.Equal(t, first, a.Live.IdempotencyKey("k").Post("/v1/messages", body).Is(201).Text("id"))
	a.Advance(time.Millisecond)
	second := a.Live.IdempotencyKey("k").Post("/v1/messages", body).Is(201)
	require.NotEqual(t, first, second.Text("id"))
	require.Empty(t, second.Header.Get(replayed))
}

func TestRetryOfARefusedRequestGetsTheStoredRefusal(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	phone := a.Phone()
	a.Live.Post("/v1/contacts", app.Map{"phone": phone}).Is(201)
	blocked := a.Phone()
	out := a.Live.Post("/v1/contacts", app.Map{"phone": blocked}).Is(201).Text("id")
	a.Live.Post("/v1/contacts/"+out+"/opt-out", app.Map{"source": "call"}).Is(200)
	for i, w := range []struct {
		path   string
		body   app.Map
		status int
	}{
		{"/v1/contacts", app.Map{"phone": "nonsense"}, 400},                      // by the command
		{"/v1/contacts/ctc_unknown/opt-out", app.Map{"source": "x"}, 404},        // nothing there
		{"/v1/contacts", app.Map{"phone": phone}, 409},                           // in use
		{"/v1/messages", app.Map{"to": blocked, "body": "x"}, 422},               // opted out
		{"/v1/messages", app.Map{"contact_id": "ctc_unknown", "body": "x"}, 404}, // unknown
	} {
		key := fmt.Sprint(i)
		first := a.Live.IdempotencyKey(key).Post(w.path, w.body).Is(w.status)
		again := a.Live.IdempotencyKey(key).Post(w.path, w.body).Is(w.status)
		require.Equal(t, string(first.Raw), string(again.Raw))
		require.Equal(t, "true", again.Header.Get(replayed))
	}
	// The stored refusal is also repeated when its reason no longer holds.
	a.Live.Post("/v1/contacts/"+out+"/consent", app.Map{"status": "opted_in", "source": "call"}).Is(200)
	a.Live.IdempotencyKey("3").Post("/v1/messages", app.Map{"to": blocked, "body": "x"}).Is(422)
	a.Live.IdempotencyKey("new").Post("/v1/messages", app.Map{"to": blocked, "body": "x"}).Is(201)
}

func TestRefusedCallerOrFormStoresNoIdempotencyRecord(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	phone := a.Phone()
	body := app.Map{"phone": phone}
	c := a.Live.IdempotencyKey("k")
	a.As("ll_live_nonsense").IdempotencyKey("k").Post("/v1/contacts", body).Is(401)
	c.Header("content-type", "text/plain").Post("/v1/contacts", body).Is(415)
	c.Post("/v1/contacts", []byte(`{"phone":"`+strings.Repeat("x", 1<<20)+`"}`)).Is(413)
	c.Post("/v1/contacts", body).Is(201)
}

func TestConcurrentRequestsWithOneKeyAreExecutedOnce(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards, app.Nodes(
			app.Everything, app.Everything,
		))
		for i := range 6 {
			phone := a.Phone()
			answers := make([]app.Answer, 12)
			var all sync.WaitGroup
			for n := range answers {
				c := a.Live.IdempotencyKey(fmt.Sprint("k", i)).OnNode(a.Nodes[n%2])
				all.Go(func() { answers[n] = c.Post("/v1/messages", app.Map{"to": phone, "body": "Hello"}) })
			}
			all.Wait()
			ids := map[string]bool{}
			for _, answer := range answers {
				if answer.Status == 409 {
					answer.Refused(409, "idempotency_conflict") // the first was still running
					continue
				}
				ids[answer.Is(201).Text("id")] = true
			}
			require.Len(t, ids, 1)
			contact := a.Live.Get("/v1/contacts?phone=%2B" + phone[1:]).Is(200).Column("id")
			require.Len(t, contact, 1)
			require.Len(t, a.Live.Get("/v1/messages?contact_id="+fmt.Sprint(contact[0])).Is(200).Data(), 1)
		}
	})
}

func TestConcurrentRequestsForOneNumberCreateOneContact(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.Nodes(app.Everything, app.Everything))
	phone := a.Phone()
	answers := make([]app.Answer, 16)
	var all sync.WaitGroup
	for n := range answers {
		c := a.Live.OnNode(a.Nodes[n%2])
		all.Go(func() {
			answers[n] = c.Post("/v1/contacts", app.Map{"phone": phone, "labels": []string{"new", "fresh"}})
		})
	}
	all.Wait()
	id := a.Live.Get("/v1/contacts?phone=%2B" + phone[1:]).Is(200).Text("data.0.id")
	made := 0
	for _, answer := range answers {
		if answer.Status == 201 {
			made++
			require.Equal(t, id, answer.Text("id"))
			continue
		}
		require.Equal(t, id, answer.Refused(409, "conflict").Text("error.details.contact_id"))
	}
	require.Equal(t, 1, made)
}

func TestIdempotencyRecordWithoutBodyIsAnsweredFromTheView(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards, app.Nodes(app.Everything, app.Everything))
		phone := a.Phone()
		contact := a.Live.IdempotencyKey("c").Post("/v1/contacts", app.Map{"phone": phone}).Is(201)
		id := contact.Text("id")
		sent := a.Live.IdempotencyKey("m").Post("/v1/messages", app.Map{"to": phone, "body": "x", "send_at": stamp(time.Hour)}).Is(201)
		consent := a.Live.IdempotencyKey("s").Post("/v1/contacts/"+id+"/consent", app.Map{"status": "opted_in", "source": "x"}).Is(200)
		canceled := a.Live.IdempotencyKey("x").Post("/v1/messages/"+sent.Text("id")+"/cancel", nil).Is(200)
		a.Settle()
		lose := func() { a.Exec(`update ledger_idempotency_records set body = null`) }
		require.Eventually(t, func() bool { // the body is stored after the answer was sent
			var missing int
			a.QueryRow(`select count(*) from ledger_idempotency_records where body is null`, nil, &missing)
			return missing == 0
		}, 5*time.Second, 5*time.Millisecond)
		lose()
		other := func(key string) *app.Client { return a.Live.IdempotencyKey(key).OnNode(a.Nodes[1]) }
		again := other("c").Post("/v1/contacts", app.Map{"phone": phone}).Is(201)
		require.Equal(t, id, again.Text("id"))
		require.Equal(t, "true", again.Header.Get(replayed))
		again = other("m").Post("/v1/messages", app.Map{"to": phone, "body": "x", "send_at": stamp(time.Hour)}).Is(201)
		require.Equal(t, sent.Text("id"), again.Text("id"))
		require.Equal(t, "queued", again.Text("status"), "201 always says queued")
		again = other("s").Post("/v1/contacts/"+id+"/consent", app.Map{"status": "opted_in", "source": "x"}).Is(200)
		require.Equal(t, consent.Text("consent_status"), again.Text("consent_status"))
		again = other("x").Post("/v1/messages/"+sent.Text("id")+"/cancel", nil).Is(200)
		require.Equal(t, canceled.JSON(), again.JSON())

		other("d").Delete("/v1/contacts/" + id).Is(200)
		require.Eventually(t, func() bool {
			var missing int
			a.QueryRow(`select count(*) from ledger_idempotency_records where key = 'd' and body is null`, nil, &missing)
			return missing == 0
		}, 5*time.Second, 5*time.Millisecond)
		lose()
		gone := other("d").Delete("/v1/contacts/" + id).Is(200)
		require.Equal(t, app.Map{"deleted": true, "id": id}, gone.JSON())
		require.Equal(t, "true", gone.Header.Get(replayed))
	})
}

func TestInvalidIdempotencyKeysAreRefused(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	post := func(key string) app.Answer {
		return a.Live.IdempotencyKey(key).Post("/v1/contacts", app.Map{"phone": a.Phone()})
	}
	post("!").Is(201)
	post(strings.Repeat("k", 255)).Is(201)
	post(strings.Repeat("k", 256)).Refused(400, "validation_failed", "header /idempotency-key too_long")
	post("").Refused(400, "validation_failed", "header /idempotency-key too_short")
	post("a b").Refused(400, "validation_failed", "header /idempotency-key invalid_characters")
	post("é").Refused(400, "validation_failed", "header /idempotency-key invalid_characters")
	for _, prefix := range []string{"outreach:", "workflow:", "agent:"} {
		post(prefix+"1").Refused(400, "validation_failed", "header /idempotency-key reserved")
	}
	post("agents:1").Is(201)
}
