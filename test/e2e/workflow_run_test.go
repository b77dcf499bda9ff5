package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/organisation"
	"ledgerline/projections"
	"ledgerline/projections/readmodel"
	"ledgerline/test/app"
)

// runsOf lists the runs of a workspace, newest first.
func runsOf(w *app.Workspace, query string) []app.Map {
	return w.Live.Get("/v1/workflow-runs" + query).Data()
}

// stepsOf lists the steps of a run as "node status".
func stepsOf(run app.Map) []string {
	var list []string
	steps, _ := run["steps"].([]any)
	for _, s := range steps {
		step, _ := s.(app.Map)
		list = append(list, text(step, "node_id")+" "+text(step, "status"))
	}
	return list
}

// detail returns the detail of a step of a run.
func detail(run app.Map, number int) app.Map {
	steps, _ := run["steps"].([]any)
	step, _ := steps[number].(app.Map)
	found, _ := step["detail"].(app.Map)
	return found
}

func outbound(w *app.Workspace) []any {
	return w.Live.Get("/v1/messages?direction=outbound").Is(200).Column("body")
}

func TestAKeywordStartsARunThatSendsWaitsBranchesAndAssigns(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards)
		a.Live.Post("/v1/labels", app.Map{"name": "vip"}).Is(201)
		agent := a.Users[organisation.Agent].String()
		id := workflowOf(a.Workspace, "message.received", app.Map{"keywords": []string{"join"}}, graph(
			[]string{"start hi", "hi ask", "ask yes replied", "ask nudge timeout", "yes tag true", "tag give", "give tell"},
			node("hi", "send", app.Map{"body": "Hi {{first_name|there}}, shall we call you?"}), node("ask", "wait", app.Map{"until_reply": app.Map{"timeout": "P1D"}}),
			node("yes", "condition", app.Map{"definition": leaf("message.body", "contains", "yes")}), node("tag", "label", app.Map{"add": []string{"vip"}}),
			node("give", "assign", app.Map{"user_id": agent}), node("tell", "webhook", app.Map{"name": "joined", "data": app.Map{"a": 1}}),
			node("nudge", "send", app.Map{"body": "Still there?"})))
		phone := a.Phone()
		a.Inbound(phone, a.Lines[0].Phone, "hello")
		a.Settle()
		require.Empty(t, runsOf(a.Workspace, ""), "no keyword")
		a.Inbound(phone, a.Lines[0].Phone, "Join!")
		a.Settle()
		waiting := runsOf(a.Workspace, "")
		require.Len(t, waiting, 1)
		require.Equal(t, []string{"start completed", "hi completed", "ask waiting"}, stepsOf(waiting[0]))
		require.Equal(t, []any{"waiting", id, 1.0, stamp(24 * time.Hour)}, []any{waiting[0]["status"], waiting[0]["workflow_id"], waiting[0]["version"], waiting[0]["resume_at"]})
		require.Equal(t, app.Map{"resume_at": stamp(24 * time.Hour), "outcome": nil}, detail(waiting[0], 2))
		require.Equal(t, app.Map{"trigger": "message.received"}, detail(waiting[0], 0))
		require.Equal(t, []any{"Hi there, shall we call you?"}, outbound(a.Workspace))
		message := a.Live.Get("/v1/messages?direction=outbound").Data()[0]
		require.Equal(t, []any{"workflow", detail(waiting[0], 1)["message_id"]}, []any{message["source"], message["id"]})
		conversation := func() app.Map { return a.Live.Get("/v1/conversations").Data()[0] }
		require.Equal(t, "workflow:"+text(waiting[0], "id"), conversation()["handled_by"])

		a.Inbound(phone, a.Lines[0].Phone, "join")
		a.Settle()
		require.Len(t, runsOf(a.Workspace, ""), 1, "one active run for a workflow and a contact; the message is a reply")
		done := a.Live.Get("/v1/workflow-runs/" + text(waiting[0], "id")).Is(200).JSON()
		require.Equal(t, []string{"start completed", "hi completed", "ask completed", "yes completed"}, stepsOf(done))
		require.Equal(t, []any{"completed", nil, nil, stamp(0)}, []any{done["status"], done["error_code"], done["resume_at"], done["finished_at"]})
		require.Equal(t, app.Map{"result": false}, detail(done, 3))
		require.Equal(t, "team", conversation()["handled_by"], "until the run ends")

		a.Advance(time.Second) // so that the list has an order
		a.Inbound(phone, a.Lines[0].Phone, "join")
		a.Settle()
		a.Inbound(phone, a.Lines[0].Phone, "Yes please")
		a.Settle()
		second := runsOf(a.Workspace, "?status=completed&limit=1")[0]
		require.Equal(t, []string{"start completed", "hi completed", "ask completed", "yes completed", "tag completed", "give completed", "tell completed"}, stepsOf(second))
		require.Equal(t, "replied", detail(second, 2)["outcome"])
		require.Contains(t, detail(second, 6)["event_id"], "evt_")
		require.Equal(t, []any{agent, "team", []any{"vip"}}, []any{conversation()["assignee_user_id"], conversation()["handled_by"], conversation()["labels"]})
		require.Equal(t, app.Map{"completed": 2.0, "failed": 0.0, "total": 2.0}, a.Live.Get("/v1/workflows/"+id).At("runs_30d"))

		a.Advance(time.Second) // so that the list has an order
		a.Inbound(phone, a.Lines[0].Phone, "join")
		a.Settle()
		a.Advance(24 * time.Hour)
		third := runsOf(a.Workspace, "?contact_id="+text(object(conversation()["contact"]), "id"))[0]
		require.Equal(t, []string{"start completed", "hi completed", "ask completed", "nudge completed"}, stepsOf(third))
		require.Equal(t, "timeout", detail(third, 2)["outcome"])
		a.Advance(time.Second) // so that the list has an order
		a.Inbound(phone, a.Lines[0].Phone, "join")
		a.Settle()
		a.Inbound(phone, a.Lines[0].Phone, "yes")
		a.Settle()
		last := runsOf(a.Workspace, "?workflow_id="+id)[0]
		require.Equal(t, []string{"start completed", "hi completed", "ask completed", "yes completed", "tag skipped", "give skipped", "tell completed"}, stepsOf(last),
			"label and assign that change nothing are skipped")
	})
}

func TestAWorkflowStartsForEveryNewContactButNotForTestTrafficAndOptedOutContacts(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	a.Live.Post("/v1/labels", app.Map{"name": "vip"}).Is(201)
	workflowOf(a.Workspace, "contact.created", app.Map{}, graph([]string{"start pause"}, node("pause", "wait", app.Map{"duration": "P1D"})))
	vip := workflowOf(a.Workspace, "contact.created", app.Map{"labels": []string{"vip"}}, graph(nil))
	create := func(body app.Map) string {
		body["phone"] = a.Phone()
		return a.Live.Post("/v1/contacts", body).Is(201).Text("id")
	}
	contact := create(app.Map{"labels": []string{"vip"}})
	a.Live.Post("/v1/messages", app.Map{"to": a.Phone(), "body": "x"}).Is(201)
	a.Inbound(a.Phone(), a.Lines[0].Phone, "hello")
	a.Test.Post("/v1/messages", app.Map{"to": a.SandboxNumber(0), "body": "x"}).Is(201)
	optedOut := a.Phone()
	a.Inbound(optedOut, a.Lines[0].Phone, "STOP")
	a.Settle()
	require.Len(t, runsOf(a.Workspace, "?status=waiting"), 3, "by a request, a message and an unknown number that writes")
	require.Len(t, runsOf(a.Workspace, "?workflow_id="+vip), 1)
	require.Equal(t, contact, runsOf(a.Workspace, "?workflow_id="+vip)[0]["contact_id"])
}

func TestPausingHoldsRunsAndDropsTriggersAndArchivingCancelsThem(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	id := workflowOf(a.Workspace, "message.received", app.Map{}, graph([]string{"start pause", "pause bye"},
		node("pause", "wait", app.Map{"duration": "PT1H"}), node("bye", "send", app.Map{"body": "bye"})))
	path, one, two := "/v1/workflows/"+id, a.Phone(), a.Phone()
	a.Inbound(one, a.Lines[0].Phone, "hello")
	a.Settle()
	patch2(a, path, app.Map{"status": "paused"}).Is(200)
	a.Inbound(two, a.Lines[0].Phone, "hello")
	a.Settle()
	a.Advance(2 * time.Hour)
	require.Equal(t, []any{"waiting"}, a.Live.Get("/v1/workflow-runs").Column("status"), "held where it is, and the trigger is dropped")
	patch2(a, path, app.Map{"status": "live"}).Is(200)
	a.Settle()
	require.Equal(t, []any{"completed"}, a.Live.Get("/v1/workflow-runs").Column("status"), "what is overdue goes on at once")
	require.Equal(t, []any{"bye"}, outbound(a.Workspace))
	a.Inbound(two, a.Lines[0].Phone, "hello")
	a.Settle()
	patch2(a, path, app.Map{"status": "archived"}).Is(200)
	a.Settle()
	cancelled := runsOf(a.Workspace, "?status=cancelled")
	require.Len(t, cancelled, 1)
	require.Equal(t, "workflow_archived", cancelled[0]["error_code"])
	require.Equal(t, []string{"start completed", "pause waiting"}, stepsOf(cancelled[0]), "a cancelled run leaves its step waiting")
}

func TestAnOptOutAndAnErasureCancelRunsAndNoPersonalDataIsLeft(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	workflowOf(a.Workspace, "message.received", app.Map{}, graph([]string{"start pause", "pause bye"},
		node("pause", "wait", app.Map{"duration": "PT1H"}), node("bye", "send", app.Map{"body": "bye"})))
	stopped, erased := a.Phone(), a.Phone()
	for _, phone := range []string{stopped, erased} {
		a.Inbound(phone, a.Lines[0].Phone, "hello")
	}
	a.Settle()
	a.Inbound(stopped, a.Lines[0].Phone, "stop")
	contact := text(a.Live.Get("/v1/contacts?phone=%2B" + erased[1:]).Data()[0], "id")
	a.Live.Delete("/v1/contacts/" + contact).Is(200)
	a.Settle()
	require.ElementsMatch(t, []any{"contact_opted_out", "contact_deleted"}, a.Live.Get("/v1/workflow-runs?status=cancelled").Column("error_code"))
	require.Empty(t, runsOf(a.Workspace, "?contact_id="+contact))
	require.Contains(t, a.Live.Get("/v1/workflow-runs").Column("contact_id"), nil, "contact_id is null after erasure")
	a.Advance(2 * time.Hour)
	require.NotContains(t, outbound(a.Workspace), "bye", "nothing is sent after an opt-out or an erasure")

	before := a.Live.Get("/v1/workflow-runs").Raw
	node := a.Nodes[0]
	_, err := readmodel.Replay(t.Context(), node.Ledger, projections.Runs, func(int64, int64) {})
	require.NoError(t, err)
	require.JSONEq(t, string(before), string(a.Live.Get("/v1/workflow-runs").Raw), "the same after a replay")
}

func TestARefusedStepFailsTheRunWithItsCode(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	send := func(body string) string {
		return workflowOf(a.Workspace, "message.received", app.Map{"keywords": []string{"go"}}, graph([]string{"start hi"}, node("hi", "send", app.Map{"body": body})))
	}
	template := send("Hi {{first_name}}")
	a.Live.Post("/v1/labels", app.Map{"name": "vip"}).Is(201)
	labelled := workflowOf(a.Workspace, "message.received", app.Map{"keywords": []string{"go"}}, graph([]string{"start tag"}, node("tag", "label", app.Map{"add": []string{"vip"}})))
	a.Live.Delete("/v1/labels/" + text(a.Live.Get("/v1/labels").Data()[0], "id")).Is(200)
	a.Inbound(a.Phone(), a.Lines[0].Phone, "go")
	a.Settle()
	for id, code := range map[string]string{template: "template_missing", labelled: "reference_missing"} {
		run := runsOf(a.Workspace, "?workflow_id="+id)[0]
		require.Equal(t, []any{"failed", code}, []any{run["status"], run["error_code"]})
		require.Equal(t, app.Map{"code": code}, detail(run, 1))
	}
	require.Empty(t, outbound(a.Workspace))
}

func TestAScheduleStartsOneRunForEachContactOfTheSegment(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	for _, name := range []string{"Ada", "Grace", "Linus"} {
		a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone(), "first_name": name}).Is(201)
	}
	segment := a.Live.Post("/v1/segments", app.Map{"name": "A", "definition": leaf("first_name", "ne", "Linus")}).Is(201).Text("id")
	id := workflowOf(a.Workspace, "schedule", app.Map{"cron": "0 * * * *", "segment_id": segment}, graph([]string{"start hi"}, node("hi", "send", app.Map{"body": "Hi {{first_name}}"})))
	a.Settle()
	require.Empty(t, runsOf(a.Workspace, ""))
	a.Advance(time.Hour)
	require.ElementsMatch(t, []any{"Hi Ada", "Hi Grace"}, outbound(a.Workspace))
	require.Len(t, runsOf(a.Workspace, "?workflow_id="+id), 2)
	a.Advance(5 * time.Hour)
	require.Len(t, runsOf(a.Workspace, ""), 4, "a jump over several times gives one run")
	patch2(a, "/v1/workflows/"+id, app.Map{"status": "paused"}).Is(200)
	a.Advance(2 * time.Hour)
	require.Len(t, runsOf(a.Workspace, ""), 4, "times are dropped while it is paused")
}
