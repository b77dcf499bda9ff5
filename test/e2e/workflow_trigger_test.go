package e2e_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/test/app"
)

// triggerOf publishes a workflow with a webhook trigger, and returns its id and the path that fires it.
func triggerOf(w *app.Workspace, config, g app.Map) (id, path string) {
	id = workflowOf(w, "webhook", config, g)
	return id, "/v1/workflow-triggers/" + w.Live.Get("/v1/workflows/"+id).Is(200).Text("trigger_config.token")
}

// waits is a graph whose runs wait for a day.
func waits() app.Map {
	return graph([]string{"start pause"}, node("pause", "wait", app.Map{"duration": "P1D"}))
}

func TestAPostToAWebhookTriggerStartsARunWithItsDataAndNeedsNoOtherCredential(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards)
		phone := a.Phone()
		a.Live.Post("/v1/contacts", app.Map{"phone": phone, "first_name": "Ada"}).Is(201)
		_, path := triggerOf(a.Workspace, app.Map{"phone_path": "/customer/phone"}, graph([]string{"start hi"},
			node("hi", "send", app.Map{"body": "{{first_name}}: {{trigger.order/id}} {{trigger.order/total}} {{trigger.order/paid}} {{ trigger.order/lines | no lines }}{{trigger.gone|}}"})))
		data := app.Map{"customer": app.Map{"phone": phone}, "order": app.Map{"id": "A-1", "total": 12.5, "paid": true, "lines": []int{1}}}
		run := a.Anonymous().Post(path, data).Is(202).Text("run_id")
		a.Settle()
		require.Equal(t, []any{"Ada: A-1 12.5 true no lines"}, outbound(a.Workspace))
		shown := a.Live.Get("/v1/workflow-runs/" + run).Is(200).JSON()
		require.Equal(t, []any{"completed", app.Map{"trigger": "webhook"}}, []any{shown["status"], detail(shown, 0)})
		a.Anonymous().Header("authorization", "Bearer nonsense").Header("x-workspace-id", "nonsense").Post(path, data).Is(202)
	})
}

func TestAPostWithoutAKnownNumberIsRefusedUnlessTheTriggerMakesContacts(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	created := workflowOf(a.Workspace, "contact.created", app.Map{}, waits())
	_, path := triggerOf(a.Workspace, app.Map{}, waits())
	_, making := triggerOf(a.Workspace, app.Map{"create_contact": true}, waits())
	post := a.Anonymous().Post
	post(path, app.Map{}).Refused(400, "validation_failed", "body /phone required")
	post(path, app.Map{"phone": 14157770001}).Refused(400, "validation_failed", "body /phone invalid_type")
	post(path, app.Map{"phone": "abc"}).Refused(400, "validation_failed", "body /phone invalid_phone")
	post(path, app.Map{"phone": a.Phone()}).Refused(400, "validation_failed", "body /phone unknown_contact")
	post(path, []any{}).Refused(400, "validation_failed", "body  invalid_type")
	post(path, nil).Refused(400, "validation_failed", "body  required")
	phone := a.Phone()
	require.NotEmpty(t, post(making, app.Map{"phone": phone}).Is(202).Text("run_id"))
	require.Len(t, a.Live.Get("/v1/contacts?phone=%2B"+phone[1:]).Data(), 1)
	a.Settle()
	require.Len(t, runsOf(a.Workspace, "?workflow_id="+created), 1, "contact.created fires for it")
}

func TestTokensThatAreUnknownOrOfArchivedWorkflowsAreNotFoundAndPausedOnesConflict(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	phone := a.Phone()
	a.Live.Post("/v1/contacts", app.Map{"phone": phone}).Is(201)
	body := app.Map{"phone": phone}
	id, path := triggerOf(a.Workspace, app.Map{}, waits())
	post := func(path string) app.Answer { return a.Anonymous().Post(path, body) }
	post("/v1/workflow-triggers/none").Refused(404, "not_found")
	post(path[:len(path)-1]+"!").Refused(404, "not_found")
	patch2(a, "/v1/workflows/"+id, app.Map{"status": "paused"}).Is(200)
	post(path).Refused(409, "conflict")
	patch2(a, "/v1/workflows/"+id, app.Map{"status": "live", "trigger": "contact.created"}).Is(200)
	require.NotEmpty(t, post(path).Is(202).Text("run_id"), "the live version still has the trigger")
	a.Live.Post("/v1/workflows/"+id+"/publish", nil).Is(200)
	post(path).Refused(404, "not_found")
	archived, other := triggerOf(a.Workspace, app.Map{}, waits())
	patch2(a, "/v1/workflows/"+archived, app.Map{"status": "archived"}).Is(200)
	post(other).Refused(404, "not_found")
}

func TestAPostStartsNothingForOptedOutContactsAndWhereARunIsActive(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	_, path := triggerOf(a.Workspace, app.Map{"create_contact": true}, waits())
	phone, stopped := a.Phone(), a.Phone()
	post := func(phone string) app.Answer { return a.Anonymous().Post(path, app.Map{"phone": phone}).Is(202) }
	require.NotEmpty(t, post(phone).Text("run_id"))
	require.Equal(t, app.Map{"run_id": nil}, post(phone).JSON(), "a run is active")
	a.Inbound(stopped, a.Lines[0].Phone, "STOP")
	require.Equal(t, app.Map{"run_id": nil}, post(stopped).JSON(), "opted out")
	sandbox := a.SandboxNumber(0)
	a.Test.Post("/v1/contacts", app.Map{"phone": sandbox}).Is(201)
	require.Equal(t, app.Map{"run_id": nil}, post(sandbox).JSON(), "test traffic")
	busy := a.Phone()
	for range 20 {
		_, other := triggerOf(a.Workspace, app.Map{"create_contact": true}, waits())
		require.NotEmpty(t, a.Anonymous().Post(other, app.Map{"phone": busy}).Is(202).Text("run_id"))
	}
	require.Equal(t, app.Map{"run_id": nil}, a.Anonymous().IdempotencyKey("x").Post(path, app.Map{"phone": busy}).Is(202).JSON(), "20 active runs")
	a.Settle()
	a.Advance(24 * time.Hour)
	require.NotEmpty(t, post(phone).Text("run_id"), "its run has ended")
}

func TestIdempotencyKeysOfPostsBelongToTheToken(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	_, one := triggerOf(a.Workspace, app.Map{"create_contact": true}, graph(nil))
	_, two := triggerOf(a.Workspace, app.Map{"create_contact": true}, graph(nil))
	client, body := a.Anonymous().IdempotencyKey("order-1"), app.Map{"phone": a.Phone()}
	first := client.Post(one, body).Is(202)
	again := client.Post(one, body).Is(202)
	require.Equal(t, first.JSON(), again.JSON())
	require.Equal(t, "true", again.Header.Get("idempotent-replayed"))
	client.Post(one, app.Map{"phone": a.Phone()}).Refused(409, "idempotency_conflict")
	require.NotEqual(t, first.Text("run_id"), client.Post(two, body).Is(202).Text("run_id"), "another token, another key")
	a.Live.IdempotencyKey("order-1").Post("/v1/labels", app.Map{"name": "vip"}).Is(201)
	for _, prefix := range []string{"outreach:", "workflow:", "agent:"} {
		a.Anonymous().IdempotencyKey(prefix+"x").Post(one, body).Refused(400, "validation_failed", "header /idempotency-key reserved")
	}
	a.Settle()
	require.Len(t, runsOf(a.Workspace, ""), 2)
}

func TestAPostMayHave256KiBAndATokenTakesTenASecond(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.RateLimits())
	_, path := triggerOf(a.Workspace, app.Map{"create_contact": true}, graph(nil))
	sized := func(n int) string {
		head, tail := `{"phone":"`+a.Phone()+`","note":"`, `"}`
		return head + strings.Repeat("x", n-len(head)-len(tail)) + tail
	}
	a.Anonymous().Post(path, sized(256<<10+1)).Refused(413, "payload_too_large")
	a.Anonymous().Post(path, sized(256<<10)).Is(202)
	limited := app.Answer{}
	for range 200 { // refused posts count, and the limit is in real time
		if limited = a.Anonymous().Post(path, app.Map{}); limited.Status == 429 {
			break
		}
		limited.Is(400)
	}
	limited.Refused(429, "rate_limited")
	require.NotEmpty(t, limited.Header.Get("retry-after"))
	require.Equal(t, "key", limited.At("error.details.limit"))
}

func TestAPausedOrganisationTakesNoPosts(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	_, path := triggerOf(a.Workspace, app.Map{"create_contact": true}, graph(nil))
	_, err := a.Nodes[0].App.PauseOrganisation(t.Context(), a.Operator(), "test")
	require.NoError(t, err)
	a.Anonymous().Post(path, app.Map{"phone": a.Phone()}).Refused(403, "org_paused")
}
