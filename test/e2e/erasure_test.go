package e2e_test

import (
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ledgerline/eventstore"
	"ledgerline/projections"
	"ledgerline/projections/readmodel"
	"ledgerline/test/app"
)

// tables are all tables of the database, in every schema but Postgres's own.
func tables(t *testing.T, a *app.App) []string {
	t.Helper()
	rows, err := a.Pool.Query(t.Context(), `select format('%I.%I', schemaname, tablename) from pg_tables
		where schemaname not in ('pg_catalog', 'information_schema') order by 1`)
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return names
}

// places returns the tables that contain a text, as text or within bytes.
func places(t *testing.T, a *app.App, needle string) (found []string) {
	t.Helper()
	for _, name := range tables(t, a) {
		var count int
		a.QueryRow(fmt.Sprintf(`select count(*) from %s x where x::text ilike $1 or x::text ilike $2`, name),
			[]any{"%" + needle + "%", "%" + hex.EncodeToString([]byte(needle)) + "%"}, &count)
		if count > 0 {
			found = append(found, name)
		}
	}
	return found
}

func TestErasedPersonalDataIsUnreadableEverywhereAndTheLedgerStillVerifies(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards, app.TrustedProxies("127.0.0.1"))
		c := a.Live.Header("x-forwarded-for", "203.0.113.77").Header("user-agent", "Spyglass/7")
		phone := "+14157773217"
		secrets := []string{
			"4157773217", "Zebulon", "Quartermain", "Obscurity", "zeb@hidden.example", "favourite-7", "Hush hush", "secret.example/photo", "photograph.png",
			"crm-998877", "meta-value-5", "st.o-p", "203.0.113.77", "Spyglass/7", "whispered",
			"confided",
		}
		id := c.IdempotencyKey("create").Post("/v1/contacts", app.Map{
			"phone": phone, "first_name": "Zebulon", "last_name": "Quartermain", "company": "Obscurity", "email": "zeb@hidden.example",
			"fields": app.Map{"colour": "favourite-7"}, "consent_status": "opted_in", "consent_source": "form", "labels": []string{"vip"},
		}).Is(201).Text("id")
		a.Inbound(phone, a.Lines[0].Phone, "whispered before")
		first := c.IdempotencyKey("send").Post("/v1/messages", app.Map{
			"to": phone, "body": "Hush hush", "media": []app.Map{{"url": "https://secret.example/photo", "filename": "photograph.png"}},
			"external_id": "crm-998877", "metadata": app.Map{"k": "meta-value-5"},
		}).Is(201).Text("id")
		canceled := c.Post("/v1/messages", app.Map{"to": phone, "body": "Hush hush", "send_at": stamp(time.Hour)}).Is(201).Text("id")
		c.IdempotencyKey("cancel").Post("/v1/messages/"+canceled+"/cancel", nil).Is(200)
		waiting := c.Post("/v1/messages", app.Map{"to": phone, "body": "Hush hush", "send_at": stamp(time.Hour)}).Is(201).Text("id")
		a.Settle()
		a.Inbound(phone, text(message(a.Live, first), "from"), "whispered")
		a.Inbound(phone, text(message(a.Live, first), "from"), "st.o-p")
		talk := text(message(a.Live, first), "conversation_id")
		c.IdempotencyKey("note").Post("/v1/conversations/"+talk+"/notes", app.Map{"body": "confided"}).Is(201)
		c.IdempotencyKey("change").Do("PATCH", "/v1/conversations/"+talk, app.Map{"status": "snoozed", "snoozed_until": stamp(time.Hour)}).Is(200)
		a.Settle()
		bystander := a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone(), "first_name": "Bystander"}).Is(201).Text("id")
		for _, secret := range secrets {
			require.NotEmpty(t, places(t, a, secret), "%s must be in the read models before", secret)
		}
		var before, after int64
		a.QueryRow(`select count(*) from ledger_events`, nil, &before)
		trail := consentTrail(a.Live, id)
		require.Len(t, trail, 2)

		a.Live.IdempotencyKey("delete").Delete("/v1/contacts/" + id).Is(200)
		a.Settle()

		for _, secret := range secrets {
			require.Empty(t, places(t, a, secret), secret)
		}
		a.QueryRow(`select count(*) from ledger_events e where position <= (select max(position) from ledger_events x where x.shard = e.shard and x.type = 'contact.deleted') and type not in ('contact.deleted', 'number.unlinked') or not exists (select from ledger_events x where x.shard = e.shard and x.type = 'contact.deleted')`, nil, &after)
		require.Equal(t, before, after, "no event is gone")
		verified := func() {
			for shard := range a.Nodes[0].Ledger.Shards() {
				_, err := a.Nodes[0].Ledger.Verify(t.Context(), shard, eventstore.VerifyOptions{})
				require.NoError(t, err)
			}
		}
		verified()

		a.Live.Get("/v1/contacts/"+id).Refused(404, "not_found")
		a.Live.Get("/v1/messages/"+first).Refused(404, "not_found")
		a.Live.Get("/v1/messages/"+first+"/events").Refused(404, "not_found")
		require.Empty(t, a.Live.Get("/v1/messages?contact_id="+id).Is(200).Data())
		a.Live.Get("/v1/conversations/"+talk).Refused(404, "not_found")
		require.Empty(t, a.Live.Get("/v1/conversations").Is(200).Data())
		c.IdempotencyKey("note").Post("/v1/conversations/"+talk+"/notes", app.Map{"body": "confided"}).Refused(404, "not_found")
		a.Live.Post("/v1/messages/"+first+"/cancel", nil).Refused(404, "not_found")
		a.Live.Delete("/v1/contacts/"+id).Refused(404, "not_found")
		a.Live.Post("/v1/messages", app.Map{"contact_id": id, "body": "x"}).Refused(404, "not_found")
		for key, path := range map[string]string{"create": "/v1/contacts", "cancel": "/v1/messages/" + canceled + "/cancel"} {
			answer := c.IdempotencyKey(key).Post(path, nil)
			for _, secret := range secrets {
				require.NotContains(t, string(answer.Raw), secret, "no stored answer may contain %s", secret)
			}
		}
		c.IdempotencyKey("send").Post("/v1/messages", app.Map{
			"to": phone, "body": "Hush hush", "media": []app.Map{{"url": "https://secret.example/photo", "filename": "photograph.png"}},
			"external_id": "crm-998877", "metadata": app.Map{"k": "meta-value-5"},
		}).Refused(404, "not_found")

		require.Equal(t, trail, consentTrail(a.Live, id), "the trail stays")
		evidence := object(a.Live.Get("/v1/compliance/consent-events?contact_id=" + id).Is(200).At("data.0"))
		shows(t, evidence, app.Map{"phone": nil, "text": nil, "ip": nil, "user_agent": nil, "keyword": "stop"})
		require.Len(t, a.Live.Get("/v1/compliance/consent-events?phone=%2B"+phone[1:]).Is(200).Data(), 2, "found by the number's hash")

		var sends int64
		a.Advance(2 * time.Hour)
		a.QueryRow(`select count(*) from simulator.messages where message_id = $1`, []any{waiting}, &sends)
		require.Zero(t, sends, "nothing leaves for a contact that is gone")

		again := a.Live.Post("/v1/contacts", app.Map{"phone": phone}).Is(201)
		require.Equal(t, "opted_out", again.Text("consent_status"))
		require.NotEqual(t, id, again.Text("id"))
		a.Live.Post("/v1/messages", app.Map{"to": phone, "body": "x"}).Refused(422, "contact_opted_out")
		a.Live.Delete("/v1/contacts/" + again.Text("id")).Is(200)
		a.Live.Post("/v1/messages", app.Map{"to": phone, "body": "x"}).Refused(422, "contact_opted_out")

		look := func() (answers []string) {
			for _, path := range []string{"/v1/contacts", "/v1/conversations", "/v1/messages", "/v1/compliance/consent-events", "/v1/contacts/" + bystander} {
				answers = append(answers, string(a.Live.Get(path).Is(200).Raw))
			}
			return answers
		}
		verified() // also closes the blocks, whose hashes the consent events show
		seen := look()
		_, err := readmodel.ReplayAll(t.Context(), a.Nodes[0].Ledger, projections.All(), nil)
		require.NoError(t, err)
		require.Equal(t, seen, look(), "a replay gives the same answers")
		for _, secret := range secrets {
			require.Empty(t, places(t, a, secret), secret)
		}
	})
}

func TestPersonalDataIsSealedEverywhereButInTheReadModels(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	a.Live.IdempotencyKey("k").Post("/v1/contacts", app.Map{"phone": "+14157773218", "first_name": "Zebulon", "email": "zeb@hidden.example"}).Is(201)
	a.Live.IdempotencyKey("l").Post("/v1/messages", app.Map{"to": "+14157773218", "body": "Hush hush"}).Is(201)
	send(a.Test, "+12125550195", "Hush hush")
	a.Settle()
	for _, secret := range []string{"4157773218", "Zebulon", "zeb@hidden.example", "Hush hush", "2125550195"} {
		found := places(t, a, secret)
		require.NotEmpty(t, found)
		for _, name := range found {
			require.Regexp(t, `^p_(contacts|messages|consent|conversations)_1\.`, name, "%s lies in %s", secret, name)
		}
	}
}
