package e2e_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/organisation"
	"ledgerline/test/app"
)

// eventsOf is the types of a stream's events, in order.
func eventsOf(a *app.App, stream string) (types []string) {
	a.QueryRow(`select coalesce(array_agg(type order by version), '{}') from ledger_events where stream = $1`, []any{stream}, &types)
	return types
}

func patch(c *app.Client, id string, body any) app.Answer {
	return c.Do("PATCH", "/v1/contacts/"+id, body)
}

func TestPatchChangesGivenFieldsAndNullIsNotAbsent(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards)
		owner := a.Users[organisation.Agent].String()
		before := a.Live.Post("/v1/contacts", app.Map{
			"phone": a.Phone(), "first_name": "Grace", "last_name": "Hopper", "company": "Navy", "email": "grace@example.com",
			"fields": app.Map{"a": 1, "b": "x"}, "labels": []string{"vip", "new"}, "owner_user_id": owner, "consent_status": "opted_in",
		}).Is(201).JSON()
		id := text(before, "id")

		a.Advance(time.Minute)
		require.Equal(t, before, patch(a.Live, id, app.Map{}).Is(200).JSON(), "nothing is asked for")
		require.Equal(t, before, patch(a.Live, id, app.Map{
			"first_name": "Grace", "phone": before["phone"], "fields": app.Map{"b": "x", "a": 1}, "labels": []string{"NEW", "Vip"}, "owner_user_id": owner,
		}).Is(200).JSON(), "all is as it should be")
		require.Equal(t, []string{"contact.created", "contact.opted_in"}, eventsOf(a, id))

		after := patch(a.Live, id, app.Map{
			"first_name": nil, "company": "Univac", "fields": app.Map{"c": nil}, "labels": []string{"vip", "other"}, "owner_user_id": nil,
		}).Is(200).JSON()
		want := app.Map{}
		for name, value := range before {
			want[name] = value
		}
		want["first_name"], want["company"], want["owner_user_id"], want["updated_at"] = nil, "Univac", nil, stamp(time.Minute)
		want["fields"], want["labels"] = app.Map{"c": nil}, []any{"other", "vip"}
		require.Equal(t, want, after)
		require.Equal(t, after, a.Live.Get("/v1/contacts/"+id).Is(200).JSON())
		require.Equal(t, []string{"contact.created", "contact.opted_in", "contact.labels_changed", "contact.updated"}, eventsOf(a, id))
		require.Equal(t, []any{}, patch(a.Live, id, app.Map{"labels": []string{}}).Is(200).At("labels"))
	})
}

func TestPatchProblemsAreReportedAtTheirPointers(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	id := a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201).Text("id")
	patch(a.Live, id, app.Map{"phone": nil, "labels": nil, "fields": nil, "first_name": wide(101), "email": "nobody", "consent_status": "opted_in", "company": 5}).
		Refused(400, "validation_failed", "body /phone null_not_allowed", "body /labels null_not_allowed", "body /fields null_not_allowed", "body /first_name too_long",
			"body /email invalid_format", "body /consent_status unknown_property", "body /company invalid_type")
	patch(a.Live, id, app.Map{"phone": "12", "labels": []string{"ok", " "}, "owner_user_id": uuid.New(), "fields": app.Map{"x": wide(9000)}}).
		Refused(400, "validation_failed", "body /phone invalid_phone", "body /labels/1 required", "body /owner_user_id not_a_member", "body /fields too_long")
	patch(a.Live, id, app.Map{"labels": texts(51, "l")}).Refused(400, "validation_failed", "body /labels too_many_items")
	require.Equal(t, []string{"contact.created"}, eventsOf(a, id))
	require.Empty(t, a.Live.Get("/v1/contacts/"+id).Is(200).At("labels"), "nothing half done")

	elsewhere := a.NewOrganisation("Other").Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201).Text("id")
	for _, foreign := range []string{elsewhere, "ctc_01jd0000000000000000000000", "x"} {
		patch(a.Live, foreign, app.Map{"company": "x"}).Refused(404, "not_found")
		a.Live.Post("/v1/contacts/"+foreign+"/labels", app.Map{"add": []string{"x"}}).Refused(404, "not_found")
	}
	patch(a.Sessions[organisation.Agent], id, app.Map{"company": "x"}).Refused(403, "forbidden")
	patch(a.Sessions[organisation.Manager], id, app.Map{"company": "x"}).Is(200)
}

func TestLabelsAreAddedAndRemovedByName(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	id := a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone(), "labels": []string{"one", "two"}}).Is(201).Text("id")
	labels := func(body app.Map) any { return a.Live.Post("/v1/contacts/"+id+"/labels", body).Is(200).At("labels") }
	require.Equal(t, []any{"three"}, labels(app.Map{"add": []string{" three ", "Three"}, "remove": []string{"one", "TWO", "never"}}))
	require.Equal(t, []any{"three"}, labels(app.Map{}))
	require.Equal(t, []any{"three"}, labels(app.Map{"add": []string{"three"}, "remove": []string{"three"}}))
	require.Equal(t, []string{"contact.created", "contact.labels_changed"}, eventsOf(a, id))
	a.Live.Post("/v1/contacts/"+id+"/labels", app.Map{"add": texts(51, "l"), "remove": "x"}).
		Refused(400, "validation_failed", "body /add too_many_items", "body /remove invalid_type")
	a.Live.Post("/v1/contacts/"+id+"/labels", app.Map{"add": []string{"ok", wide(65)}}).Refused(400, "validation_failed", "body /add/1 too_long")
}

// A changed number that opted out before makes the contact opted_out.
func TestChangedPhoneInTheRegisterOptsTheContactOut(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards)
		second := a.NewWorkspace("Second")
		free, taken, out := a.Phone(), a.Phone(), a.Phone()
		id := a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone(), "consent_status": "opted_in", "consent_source": "form"}).Is(201).Text("id")
		neighbour := a.Live.Post("/v1/contacts", app.Map{"phone": taken}).Is(201).Text("id")
		elsewhere := second.Live.Post("/v1/contacts", app.Map{"phone": out}).Is(201).Text("id")
		second.Live.Post("/v1/contacts/"+elsewhere+"/opt-out", app.Map{"source": "call"}).Is(200)

		conflict := patch(a.Live, id, app.Map{"phone": taken, "first_name": "X"}).Refused(409, "conflict")
		require.Equal(t, neighbour, conflict.Text("error.details.contact_id"))
		require.Nil(t, a.Live.Get("/v1/contacts/"+id).Is(200).At("first_name"), "nothing half done")

		moved := patch(a.Live, id, app.Map{"phone": free}).Is(200)
		require.Equal(t, []any{free, "opted_in"}, []any{moved.At("phone"), moved.At("consent_status")}, "consent stays")
		moved = patch(a.Live, id, app.Map{"phone": out}).Is(200)
		require.Equal(t, []any{out, "opted_out", nil}, []any{moved.At("phone"), moved.At("consent_status"), moved.At("consent_source")})
		a.Live.Post("/v1/messages", app.Map{"contact_id": id, "body": "x"}).Refused(422, "contact_opted_out")
		require.Equal(t, "opted_out", patch(a.Live, id, app.Map{"phone": free}).Is(200).Text("consent_status"), "a new number opts nobody in")

		a.Live.Post("/v1/contacts", app.Map{"phone": free}).Refused(409, "conflict")
		require.Equal(t, "opted_out", a.Live.Post("/v1/contacts", app.Map{"phone": out}).Is(201).Text("consent_status"), "the number was given up")
		require.Len(t, a.Live.Get("/v1/contacts?phone=%2B"+free[1:]).Is(200).Data(), 1)
	})
}

func TestMessagesForTheOldNumberAreCanceledWhenThePhoneChanges(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	id := a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201).Text("id")
	waiting := a.Live.Post("/v1/messages", app.Map{"contact_id": id, "body": "x", "send_at": stamp(time.Hour)}).Is(201).Text("id")
	patch(a.Live, id, app.Map{"phone": a.Phone()}).Is(200)
	a.Settle()
	shows(t, message(a.Live, waiting), app.Map{"status": "failed", "error_code": "canceled", "error_details": app.Map{"reason": "phone_changed"}})
	next := send(a.Live, text(a.Live.Get("/v1/contacts/"+id).Is(200).JSON(), "phone"), "y")
	a.Settle()
	require.Equal(t, "delivered", status(a.Live, next))
}
