package e2e_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/organisation"
	"ledgerline/test/app"
)

func leaf(field, op string, value any) app.Map {
	return app.Map{"field": field, "op": op, "value": value}
}

func TestASegmentFiltersListsAndIsCounted(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards)
		create := func(first string, labels ...string) string {
			return a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone(), "first_name": first, "labels": append([]string{}, labels...), "fields": app.Map{"Plan": first}}).Is(201).Text("id")
		}
		one, two, three := create("Ada", "vip"), create("Grace", "vip"), create("Zoë")
		definition := app.Map{"all": []any{leaf("labels", "contains", "VIP"), app.Map{"not": leaf("first_name", "eq", "ADA")}}}
		made := a.Live.Post("/v1/segments", app.Map{"name": "Best", "definition": definition}).Is(201).JSON()
		id := text(made, "id")
		require.Equal(t, app.Map{
			"id": id, "name": "Best", "contact_count": 1.0, "created_at": stamp(0),
			"definition": app.Map{"all": []any{leaf("labels", "contains", "vip"), app.Map{"not": leaf("first_name", "eq", "ADA")}}},
		}, made)
		members := func() []any { return a.Live.Get("/v1/contacts?segment_id=" + id).Is(200).Column("id") }
		counts := func() []any { return a.Live.Get("/v1/segments").Is(200).Column("contact_count") }
		require.Equal(t, []any{two}, members())

		patch(a.Live, three, app.Map{"labels": []string{"vip"}}).Is(200)
		require.Equal(t, []any{three, two}, members())
		require.Equal(t, []any{2.0}, counts(), "counted anew when contacts change")
		require.Equal(t, []any{three}, a.Live.Get("/v1/contacts?q=zo&segment_id="+id).Is(200).Column("id"))
		require.Contains(t, string(a.Live.Get("/v1/contacts/export?segment_id="+id).Is(200).Raw), two)
		require.NotContains(t, string(a.Live.Get("/v1/contacts/export?segment_id="+id).Is(200).Raw), one)

		label := text(a.Live.Get("/v1/labels").Is(200).Data()[0], "id")
		a.Live.Do("PATCH", "/v1/labels/"+label, app.Map{"name": "Gold"}).Is(200)
		require.Equal(t, "Gold", a.Live.Get("/v1/segments").Is(200).At("data.0.definition.all.0.value"), "a renamed label is followed")
		require.Equal(t, []any{three, two}, members())
		a.Live.Post("/v1/labels", app.Map{"name": "vip"}).Is(201)
		require.Equal(t, []any{three, two}, members(), "also when another takes its name")

		changed := a.Live.Do("PATCH", "/v1/segments/"+id, app.Map{"definition": leaf("fields.Plan", "in", []any{"ada", "zoË", 5})}).Is(200)
		require.Equal(t, []any{2.0, "Best"}, []any{changed.At("contact_count"), changed.At("name")})
		require.Equal(t, []any{three, one}, members())
		a.Live.Do("PATCH", "/v1/segments/"+id, app.Map{"definition": leaf("labels", "contains", "Gold"), "name": "Golden"}).Is(200)
		a.Live.Delete("/v1/labels/" + label).Is(200)
		require.Empty(t, members(), "a deleted label is on nobody")
		require.Equal(t, []any{0.0}, counts())

		require.Equal(t, app.Map{"deleted": true, "id": id}, a.Live.Delete("/v1/segments/"+id).Is(200).JSON())
		require.Empty(t, a.Live.Get("/v1/segments").Is(200).Data())
		a.Live.Get("/v1/contacts?segment_id="+id).Refused(400, "validation_failed", "query /segment_id not_found")
		a.Live.Get("/v1/contacts/export?segment_id="+id).Refused(400, "validation_failed", "query /segment_id not_found")
		a.Live.Post("/v1/segments", app.Map{"name": "golden", "definition": leaf("email", "exists", true)}).Is(201)
	})
}

func TestProblemsOfADefinitionAreReportedAtTheirNodes(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	a.Live.Post("/v1/labels", app.Map{"name": "vip"}).Is(201)
	refused := func(definition any, issues ...string) {
		t.Helper()
		a.Live.Post("/v1/segments", app.Map{"name": "x", "definition": definition}).Refused(400, "validation_failed", issues...)
	}
	refused(app.Map{"all": []any{leaf("labels", "contains", "vip"), leaf("nick", "eq", "x"), leaf("email", "gt", 5)}},
		"body /definition/all/1/field unknown_field", "body /definition/all/2/op unknown_op")
	refused(app.Map{"any": []any{app.Map{"not": leaf("labels", "in", []any{"vip", "gold"})}, leaf("created_at", "before", "yesterday")}},
		"body /definition/any/1/value invalid_value")
	refused(app.Map{"any": []any{app.Map{"not": leaf("labels", "in", []any{"vip", "gold"})}}}, "body /definition/any/0/not/value/1 unknown_label")
	refused(5, "body /definition invalid_type")
	refused(nil, "body /definition invalid_type")
	a.Live.Post("/v1/segments", app.Map{"definition": app.Map{}}).Refused(400, "validation_failed", "body /name required")
	a.Live.Post("/v1/segments", app.Map{"name": "x"}).Refused(400, "validation_failed", "body /definition required")
	a.Live.Post("/v1/segments", app.Map{"name": wide(81), "definition": 1}).Refused(400, "validation_failed", "body /name too_long")
	a.Live.Post("/v1/segments", app.Map{"name": " ", "definition": app.Map{"x": 1}}).
		Refused(400, "validation_failed", "body /name required", "body /definition/x unknown_property", "body /definition/field required")

	id := a.Live.Post("/v1/segments", app.Map{"name": "x", "definition": leaf("phone", "contains", "555")}).Is(201).Text("id")
	a.Live.Post("/v1/segments", app.Map{"name": "X ", "definition": leaf("phone", "contains", "555")}).Refused(409, "conflict")
	a.Live.Do("PATCH", "/v1/segments/"+id, app.Map{"definition": leaf("phone", "contains", 5), "name": ""}).
		Refused(400, "validation_failed", "body /definition/value invalid_value", "body /name required")
	for _, c := range []*app.Client{a.NewWorkspace("Second").Live, a.NewOrganisation("Other").Live} {
		c.Do("PATCH", "/v1/segments/"+id, app.Map{"name": "y"}).Refused(404, "not_found")
		c.Delete("/v1/segments/"+id).Refused(404, "not_found")
		c.Get("/v1/contacts?segment_id="+id).Refused(400, "validation_failed", "query /segment_id not_found")
	}
	a.Live.Delete("/v1/segments/"+uuid.NewString()).Refused(404, "not_found")
	a.Sessions[organisation.Agent].Post("/v1/segments", app.Map{"name": "z", "definition": leaf("email", "exists", true)}).Refused(403, "forbidden")
	require.Len(t, a.Sessions[organisation.Agent].Get("/v1/segments").Is(200).Data(), 1)
}
