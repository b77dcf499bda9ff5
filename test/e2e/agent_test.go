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

// newAgent creates an agent with these properties besides a name and instructions, and returns its id.
func newAgent(w *app.Workspace, name string, more app.Map) string {
	body := app.Map{"name": name, "instructions": "Be brief."}
	for k, v := range more {
		body[k] = v
	}
	return w.Live.Post("/v1/agents", body).Is(201).Text("id")
}

// liveAgent creates an agent and makes it live.
func liveAgent(w *app.Workspace, name string, more app.Map) string {
	id := newAgent(w, name, more)
	w.Live.Do("PATCH", "/v1/agents/"+id, app.Map{"status": "live"}).Is(200)
	return id
}

func TestAgentIsCreatedAsADraftWithAnIdentityOfKindAIAgentThatFollowsIt(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	made := a.Live.Post("/v1/agents", app.Map{
		"name": " Front desk ", "instructions": "Be brief.", "allowed_line_ids": []string{a.Lines[0].ID, a.Lines[0].ID}, "daily_limit": 7,
	}).Is(201).JSON()
	id, identityID := text(made, "id"), text(made, "service_identity_id")
	require.Equal(t, app.Map{
		"id": id, "name": "Front desk", "status": "draft", "instructions": "Be brief.", "model": "", "allowed_line_ids": []any{a.Lines[0].ID},
		"daily_limit": 7.0, "service_identity_id": identityID, "created_at": stamp(0), "updated_at": stamp(0),
	}, made)
	require.Equal(t, made, a.Live.Get("/v1/agents/"+id).Is(200).JSON())
	identity := func() app.Map { return a.Live.Get("/v1/service-identities").Is(200).Data()[0] }
	require.Equal(t, app.Map{
		"id": identityID, "name": "Front desk", "kind": "ai_agent", "status": "active", "scopes": []any{"read", "send"}, "env": nil, "api_key_id": nil,
		"allowed_line_ids": []any{a.Lines[0].ID}, "daily_limit": 7.0, "created_at": stamp(0),
	}, identity(), "no token is ever shown")
	a.Live.Do("PATCH", "/v1/service-identities/"+identityID, app.Map{"name": "other"}).Refused(409, "conflict")

	a.Advance(time.Second)
	changed := patch2(a, "/v1/agents/"+id, app.Map{"allowed_line_ids": []string{}, "daily_limit": nil, "name": strings.Repeat("n", 120), "model": "small"}).Is(200).JSON()
	require.Equal(t, []any{[]any{}, nil, "small", stamp(time.Second)}, []any{changed["allowed_line_ids"], changed["daily_limit"], changed["model"], changed["updated_at"]})
	require.Equal(t, []any{[]any{}, nil, strings.Repeat("n", 80)}, []any{identity()["allowed_line_ids"], identity()["daily_limit"], identity()["name"]})
}

func TestAgentsWithBadValuesUnknownLinesOrATakenNameAreRefused(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	create := func(body app.Map) app.Answer { return a.Live.Post("/v1/agents", body) }
	create(app.Map{}).Refused(400, "validation_failed", "body /name required", "body /instructions required")
	create(app.Map{"name": " ", "instructions": " "}).Refused(400, "validation_failed", "body /name required", "body /instructions required")
	create(app.Map{
		"name": wide(121), "instructions": wide(20_001), "model": wide(101), "daily_limit": 0, "allowed_line_ids": texts(501, "ln_x"), "token": "x",
	}).Refused(400, "validation_failed", "body /name too_long", "body /instructions too_long", "body /model too_long", "body /daily_limit too_small",
		"body /allowed_line_ids too_many_items", "body /token unknown_property")
	create(app.Map{"name": "x", "instructions": "x", "daily_limit": 100_001}).Refused(400, "validation_failed", "body /daily_limit too_large")
	other := a.NewWorkspace("Second")
	create(app.Map{"name": "x", "instructions": "x", "allowed_line_ids": []string{a.Lines[0].ID, other.Lines[0].ID, "ln_none"}}).
		Refused(400, "validation_failed", "body /allowed_line_ids/1 not_found", "body /allowed_line_ids/2 not_found")
	id := newAgent(a.Workspace, "Desk", nil)
	create(app.Map{"name": "desk ", "instructions": "x"}).Refused(409, "conflict")
	second := newAgent(a.Workspace, "Second", nil)
	patch2(a, "/v1/agents/"+second, app.Map{"name": "DESK"}).Refused(409, "conflict")
	patch2(a, "/v1/agents/"+id, app.Map{"name": "DESK"}).Is(200)
	patch2(a, "/v1/agents/"+id, app.Map{"name": "Clerk"}).Is(200)
	patch2(a, "/v1/agents/"+second, app.Map{"name": "Desk"}).Is(200)
	patch2(a, "/v1/agents/"+id, app.Map{"allowed_line_ids": []string{"ln_none"}}).Refused(400, "validation_failed", "body /allowed_line_ids/0 not_found")
	newAgent(other, "Desk", nil)
}

func TestMovesOfAnAgentThatAreNotPossibleAreConflicts(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	id := newAgent(a.Workspace, "Desk", nil)
	path := "/v1/agents/" + id
	patch2(a, path, app.Map{"status": "paused"}).Refused(409, "conflict")
	require.Equal(t, "draft", patch2(a, path, app.Map{"status": "draft"}).Is(200).Text("status"), "a PATCH to the status it has is 200")
	require.Equal(t, "live", patch2(a, path, app.Map{"status": "live", "instructions": "Be kind."}).Is(200).Text("status"))
	patch2(a, path, app.Map{"status": "draft", "name": "Other"}).Refused(409, "conflict")
	require.Equal(t, "Desk", a.Live.Get(path).Text("name"), "one append, or none")
	for _, to := range []string{"live", "paused", "paused", "live"} {
		require.Equal(t, to, patch2(a, path, app.Map{"status": to}).Is(200).Text("status"))
	}
	patch2(a, path, app.Map{"status": "archived"}).Refused(400, "validation_failed", "body /status invalid_value")
	log := a.Sessions[organisation.Owner].Get("/v1/audit-log?target_type=agent&target_id=" + id).Is(200)
	require.Equal(t, []any{"agent.activated", "agent.paused", "agent.activated", "agent.updated", "agent.created"}, log.Column("type"))
	require.Equal(t, app.Map{"instructions": "Be kind."}, log.At("data.3.changes"))
}

func TestAgentNeedsAModelEndpointToBeLive(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.Model(nil))
	id := newAgent(a.Workspace, "Desk", nil)
	patch2(a, "/v1/agents/"+id, app.Map{"status": "live"}).Refused(409, "conflict")
}

func TestAgentsAreListedNewestFirstAndPaged(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	var ids []any
	for _, name := range []string{"one", "two", "three"} {
		ids = append(ids, newAgent(a.Workspace, name, nil))
		a.Advance(time.Second)
	}
	patch2(a, "/v1/agents/"+ids[0].(string), app.Map{"status": "live"}).Is(200) //nolint:errcheck,forcetypeassert // it is a text
	require.Equal(t, []any{ids[2], ids[1], ids[0]}, a.Live.Get("/v1/agents").Is(200).Column("id"))
	require.Equal(t, []any{ids[0]}, a.Live.Get("/v1/agents?status=live").Is(200).Column("id"))
	page := a.Live.Get("/v1/agents?limit=2").Is(200)
	require.Equal(t, []any{ids[2], ids[1]}, page.Column("id"))
	last := a.Live.Get("/v1/agents?limit=2&cursor=" + page.Text("next_cursor")).Is(200)
	require.Equal(t, []any{ids[0]}, last.Column("id"))
	a.Live.Get("/v1/agents?status=live&cursor="+page.Text("next_cursor")).Refused(400, "validation_failed", "query /cursor invalid_cursor")
	a.Live.Get("/v1/agents?status=gone").Refused(400, "validation_failed", "query /status invalid_value")
	require.Empty(t, a.NewWorkspace("Second").Live.Get("/v1/agents").Is(200).Data())
	a.Live.Get("/v1/agents/"+uuid.NewString()).Refused(404, "not_found")
	a.Test.Post("/v1/agents", app.Map{"name": "x", "instructions": "x"}).Refused(403, "forbidden")
	a.Test.Do("PATCH", "/v1/agents/"+ids[0].(string), app.Map{"name": "x"}).Refused(403, "forbidden") //nolint:errcheck,forcetypeassert // as above
	first := a.Live.IdempotencyKey("one").Post("/v1/agents", app.Map{"name": "four", "instructions": "x"}).Is(201)
	require.Equal(t, first.JSON(), a.Live.IdempotencyKey("one").Post("/v1/agents", app.Map{"name": "four", "instructions": "x"}).Is(201).JSON())
}

func TestOnlyLiveAgentsOfTheWorkspaceCanHandleAConversation(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	c := newTalk(a, "Ada")
	draft := newAgent(a.Workspace, "Draft", nil)
	strange := liveAgent(a.NewWorkspace("Second"), "Strange", nil)
	for _, id := range []string{draft, strange, uuid.NewString()} {
		patch2(a, c.path(""), app.Map{"handled_by": "agent:" + id}).Refused(400, "validation_failed", "body /handled_by not_found")
	}
	id := liveAgent(a.Workspace, "Live", nil)
	require.Equal(t, "agent:"+id, patch2(a, c.path(""), app.Map{"handled_by": "agent:" + id}).Is(200).Text("handled_by"))
	a.Test.Do("PATCH", c.path(""), app.Map{"handled_by": "agent:" + id}).Refused(403, "forbidden")
}
