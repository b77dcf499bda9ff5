package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/line"
	"ledgerline/domain/organisation"
	"ledgerline/projections"
	"ledgerline/projections/readmodel"
	"ledgerline/test/app"
	"ledgerline/test/sink"
)

// onMessage publishes a workflow that every message starts.
func onMessage(w *app.Workspace, config, g app.Map) string {
	return workflowOf(w, "message.received", config, g)
}

func TestStopHelpAndStartWordsStartNoRunAndNeitherDoAutomaticTexts(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	onMessage(a.Workspace, app.Map{}, graph(nil))
	phone := a.Phone()
	for _, word := range []string{"HELP", "info!", "Stop", "yes", "stop", "START", "unstop"} { // yes is a START word while opted out
		a.Inbound(phone, a.Lines[0].Phone, word)
		a.Settle()
		require.Empty(t, runsOf(a.Workspace, ""), word)
	}
	require.NotEmpty(t, outbound(a.Workspace), "automatic texts were sent")
	a.Inbound(phone, a.Lines[0].Phone, "yes")
	a.Settle()
	require.Len(t, runsOf(a.Workspace, ""), 1, "from anybody else it is a message")
}

func TestAContactThatIsImportedUpsertedOrPostedFiresContactCreatedOnce(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	id := workflowOf(a.Workspace, "contact.created", app.Map{}, graph(nil))
	imported, upserted := a.Phone(), a.Phone()
	a.Live.Post("/v1/contacts/import", app.Map{"csv": "phone,consent\n" + imported + ",\n" + a.Phone() + ",opted_out\n", "mapping": app.Map{"phone": "phone", "consent": "consent_status"}, "consent_source": "form"}).Is(202)
	use(a.Live, "upsert_contact", app.Map{"phone": upserted}).Is(200)
	use(a.Live, "upsert_contact", app.Map{"phone": upserted, "first_name": "Ada"}).Is(200)
	a.Settle()
	require.Len(t, runsOf(a.Workspace, "?workflow_id="+id), 2, "the opted-out row starts nothing")
}

func TestAMessageTriggerFitsLinesPoolsSegmentsAndTheFirstMessage(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	segment := a.Live.Post("/v1/segments", app.Map{"name": "Ada", "definition": leaf("first_name", "eq", "Ada")}).Is(201).Text("id")
	empty := a.Live.Post("/v1/pools", app.Map{"name": "empty"}).Is(201).Text("id")
	ids := map[string]string{}
	for name, config := range map[string]app.Map{
		"line": {"line_ids": []string{a.Lines[1].ID}}, "pool": {"pool_ids": []string{a.PoolID}}, "no pool": {"pool_ids": []string{empty}},
		"segment": {"segment_id": segment}, "first": {"first_message_only": true}, "contains": {"keywords": []string{"call me"}, "match": "contains"},
	} {
		ids[onMessage(a.Workspace, config, graph(nil))] = name
	}
	fired := func(contact string) map[string]int {
		count := map[string]int{}
		for _, run := range runsOf(a.Workspace, "?limit=100&contact_id="+contact) {
			count[ids[text(run, "workflow_id")]]++
		}
		return count
	}
	phone := a.Phone()
	contact := a.Live.Post("/v1/contacts", app.Map{"phone": phone, "first_name": "Ada"}).Is(201).Text("id")
	a.Inbound(phone, a.Lines[0].Phone, "hello")
	a.Settle()
	inPool := 0
	for _, l := range a.Live.Get("/v1/lines").Data() {
		if l["pool_id"] == a.PoolID && l["id"] == a.Lines[0].ID {
			inPool = 1
		}
	}
	want := map[string]int{"segment": 1, "first": 1}
	if inPool == 1 {
		want["pool"] = 1
	}
	require.Equal(t, want, fired(contact))
	a.Inbound(phone, a.Lines[1].Phone, "please CALL me, now")
	a.Settle()
	require.Equal(t, []int{1, 2, 1, 1}, []int{fired(contact)["line"], fired(contact)["segment"], fired(contact)["first"], fired(contact)["contains"]})
}

func TestARunStaysOnItsVersionAndRuns30dRolls(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	id := onMessage(a.Workspace, app.Map{}, graph([]string{"start pause", "pause old"}, node("pause", "wait", app.Map{"duration": "PT1H"}), node("old", "send", app.Map{"body": "old"})))
	a.Inbound(a.Phone(), a.Lines[0].Phone, "hello")
	a.Settle()
	path := "/v1/workflows/" + id
	patch2(a, path, app.Map{"graph": graph([]string{"start new"}, node("new", "send", app.Map{"body": "new"}))}).Is(200)
	a.Live.Post(path+"/publish", nil).Is(200)
	a.Advance(time.Hour)
	a.Inbound(a.Phone(), a.Lines[0].Phone, "hello")
	a.Settle()
	require.ElementsMatch(t, []any{"old", "new"}, outbound(a.Workspace))
	require.ElementsMatch(t, []any{1.0, 2.0}, a.Live.Get("/v1/workflow-runs").Column("version"))
	require.InDelta(t, 2, a.Live.Get(path).At("runs_30d.total"), 0)
	a.Advance(30*24*time.Hour - 30*time.Minute)
	require.InDelta(t, 1, a.Live.Get(path).At("runs_30d.total"), 0, "30 times 24 hours, by started_at")
}

func TestAReplyWhilePausedCountsOnResumeAndHelpIsAReply(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	id := onMessage(a.Workspace, app.Map{"keywords": []string{"join"}}, graph([]string{"start ask"}, node("ask", "wait", app.Map{"until_reply": app.Map{"timeout": "PT1H"}})))
	paused, helped := a.Phone(), a.Phone()
	for _, phone := range []string{paused, helped} {
		a.Inbound(phone, a.Lines[0].Phone, "join")
	}
	a.Settle()
	a.Inbound(helped, a.Lines[0].Phone, "HELP")
	a.Settle()
	require.Len(t, runsOf(a.Workspace, "?status=completed"), 1)
	patch2(a, "/v1/workflows/"+id, app.Map{"status": "paused"}).Is(200)
	a.Inbound(paused, a.Lines[0].Phone, "hello")
	a.Advance(2 * time.Hour)
	require.Len(t, runsOf(a.Workspace, "?status=waiting"), 1)
	patch2(a, "/v1/workflows/"+id, app.Map{"status": "live"}).Is(200)
	a.Settle()
	for _, run := range runsOf(a.Workspace, "?status=completed") {
		require.Equal(t, "replied", detail(run, 1)["outcome"])
	}
	require.Empty(t, runsOf(a.Workspace, "?status=waiting"))
}

func TestAssignMakesAConversationAndEndsTheRunAsHandler(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	s := sink.Start(t)
	a.Live.Post("/v1/webhooks", app.Map{"url": s.URL, "events": []string{"conversation.assigned", "workflow.run.completed", "workflow.webhook"}}).Is(201)
	team, err := a.Nodes[0].App.CreateTeam(t.Context(), a.Operator(), "Support")
	require.NoError(t, err)
	user := a.Users[organisation.Manager].String()
	_, path := triggerOf(a.Workspace, app.Map{"create_contact": true}, graph([]string{"start one", "one two", "two again", "again tell", "tell none", "none nobody"},
		node("one", "assign", app.Map{"team_id": team.Ref}), node("two", "assign", app.Map{"user_id": user}), node("again", "assign", app.Map{"user_id": user}),
		node("tell", "webhook", app.Map{"name": "done", "data": app.Map{"a": []int{1}}}),
		node("none", "assign", app.Map{"unassign": true}), node("nobody", "assign", app.Map{"unassign": true})))
	phone := a.Phone()
	run := a.Anonymous().Post(path, app.Map{"phone": phone}).Is(202).Text("run_id")
	a.Settle()
	shown := a.Live.Get("/v1/workflow-runs/" + run).Is(200).JSON()
	require.Equal(t, []string{"start completed", "one completed", "two completed", "again skipped", "tell completed", "none completed", "nobody skipped"}, stepsOf(shown))
	conversation := a.Live.Get("/v1/conversations").Data()[0]
	require.Equal(t, []any{nil, nil, "team"}, []any{conversation["assignee_user_id"], conversation["team_id"], conversation["handled_by"]})
	kinds := map[string]int{}
	for _, r := range s.Requests() {
		body := r.JSON(t)
		kinds[text(body, "type")]++
		switch text(body, "type") {
		case "workflow.webhook":
			data := object(body["data"])
			require.Equal(t, []any{"done", app.Map{"a": []any{1.0}}, run, phone}, []any{data["name"], data["data"], data["run_id"], object(data["contact"])["phone"]})
			require.Equal(t, detail(shown, 4)["event_id"], body["id"])
		case "workflow.run.completed":
			require.Equal(t, shown, body["data"])
		}
	}
	require.Equal(t, 1, kinds["workflow.webhook"])
	require.Equal(t, 1, kinds["workflow.run.completed"])
	require.Positive(t, kinds["conversation.assigned"])
}

func TestARunHandlesTheConversationUntilAPersonTakesOver(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	onMessage(a.Workspace, app.Map{}, graph([]string{"start hi", "hi pause", "pause bye"}, node("hi", "send", app.Map{"body": "hi"}), node("pause", "wait", app.Map{"duration": "PT1H"}), node("bye", "send", app.Map{"body": "bye"})))
	handler := func(talk string) any { return a.Live.Get("/v1/conversations/" + talk).At("handled_by") }
	begin := func() string {
		phone := a.Phone()
		a.Inbound(phone, a.Lines[0].Phone, "hello")
		a.Settle()
		contact := text(a.Live.Get("/v1/contacts?phone=%2B" + phone[1:]).Data()[0], "id")
		for _, talk := range a.Live.Get("/v1/conversations").Data() {
			if text(object(talk["contact"]), "id") == contact {
				require.Contains(t, text(talk, "handled_by"), "workflow:")
				return text(talk, "id")
			}
		}
		t.Fatal("no conversation")
		return ""
	}
	replied, assigned, patched := begin(), begin(), begin()
	a.Sessions[organisation.Manager].Post("/v1/conversations/"+replied+"/messages", app.Map{"body": "I am here"}).Is(201)
	patch2(a, "/v1/conversations/"+assigned, app.Map{"assignee_user_id": a.Users[organisation.Agent].String()}).Is(200)
	patch2(a, "/v1/conversations/"+patched, app.Map{"handled_by": "team"}).Is(200)
	for _, talk := range []string{replied, assigned, patched} {
		require.Equal(t, "team", handler(talk))
	}
	a.Advance(time.Hour)
	for _, talk := range []string{replied, assigned, patched} {
		require.Equal(t, "team", handler(talk), "only the first send makes the run the handler")
	}
}

func TestRunsThatFailOrAreCancelledSendWorkflowRunCompletedToo(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	s := sink.Start(t)
	a.Live.Post("/v1/webhooks", app.Map{"url": s.URL, "events": []string{"workflow.run.completed"}}).Is(201)
	_, failing := triggerOf(a.Workspace, app.Map{"create_contact": true}, graph([]string{"start hi"}, node("hi", "send", app.Map{"body": "{{company}}"})))
	_, waiting := triggerOf(a.Workspace, app.Map{"create_contact": true}, waits())
	stopped, erased := a.Phone(), a.Phone()
	a.Anonymous().Post(failing, app.Map{"phone": a.Phone()}).Is(202)
	for _, phone := range []string{stopped, erased} {
		a.Anonymous().Post(waiting, app.Map{"phone": phone}).Is(202)
	}
	a.Settle()
	a.Inbound(stopped, a.Lines[0].Phone, "stop")
	a.Live.Delete("/v1/contacts/" + text(a.Live.Get("/v1/contacts?phone=%2B" + erased[1:]).Data()[0], "id")).Is(200)
	a.Settle()
	got := map[any]any{}
	for _, r := range s.Requests() {
		data := object(r.JSON(t)["data"])
		got[data["error_code"]] = data["status"]
	}
	require.Equal(t, map[any]any{"template_missing": "failed", "contact_opted_out": "cancelled", "contact_deleted": "cancelled"}, got)
}

func TestAStepWhoseReferenceIsGoneFailsAndConsentMayBeRequired(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	retired := a.AddLine()
	codes := map[string]string{}
	publish := func(code string, n app.Map) string {
		id, path := triggerOf(a.Workspace, app.Map{"create_contact": true}, graph([]string{"start it"}, n))
		codes[id] = code
		return path
	}
	team, err := a.Nodes[0].App.CreateTeam(t.Context(), a.Operator(), "Support")
	require.NoError(t, err)
	paths := []string{
		publish("reference_missing", node("it", "send", app.Map{"body": "x", "line_id": retired.ID})),
		publish("validation_failed", node("it", "send", app.Map{"body": "{{trigger.long}}"})),
		publish("", node("it", "assign", app.Map{"team_id": team.Ref})),
	}
	_, err = a.Nodes[0].App.ChangeLineState(t.Context(), a.Operator(), retired.ID, line.Retired, nil)
	require.NoError(t, err)
	for _, path := range paths {
		a.Anonymous().Post(path, app.Map{"phone": a.Phone(), "long": wide(2001)}).Is(202)
	}
	a.Settle()
	for id, code := range codes {
		run := runsOf(a.Workspace, "?workflow_id="+id)[0]
		if code == "" {
			require.Equal(t, "completed", run["status"])
			continue
		}
		require.Equal(t, []any{"failed", code}, []any{run["status"], run["error_code"]})
	}
}

func TestErasureLeavesNothingOfTheDataOfATriggerAndOfTheTextsOfItsRuns(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	s := sink.Start(t)
	a.Live.Post("/v1/webhooks", app.Map{"url": s.URL, "events": []string{"workflow.run.completed", "workflow.webhook", "message.status"}}).Is(201)
	_, path := triggerOf(a.Workspace, app.Map{"create_contact": true}, graph([]string{"start hi", "hi tell", "tell pause", "pause bye"},
		node("hi", "send", app.Map{"body": "Order {{trigger.order}}"}), node("tell", "webhook", app.Map{"name": "told"}),
		node("pause", "wait", app.Map{"duration": "PT1H"}), node("bye", "send", app.Map{"body": "{{trigger.note}}"})))
	phone := "+14157773299"
	a.Anonymous().IdempotencyKey("x").Post(path, app.Map{"phone": phone, "order": "walnut-desk-12", "note": "marzipan"}).Is(202)
	a.Settle()
	require.NotEmpty(t, places(t, a, "walnut-desk-12"), "the text is in the read model")
	a.Live.Delete("/v1/contacts/" + text(a.Live.Get("/v1/contacts?phone=%2B" + phone[1:]).Data()[0], "id")).Is(200)
	a.Settle()
	for _, secret := range []string{"4157773299", "walnut-desk-12", "marzipan"} {
		require.Empty(t, places(t, a, secret), secret)
	}
	_, err := readmodel.ReplayAll(t.Context(), a.Nodes[0].Ledger, projections.All(), nil)
	require.NoError(t, err)
	for _, secret := range []string{"4157773299", "walnut-desk-12", "marzipan"} {
		require.Empty(t, places(t, a, secret), secret)
	}
}

func TestAReplayGivesTheSameListsOfWorkflowsAndRuns(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards)
		id, path := triggerOf(a.Workspace, app.Map{"create_contact": true}, waits())
		onMessage(a.Workspace, app.Map{}, graph([]string{"start hi"}, node("hi", "send", app.Map{"body": "{{company|}}!"})))
		for range 3 {
			phone := a.Phone()
			a.Anonymous().Post(path, app.Map{"phone": phone}).Is(202)
			a.Inbound(phone, a.Lines[0].Phone, "hello")
			a.Settle()
			a.Advance(time.Minute)
		}
		patch2(a, "/v1/workflows/"+id, app.Map{"name": "renamed", "graph": graph(nil)}).Is(200)
		a.Advance(24 * time.Hour)
		look := func() (answers []string) {
			for _, path := range []string{"/v1/workflows", "/v1/workflows/" + id, "/v1/workflows/" + id + "/versions", "/v1/workflow-runs", "/v1/workflow-runs?limit=2&status=completed"} {
				answers = append(answers, string(a.Live.Get(path).Is(200).Raw))
			}
			return answers
		}
		before := look()
		_, err := readmodel.ReplayAll(t.Context(), a.Nodes[0].Ledger, projections.All(), nil)
		require.NoError(t, err)
		require.Equal(t, before[:4], look()[:4])
	})
}

func TestAReplyEndsOneWaitAndTheNextWaitsForAnother(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	wait := app.Map{"until_reply": app.Map{"timeout": "PT1H"}}
	onMessage(a.Workspace, app.Map{"keywords": []string{"join"}}, graph([]string{"start one", "one two replied"}, node("one", "wait", wait), node("two", "wait", wait)))
	phone := a.Phone()
	for _, want := range [][]string{{"start completed", "one waiting"}, {"start completed", "one completed", "two waiting"}, {"start completed", "one completed", "two completed"}} {
		a.Inbound(phone, a.Lines[0].Phone, "join")
		a.Settle()
		require.Equal(t, want, stepsOf(runsOf(a.Workspace, "")[0]))
	}
}

func TestARunThatSendsNothingMakesNoConversation(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	_, path := triggerOf(a.Workspace, app.Map{"create_contact": true}, graph(nil))
	a.Anonymous().Post(path, app.Map{"phone": a.Phone()}).Is(202)
	a.Settle()
	require.Equal(t, []any{"completed"}, a.Live.Get("/v1/workflow-runs").Column("status"))
	var changed int
	a.QueryRow(`select count(*) from ledger_events where type like 'conversation.%'`, nil, &changed)
	require.Zero(t, changed)
	require.Empty(t, a.Live.Get("/v1/conversations").Data())
}
