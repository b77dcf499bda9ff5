package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/test/app"
)

// aiFlow publishes a workflow that the keyword join starts, and that gives the conversation to an agent.
func aiFlow(a *app.App, agentID string, edges ...string) string {
	return workflowOf(a.Workspace, "message.received", app.Map{"keywords": []string{"join"}}, graph(append([]string{"start ask"}, edges...),
		node("ask", "ai", app.Map{"agent_id": agentID, "timeout": "PT1H"}),
		node("well", "label", app.Map{"add": []string{"well"}}), node("human", "label", app.Map{"add": []string{"human"}})))
}

func startedByJoin(a *app.App) answered {
	c := answered{phone: a.Phone()}
	c.contact = a.Live.Post("/v1/contacts", app.Map{"phone": c.phone}).Is(201).Text("id")
	c.says(a, "join")
	c.conversation = text(a.Live.Get("/v1/conversations?contact_id=" + c.contact).Data()[0], "id")
	return c
}

func TestAIStepGivesTheConversationToTheAgentAndLeadsOnByDoneOrHandoff(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	a.Live.Post("/v1/labels", app.Map{"name": "well"}).Is(201)
	a.Live.Post("/v1/labels", app.Map{"name": "human"}).Is(201)
	id := liveAgent(a.Workspace, "Desk", nil)
	aiFlow(a, id, "ask well done", "ask human handoff")
	c := startedByJoin(a)
	run := runsOf(a.Workspace, "")[0]
	require.Equal(t, []string{"start completed", "ask waiting"}, stepsOf(run))
	require.Equal(t, app.Map{"resume_at": stamp(time.Hour), "outcome": nil}, detail(run, 1))
	require.Equal(t, "agent:"+id, c.handledBy(a))
	require.Equal(t, []string{`You wrote: "join". This is a scripted answer.`}, c.outbound(a), "unanswered messages are answered")
	c.says(a, "what?")
	require.Len(t, c.outbound(a), 2)
	require.Equal(t, []string{"start completed", "ask waiting"}, stepsOf(runsOf(a.Workspace, "")[0]))
	c.says(a, "bye")
	run = runsOf(a.Workspace, "?contact_id="+c.contact)[0]
	require.Equal(t, []string{"start completed", "ask completed", "well completed"}, stepsOf(run))
	require.Equal(t, app.Map{"resume_at": stamp(time.Hour), "outcome": "done"}, detail(run, 1))
	require.Equal(t, "team", c.handledBy(a))

	other := startedByJoin(a)
	other.says(a, "a person please")
	run = runsOf(a.Workspace, "?contact_id="+other.contact)[0]
	require.Equal(t, []string{"start completed", "ask completed", "human completed"}, stepsOf(run))
	require.Equal(t, "handoff", detail(run, 1)["outcome"])
}

func TestAIStepTakesDoneAfterItsTimeoutAndTheTeamHandlesTheConversation(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	a.Live.Post("/v1/labels", app.Map{"name": "well"}).Is(201)
	a.Live.Post("/v1/labels", app.Map{"name": "human"}).Is(201)
	aiFlow(a, liveAgent(a.Workspace, "Desk", nil), "ask well done", "ask human handoff")
	c := startedByJoin(a)
	a.Advance(time.Hour - time.Millisecond)
	require.Equal(t, "waiting", runsOf(a.Workspace, "")[0]["status"])
	a.Advance(time.Millisecond)
	run := runsOf(a.Workspace, "")[0]
	require.Equal(t, []string{"start completed", "ask completed", "well completed"}, stepsOf(run))
	require.Equal(t, "timeout", detail(run, 1)["outcome"])
	require.Equal(t, "team", c.handledBy(a))
}

func TestAIStepWithAnAgentThatIsNotLiveTakesHandoff(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	a.Live.Post("/v1/labels", app.Map{"name": "well"}).Is(201)
	a.Live.Post("/v1/labels", app.Map{"name": "human"}).Is(201)
	aiFlow(a, newAgent(a.Workspace, "Draft", nil), "ask well done", "ask human handoff")
	c := startedByJoin(a)
	run := runsOf(a.Workspace, "")[0]
	require.Equal(t, []string{"start completed", "ask completed", "human completed"}, stepsOf(run))
	require.Equal(t, app.Map{"resume_at": nil, "outcome": "handoff"}, detail(run, 1))
	require.Equal(t, "team", c.handledBy(a))
}

func TestRunWhoseAgentIsUnavailableTakesHandoffOrFailsWithoutThatEdge(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	a.Live.Post("/v1/labels", app.Map{"name": "well"}).Is(201)
	a.Live.Post("/v1/labels", app.Map{"name": "human"}).Is(201)
	id := liveAgent(a.Workspace, "Desk", nil)
	flow := workflowOf(a.Workspace, "message.received", app.Map{"keywords": []string{"join"}},
		graph([]string{"start ask", "ask well done"}, node("ask", "ai", app.Map{"agent_id": id}), node("well", "label", app.Map{"add": []string{"well"}})))
	c := startedByJoin(a)
	c.says(a, "refuse this")
	run := runsOf(a.Workspace, "?workflow_id="+flow)[0]
	require.Equal(t, []string{"start completed", "ask failed"}, stepsOf(run))
	require.Equal(t, []any{"failed", "agent_unavailable"}, []any{run["status"], run["error_code"]})
	patch2(a, "/v1/workflows/"+flow, app.Map{"status": "archived"}).Is(200)

	aiFlow(a, id, "ask human handoff", "ask well done")
	c = startedByJoin(a)
	c.says(a, "refuse this")
	run = runsOf(a.Workspace, "?contact_id="+c.contact)[0]
	require.Equal(t, []string{"start completed", "ask completed", "human completed"}, stepsOf(run))
}

func TestPersonWhoTakesOverAndAnArchivedWorkflowEndTheAIStep(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	a.Live.Post("/v1/labels", app.Map{"name": "well"}).Is(201)
	a.Live.Post("/v1/labels", app.Map{"name": "human"}).Is(201)
	id := liveAgent(a.Workspace, "Desk", nil)
	flow := aiFlow(a, id, "ask well done", "ask human handoff")
	c := startedByJoin(a)
	patch2(a, "/v1/workflows/"+flow, app.Map{"status": "paused"}).Is(200)
	a.Live.Post("/v1/conversations/"+c.conversation+"/messages", app.Map{"body": "I take over"}).Is(201)
	a.Settle()
	require.Equal(t, "waiting", runsOf(a.Workspace, "")[0]["status"], "held while the workflow is paused")
	patch2(a, "/v1/workflows/"+flow, app.Map{"status": "live"}).Is(200)
	a.Settle()
	require.Equal(t, []string{"start completed", "ask completed", "human completed"}, stepsOf(runsOf(a.Workspace, "")[0]))
	other := startedByJoin(a)
	require.Equal(t, "agent:"+id, other.handledBy(a))
	patch2(a, "/v1/workflows/"+flow, app.Map{"status": "archived"}).Is(200)
	a.Settle()
	require.Equal(t, "team", other.handledBy(a))
}
