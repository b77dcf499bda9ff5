package e2e_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/organisation"
	"ledgerline/test/app"
)

func TestSavedRepliesHaveUniqueTitles(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards)
		made := a.Live.IdempotencyKey("s").Post("/v1/saved-replies", app.Map{"title": " Hours ", "body": "We are open\nfrom nine."}).Is(201)
		id := made.Text("id")
		require.Equal(t, app.Map{"id": id, "title": "Hours", "body": "We are open\nfrom nine.", "team_id": nil, "created_at": stamp(0), "updated_at": stamp(0)}, made.JSON())
		a.Live.Post("/v1/saved-replies", app.Map{"title": "HOURS", "body": "x"}).Refused(409, "conflict")
		a.NewWorkspace("Other").Live.Post("/v1/saved-replies", app.Map{"title": "Hours", "body": "x"}).Is(201)
		a.Live.Post("/v1/saved-replies", app.Map{"title": " ", "body": strings.Repeat("x", 2001), "team_id": uuid.NewString()}).
			Refused(400, "validation_failed", "body /body too_long")
		a.Live.Post("/v1/saved-replies", app.Map{"title": " ", "body": " ", "team_id": uuid.NewString()}).
			Refused(400, "validation_failed", "body /title required", "body /body required", "body /team_id not_found")

		a.Advance(time.Minute)
		later := a.Live.Post("/v1/saved-replies", app.Map{"title": "Address", "body": "Main street"}).Is(201).Text("id")
		a.Live.Do("PATCH", "/v1/saved-replies/"+later, app.Map{"title": "hours"}).Refused(409, "conflict")
		changed := a.Live.Do("PATCH", "/v1/saved-replies/"+id, app.Map{"title": "HOURS"}).Is(200)
		shows(t, changed.JSON(), app.Map{"title": "HOURS", "body": "We are open\nfrom nine.", "created_at": stamp(0), "updated_at": stamp(time.Minute)})
		a.Live.Do("PATCH", "/v1/saved-replies/"+id, app.Map{"title": "Times", "body": "Nine to five"}).Is(200)
		a.Live.Do("PATCH", "/v1/saved-replies/"+later, app.Map{"title": "hours"}).Is(200)
		require.Equal(t, []any{"hours", "Times"}, a.Live.Get("/v1/saved-replies").Is(200).Column("title"), "newest first")

		require.Equal(t, app.Map{"deleted": true, "id": later}, a.Live.Delete("/v1/saved-replies/"+later).Is(200).JSON())
		a.Live.Delete("/v1/saved-replies/"+later).Refused(404, "not_found")
		a.Live.Do("PATCH", "/v1/saved-replies/"+later, app.Map{"title": "x"}).Refused(404, "not_found")
		a.Live.Do("PATCH", "/v1/saved-replies/x", app.Map{"title": "x"}).Refused(400, "validation_failed", "path /id invalid_format")
		a.NewOrganisation("Stranger").Live.Delete("/v1/saved-replies/"+id).Refused(404, "not_found")
		a.Live.Post("/v1/saved-replies", app.Map{"title": "Hours", "body": "x"}).Is(201)
		require.Len(t, a.Live.Get("/v1/saved-replies").Is(200).Data(), 2)
	})
}

func TestAgentsUseTheSavedRepliesForEveryoneAndOfTheirOwnTeams(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	team := func(name string, members ...uuid.UUID) string {
		made, err := a.Nodes[0].App.CreateTeam(t.Context(), a.Operator(), name, members...)
		require.NoError(t, err)
		return made.Ref
	}
	own, other := team("Own", a.Users[organisation.Agent]), team("Other", a.Users[organisation.Manager])
	manager, agent := a.Sessions[organisation.Manager], a.Sessions[organisation.Agent]
	for title, of := range map[string]any{"all": nil, "own": own, "other": other} {
		manager.Post("/v1/saved-replies", app.Map{"title": title, "body": "x", "team_id": of}).Is(201)
	}
	require.ElementsMatch(t, []any{"all", "own"}, agent.Get("/v1/saved-replies").Is(200).Column("title"))
	require.Len(t, manager.Get("/v1/saved-replies").Is(200).Data(), 3)
	agent.Post("/v1/saved-replies", app.Map{"title": "mine", "body": "x"}).Refused(403, "forbidden")
	moved := manager.Post("/v1/saved-replies", app.Map{"title": "moved", "body": "x", "team_id": own}).Is(201)
	require.Equal(t, other, manager.Do("PATCH", "/v1/saved-replies/"+moved.Text("id"), app.Map{"team_id": other}).Is(200).At("team_id"))
	require.Len(t, agent.Get("/v1/saved-replies").Is(200).Data(), 2)
	require.Nil(t, manager.Do("PATCH", "/v1/saved-replies/"+moved.Text("id"), app.Map{"team_id": nil}).Is(200).At("team_id"))
	require.Len(t, agent.Get("/v1/saved-replies").Is(200).Data(), 3)
}
