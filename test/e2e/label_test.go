package e2e_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/organisation"
	"ledgerline/test/app"
)

// labelCounts is the labels of a workspace with their counts, in the order of the list.
func labelCounts(c *app.Client) (list []string) {
	for _, row := range c.Get("/v1/labels").Is(200).Data() {
		list = append(list, fmt.Sprintf("%v %v", row["name"], row["contact_count"]))
	}
	return list
}

func TestLabelIsCreatedRenamedAndDeleted(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards)
		made := a.Live.Post("/v1/labels", app.Map{"name": " VIP ", "color": "#f00"}).Is(201).JSON()
		id := text(made, "id")
		require.Equal(t, app.Map{"id": id, "name": "VIP", "color": "#f00", "contact_count": 0.0, "created_at": stamp(0)}, made)
		contact := a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone(), "labels": []string{"vip"}}).Is(201).Text("id")
		a.Live.Post("/v1/labels", app.Map{"name": "vIP"}).Refused(409, "conflict")
		other := a.Live.Post("/v1/labels", app.Map{"name": "other"}).Is(201).Text("id")
		a.Live.Do("PATCH", "/v1/labels/"+other, app.Map{"name": "Vip"}).Refused(409, "conflict")

		renamed := a.Live.Do("PATCH", "/v1/labels/"+id, app.Map{"name": "Gold"}).Is(200)
		require.Equal(t, []any{"Gold", "#f00", 1.0}, []any{renamed.At("name"), renamed.At("color"), renamed.At("contact_count")}, "it keeps its contacts")
		require.Equal(t, []any{"Gold"}, a.Live.Get("/v1/contacts/"+contact).Is(200).At("labels"))
		require.Nil(t, a.Live.Do("PATCH", "/v1/labels/"+id, app.Map{"name": "GOLD", "color": nil}).Is(200).At("color"))
		require.Equal(t, []string{"GOLD 1", "other 0"}, labelCounts(a.Live))

		// The name is free: its next use creates another label, also on a node that has the old one in memory.
		patch(a.Live, contact, app.Map{"labels": []string{"vip", "gold"}}).Is(200)
		require.Equal(t, []string{"GOLD 1", "other 0", "vip 1"}, labelCounts(a.Live))

		require.Equal(t, app.Map{"deleted": true, "id": id}, a.Live.Delete("/v1/labels/"+id).Is(200).JSON())
		require.Equal(t, []any{"vip"}, a.Live.Get("/v1/contacts/"+contact).Is(200).At("labels"))
		a.Live.Delete("/v1/labels/"+id).Refused(404, "not_found")
		a.Live.Do("PATCH", "/v1/labels/"+id, app.Map{}).Refused(404, "not_found")
		require.Empty(t, a.Live.Get("/v1/contacts?label=gold").Is(200).Data())
		patch(a.Live, contact, app.Map{"labels": []string{"gold"}}).Is(200)
		require.Equal(t, []string{"gold 1", "other 0", "vip 0"}, labelCounts(a.Live))
		require.Len(t, a.Live.Get("/v1/contacts?label=GOLD").Is(200).Data(), 1)
	})
}

func TestContactCountOfALabelIsCorrectAfterAnySequenceOfChanges(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	var ids []string
	for i := range 6 {
		labels := []string{"a"}
		if i%2 == 0 {
			labels = append(labels, "b")
		}
		ids = append(ids, a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone(), "labels": labels}).Is(201).Text("id"))
	}
	require.Equal(t, []string{"a 6", "b 3"}, labelCounts(a.Live))
	a.Live.Post("/v1/contacts/"+ids[0]+"/labels", app.Map{"add": []string{"c"}, "remove": []string{"a"}}).Is(200)
	a.Live.Delete("/v1/contacts/" + ids[2]).Is(200)
	patch(a.Live, ids[4], app.Map{"labels": []string{}}).Is(200)
	require.Equal(t, []string{"a 3", "b 1", "c 1"}, labelCounts(a.Live))
	a.Live.Delete("/v1/contacts/" + ids[0]).Is(200)
	patch(a.Live, ids[4], app.Map{"labels": []string{"a", "b"}}).Is(200)
	require.Equal(t, []string{"a 4", "b 1", "c 0"}, labelCounts(a.Live))
	require.Equal(t, []string(nil), labelCounts(a.NewWorkspace("Second").Live))
}

func TestBadLabelsAreRefusedAtTheirPointers(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	a.Live.Post("/v1/labels", app.Map{"name": wide(65), "color": 5, "x": 1}).
		Refused(400, "validation_failed", "body /name too_long", "body /color invalid_type", "body /x unknown_property")
	a.Live.Post("/v1/labels", app.Map{}).Refused(400, "validation_failed", "body /name required")
	a.Live.Post("/v1/labels", app.Map{"name": "  "}).Refused(400, "validation_failed", "body /name required")
	a.Live.Post("/v1/labels", app.Map{"name": "x", "color": wide(65)}).Refused(400, "validation_failed", "body /color too_long")
	id := a.Live.Post("/v1/labels", app.Map{"name": "x"}).Is(201).Text("id")
	a.Live.Do("PATCH", "/v1/labels/"+id, app.Map{"name": nil}).Refused(400, "validation_failed", "body /name null_not_allowed")
	a.Live.Do("PATCH", "/v1/labels/x", app.Map{}).Refused(400, "validation_failed", "path /id invalid_format")
	for _, c := range []*app.Client{a.NewWorkspace("Second").Live, a.NewOrganisation("Other").Live} {
		c.Do("PATCH", "/v1/labels/"+id, app.Map{"name": "y"}).Refused(404, "not_found")
		c.Delete("/v1/labels/"+id).Refused(404, "not_found")
	}
	a.Live.Delete("/v1/labels/"+uuid.NewString()).Refused(404, "not_found")
	a.Sessions[organisation.Agent].Post("/v1/labels", app.Map{"name": "z"}).Refused(403, "forbidden")
	require.Equal(t, []string{"x 0"}, labelCounts(a.Sessions[organisation.Agent]))
}

func TestCountsAreOfTheContactsThatTheCallerMaySee(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	agent, manager := a.Sessions[organisation.Agent], a.Sessions[organisation.Manager]
	create := func(owner organisation.Role) string {
		return manager.Post("/v1/contacts", app.Map{"phone": a.Phone(), "labels": []string{"vip"}, "company": "Acme", "owner_user_id": a.Users[owner]}).Is(201).Text("id")
	}
	hidden := create(organisation.Manager)
	manager.Post("/v1/labels", app.Map{"name": "empty"}).Is(201)
	manager.Post("/v1/segments", app.Map{"name": "Acme", "definition": app.Map{"field": "company", "op": "eq", "value": "Acme"}}).Is(201)
	counts := func(c *app.Client) []any {
		return append(c.Get("/v1/labels").Is(200).Column("contact_count"), c.Get("/v1/segments").Is(200).Column("contact_count")...)
	}
	require.Equal(t, []any{0.0, 1.0, 1.0}, counts(manager))
	require.Equal(t, []any{0.0, 0.0, 0.0}, counts(agent))
	own := create(organisation.Agent)
	require.Equal(t, []any{0.0, 2.0, 2.0}, counts(a.Live))
	require.Equal(t, []any{0.0, 1.0, 1.0}, counts(agent))
	require.Equal(t, []any{own}, agent.Get("/v1/contacts").Is(200).Column("id"))
	manager.Do("PATCH", "/v1/contacts/"+hidden, app.Map{"owner_user_id": nil}).Is(200)
	require.Equal(t, []any{0.0, 2.0, 2.0}, counts(agent))
	require.Equal(t, []any{0.0, 2.0, 2.0}, counts(manager))
}
