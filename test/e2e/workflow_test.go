package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/organisation"
	"ledgerline/test/app"
)

// node is a node of a graph.
func node(id, kind string, config app.Map) app.Map {
	return app.Map{"id": id, "type": kind, "config": config}
}

// graph is a graph of nodes and edges; an edge is "from to" or "from to label". A node "start" of type trigger is
// added.
func graph(edges []string, nodes ...app.Map) app.Map {
	list := []app.Map{}
	for _, edge := range edges {
		parts := strings.Fields(edge)
		e := app.Map{"from": parts[0], "to": parts[1]}
		if len(parts) == 3 {
			e["label"] = parts[2]
		}
		list = append(list, e)
	}
	return app.Map{"nodes": append([]app.Map{{"id": "start", "type": "trigger"}}, nodes...), "edges": list}
}

// workflowOf creates and publishes a workflow, and returns its id.
func workflowOf(w *app.Workspace, trigger string, config, g app.Map) string {
	id := w.Live.Post("/v1/workflows", app.Map{"name": "flow", "trigger": trigger, "trigger_config": config, "graph": g}).Is(201).Text("id")
	w.Live.Post("/v1/workflows/"+id+"/publish", nil).Is(200)
	return id
}

func TestAWorkflowStartsAsADraftAndGETShowsTheDraftWhereThereIsOne(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	made := a.Live.Post("/v1/workflows", app.Map{"name": " Welcome ", "trigger": "message.received"}).Is(201).JSON()
	id := text(made, "id")
	require.Equal(t, app.Map{
		"id": id, "name": "Welcome", "status": "draft", "trigger": "message.received", "trigger_config": app.Map{},
		"graph": app.Map{"nodes": []any{}, "edges": []any{}}, "has_draft": true, "published_version": nil, "published_version_id": nil,
		"runs_30d": app.Map{"completed": 0.0, "failed": 0.0, "total": 0.0}, "created_at": stamp(0), "updated_at": stamp(0),
	}, made)
	path := "/v1/workflows/" + id
	require.Equal(t, made, a.Live.Get(path).Is(200).JSON())
	require.Empty(t, a.Live.Get(path+"/versions").Is(200).Data(), "versions list published ones only")
	a.Live.Post(path+"/publish", nil).Refused(400, "validation_failed", "body /graph/nodes trigger_missing")

	one := graph([]string{"start hi"}, node("hi", "send", app.Map{"body": "Hi {{first_name|there}}"}))
	a.Advance(time.Second)
	edited := patch2(a, path, app.Map{"graph": one, "trigger_config": app.Map{"keywords": []string{"join"}, "token": "ignored"}}).Is(200).JSON()
	require.Equal(t, stamp(1*time.Second), edited["updated_at"])
	require.Equal(t, app.Map{"keywords": []any{"join"}}, edited["trigger_config"])
	a.Advance(time.Second)
	live := a.Live.Post(path+"/publish", nil).Is(200).JSON()
	require.Equal(t, []any{"live", false, 1.0, stamp(2 * time.Second)}, []any{live["status"], live["has_draft"], live["published_version"], live["updated_at"]})
	require.Equal(t, live, a.Live.Post(path+"/publish", nil).Is(200).JSON(), "without a draft a publish changes nothing")
	versions := a.Live.Get(path + "/versions").Is(200).Data()
	require.Equal(t, []app.Map{{
		"id": live["published_version_id"], "workflow_id": id, "version": 1.0, "graph": live["graph"], "published_at": stamp(2 * time.Second), "created_at": stamp(0),
	}}, versions)

	a.Advance(time.Second)
	draft := patch2(a, path, app.Map{"trigger": "contact.created", "status": "paused"}).Is(200).JSON()
	require.Equal(t, []any{"paused", true, 1.0, "contact.created", app.Map{}}, []any{draft["status"], draft["has_draft"], draft["published_version"], draft["trigger"], draft["trigger_config"]},
		"edits first, one append; a new trigger without a config resets it")
	a.Advance(time.Second)
	again := a.Live.Post(path+"/publish", nil).Is(200)
	require.Equal(t, []any{"live", false, 2.0}, []any{again.At("status"), again.At("has_draft"), again.At("published_version")}, "publishing a paused one with a draft makes it live")
	require.Equal(t, []any{2.0, 1.0}, a.Live.Get(path+"/versions").Is(200).Column("version"), "newest first")
	require.Equal(t, stamp(3*time.Second), a.Live.Get(path+"/versions").Is(200).At("data.0.created_at"))
}

// patch2 sends a PATCH with the live key.
func patch2(a *app.App, path string, body app.Map) app.Answer { return a.Live.Do("PATCH", path, body) }

func TestMovesOfAWorkflowThatAreNotPossibleAreConflicts(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	id := a.Live.Post("/v1/workflows", app.Map{"name": "x", "trigger": "contact.created", "graph": graph(nil)}).Is(201).Text("id")
	path := "/v1/workflows/" + id
	patch2(a, path, app.Map{"status": "paused"}).Refused(409, "conflict")
	patch2(a, path, app.Map{"status": "live"}).Refused(409, "conflict")
	patch2(a, path, app.Map{"status": "draft"}).Refused(400, "validation_failed", "body /status invalid_value")
	a.Live.Post(path+"/publish", nil).Is(200)
	before := a.Live.Get(path).JSON()
	require.Equal(t, before, patch2(a, path, app.Map{"status": "live"}).Is(200).JSON(), "a PATCH to the status it has changes nothing")
	patch2(a, path, app.Map{"status": "paused"}).Is(200)
	require.Equal(t, "paused", a.Live.Post(path+"/publish", nil).Is(200).Text("status"), "publishing a paused one without a draft changes nothing")
	require.Equal(t, "live", patch2(a, path, app.Map{"status": "live"}).Is(200).Text("status"))
	require.Equal(t, "archived", patch2(a, path, app.Map{"status": "archived"}).Is(200).Text("status"))
	for _, body := range []app.Map{{"status": "archived"}, {"status": "live"}, {"name": "y"}, {}} {
		patch2(a, path, body).Refused(409, "conflict")
	}
	a.Live.Post(path+"/publish", nil).Refused(409, "conflict")
}

func TestPublishReportsAllProblemsTogetherAtTheirPaths(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	missing := uuid.NewString()
	id := a.Live.Post("/v1/workflows", app.Map{
		"name": "x", "trigger": "message.received", "trigger_config": app.Map{"keywords": []string{"stop"}, "line_ids": []string{a.Sandbox.ID, a.Lines[0].ID}, "segment_id": missing, "nope": 1},
		"graph": graph([]string{"start a", "a b", "b a", "start c", "a gone"}, node("a", "label", app.Map{"add": []string{"vip"}}),
			node("b", "assign", app.Map{"user_id": missing}), node("c", "ai", app.Map{"agent_id": missing}), node("d", "assign", app.Map{"team_id": missing}),
			node("d", "send", app.Map{"body": "{{nick}}", "pool_id": "pool_none"})),
	}).Is(201).Text("id")
	a.Live.Post("/v1/workflows/"+id+"/publish", nil).Refused(400, "validation_failed",
		"body /trigger_config/keywords/0 config_invalid", "body /trigger_config/nope config_invalid", "body /trigger_config/line_ids/0 reference_missing",
		"body /trigger_config/segment_id reference_missing", "body /graph/nodes/1/config/add/0 reference_missing",
		"body /graph/nodes/2/config/user_id reference_missing", "body /graph/nodes/3/config/agent_id reference_missing",
		"body /graph/nodes/4/config/team_id reference_missing", "body /graph/nodes/5 node_duplicate", "body /graph/nodes/5/config/body config_invalid",
		"body /graph/nodes/5/config/pool_id reference_missing", "body /graph/edges/2 loop", "body /graph/edges/3 edge_label",
		"body /graph/edges/4/to edge_unknown_node", "body /graph/edges/4 edge_label", "body /graph/nodes/4 unreachable")
	require.Equal(t, "draft", a.Live.Get("/v1/workflows/"+id).Text("status"))
}

func TestTheTokenOfAWebhookTriggerIsMadeAtPublishAndKeptOverVersions(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	id := a.Live.Post("/v1/workflows", app.Map{"name": "x", "trigger": "webhook", "graph": graph(nil)}).Is(201).Text("id")
	path := "/v1/workflows/" + id
	require.Nil(t, a.Live.Get(path).At("trigger_config.token"))
	token := a.Live.Post(path+"/publish", nil).Is(200).Text("trigger_config.token")
	require.NotEmpty(t, token)
	changed := patch2(a, path, app.Map{"trigger_config": app.Map{"token": "mine", "create_contact": true}}).Is(200)
	require.Equal(t, app.Map{"token": token, "create_contact": true}, changed.At("trigger_config"))
	require.Equal(t, token, a.Live.Post(path+"/publish", nil).Is(200).Text("trigger_config.token"))
	require.Nil(t, patch2(a, path, app.Map{"trigger": "contact.created"}).Is(200).At("trigger_config.token"))
	var stored int
	a.QueryRow(`select count(*) from ledger_events where data::text like '%' || $1 || '%'`, []any{token}, &stored)
	require.Zero(t, stored, "the token is stored nowhere")
}

func TestOnlyTheFormOfADraftIsCheckedWhenItIsEdited(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	create := func(changes app.Map) app.Answer {
		body := app.Map{"name": "x", "trigger": "schedule"}
		for name, value := range changes {
			body[name] = value
		}
		return a.Live.Post("/v1/workflows", body)
	}
	create(app.Map{"trigger_config": app.Map{"any": "thing"}, "graph": graph([]string{"a b"}, node("a", "send", app.Map{"x": 1}), node("a", "wait", app.Map{}))}).Is(201)
	create(app.Map{"name": " "}).Refused(400, "validation_failed", "body /name required")
	create(app.Map{"name": wide(121)}).Refused(400, "validation_failed", "body /name too_long")
	create(app.Map{"trigger": "mail"}).Refused(400, "validation_failed", "body /trigger invalid_value")
	create(app.Map{"graph": app.Map{"nodes": []any{}}}).Refused(400, "validation_failed", "body /graph/edges required")
	create(app.Map{"graph": graph(nil, node("a", "dance", app.Map{}))}).Refused(400, "validation_failed", "body /graph/nodes/1/type invalid_value")
	create(app.Map{"graph": graph(nil, node(wide(65), "send", app.Map{}))}).Refused(400, "validation_failed", "body /graph/nodes/1/id too_long")
	nodes := make([]app.Map, 200)
	for i := range nodes {
		nodes[i] = node("a", "send", app.Map{})
	}
	create(app.Map{"graph": graph(nil, nodes...)}).Refused(400, "validation_failed", "body /graph/nodes too_many_items")
}

func TestWorkflowsAreListedByTheirLastChangeAndPaged(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	var ids []any
	for _, name := range []string{"one", "two", "three"} {
		ids = append(ids, a.Live.Post("/v1/workflows", app.Map{"name": name, "trigger": "contact.created", "graph": graph(nil)}).Is(201).Text("id"))
		a.Advance(time.Second)
	}
	a.Live.Post(fmt.Sprintf("/v1/workflows/%s/publish", ids[0]), nil).Is(200)
	require.Equal(t, []any{ids[0], ids[2], ids[1]}, a.Live.Get("/v1/workflows").Is(200).Column("id"))
	require.Equal(t, []any{ids[0]}, a.Live.Get("/v1/workflows?status=live").Is(200).Column("id"))
	require.Equal(t, []any{ids[2], ids[1]}, a.Live.Get("/v1/workflows?status=draft").Is(200).Column("id"))
	page := a.Live.Get("/v1/workflows?limit=2").Is(200)
	require.Equal(t, []any{ids[0], ids[2]}, page.Column("id"))
	next := page.Text("next_cursor")
	last := a.Live.Get("/v1/workflows?limit=2&cursor=" + next).Is(200)
	require.Equal(t, []any{ids[1]}, last.Column("id"))
	require.Nil(t, last.At("next_cursor"))
	a.Live.Get("/v1/workflows?status=live&cursor="+next).Refused(400, "validation_failed", "query /cursor invalid_cursor")
	require.Empty(t, a.NewWorkspace("Second").Live.Get("/v1/workflows").Is(200).Data())
	for _, role := range []organisation.Role{organisation.Agent, organisation.Analyst} {
		require.Len(t, a.Sessions[role].Get("/v1/workflows").Is(200).Data(), 3)
		a.Sessions[role].Post("/v1/workflows", app.Map{"name": "x", "trigger": "webhook"}).Refused(403, "forbidden")
	}
	a.Test.Post("/v1/workflows", app.Map{"name": "x", "trigger": "webhook"}).Refused(403, "forbidden")
}

func TestEditsAndMovesOfWorkflowsAreInTheAuditLog(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	id := a.Live.Post("/v1/workflows", app.Map{"name": "x", "trigger": "contact.created", "graph": graph(nil)}).Is(201).Text("id")
	path := "/v1/workflows/" + id
	a.Live.Post(path+"/publish", nil).Is(200)
	for _, body := range []app.Map{{"name": "y"}, {"status": "paused"}, {"status": "live"}, {"status": "archived"}} {
		patch2(a, path, body).Is(200)
	}
	log := a.Sessions[organisation.Owner].Get("/v1/audit-log?target_type=workflow&target_id=" + id).Is(200)
	require.Equal(t, []any{"workflow.archived", "workflow.resumed", "workflow.paused", "workflow.edited", "workflow.published", "workflow.created"}, log.Column("type"))
	require.Equal(t, app.Map{"name": "y"}, log.At("data.3.changes"))
}

func TestWritesOfWorkflowsAreIdempotent(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	body := app.Map{"name": "x", "trigger": "contact.created", "graph": graph(nil)}
	first := a.Live.IdempotencyKey("one").Post("/v1/workflows", body).Is(201)
	again := a.Live.IdempotencyKey("one").Post("/v1/workflows", body).Is(201)
	require.Equal(t, first.JSON(), again.JSON())
	require.Equal(t, "true", again.Header.Get("idempotent-replayed"))
	require.Len(t, a.Live.Get("/v1/workflows").Data(), 1)
}
