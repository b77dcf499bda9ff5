package workflow_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/segment"
	"ledgerline/domain/workflow"
	"ledgerline/events"
)

// randomGraph makes a graph that may be wrong in any way.
func randomGraph(r *rand.Rand) events.WorkflowGraph {
	types := []string{"trigger", "condition", "wait", "wait", "send", "assign", "label", "webhook", "ai"}
	configs := map[string][]map[string]any{
		"trigger":   {{}},
		"condition": {{"definition": map[string]any{"field": "message.body", "op": "exists", "value": true}}, {}},
		"wait":      {{"duration": "PT1M"}, {"until_reply": map[string]any{"timeout": "P1D"}}, {"until": "2020-01-01T00:00:00Z"}, {"duration": -1.0}},
		"send":      {{"body": "Hi {{first_name|there}}"}, {"body": "{{"}, {"media": []any{nil}}},
		"assign":    {{"unassign": true}, {"user_id": 5.0}},
		"label":     {{"add": []any{"vip"}}, {"add": nil}},
		"webhook":   {{"name": "x"}, {"name": ""}},
		"ai":        {{"agent_id": anID}, {}},
	}
	nodes := 1 + r.IntN(8)
	var g events.WorkflowGraph
	for i := range nodes {
		kind := types[r.IntN(len(types))]
		if i == 0 && r.IntN(10) > 0 {
			kind = "trigger"
		}
		config := configs[kind][0]
		if r.IntN(30) == 0 {
			config = configs[kind][r.IntN(len(configs[kind]))]
		}
		id := i
		if r.IntN(40) == 0 {
			id = r.IntN(nodes)
		}
		g.Nodes = append(g.Nodes, events.WorkflowNode{ID: fmt.Sprint(id), Type: kind, Config: config})
	}
	fitting := map[string][]string{"condition": {"true", "false"}, "wait": {"", "replied", "timeout"}, "ai": {"done", "handoff"}}
	for i := 1; i < nodes; i++ { // mostly from an earlier node, with a label that fits
		from := g.Nodes[max(i-1-r.IntN(3)/2, 0)]
		labels := append([]string{""}, fitting[from.Type]...)
		if len(labels) > 1 {
			labels = labels[1:]
		}
		g.Edges = append(g.Edges, events.WorkflowEdge{From: from.ID, To: g.Nodes[i].ID, Label: labels[r.IntN(len(labels))]})
	}
	if r.IntN(4) == 0 {
		g.Edges = append(g.Edges, events.WorkflowEdge{From: g.Nodes[r.IntN(nodes)].ID, To: g.Nodes[r.IntN(nodes)].ID, Label: []string{"", "true", "done"}[r.IntN(3)]})
	}
	return g
}

// play takes the steps of a run with random results until it ends, and returns how many it took.
func play(t *testing.T, r *rand.Rand, p *workflow.Plan) int {
	t.Helper()
	start := &events.RunStarted{RunRef: events.RunRef{RunID: uuidOf(1), WorkflowID: uuidOf(2), ContactID: "ctc_a"}, Trigger: received}
	run, now, seen := grown(workflow.Run{}, workflow.Start(start, p)...), noon, map[string]bool{p.Start.ID: true}
	for run.Active() {
		if run.Node == "" {
			run = grown(run, run.Finish())
			continue
		}
		step := p.Steps[run.Node]
		require.NotNil(t, step)
		if run.Status == workflow.RunWaiting {
			if step.Wait.ForReply() && r.IntN(2) == 0 {
				run = grown(run, run.EndWait(step, &workflow.Reply{MessageID: "msg_a", Step: run.Steps}, now))
			} else {
				now = run.ResumeAt.Add(time.Duration(r.IntN(2)) * time.Hour)
				run = grown(run, run.EndWait(step, nil, now))
			}
			require.NotEqual(t, workflow.RunWaiting, run.Status, "a wait ends when it should")
			continue
		}
		require.False(t, seen[step.ID], "a step happens once")
		seen[step.ID] = true
		label := ""
		switch step.Type {
		case workflow.NodeWait:
			run = grown(run, run.BeginWait(step, now))
			continue
		case workflow.NodeCondition:
			label = workflow.LabelFalse
			if step.Condition.Matches(&segment.Contact{}, now, nil) {
				label = workflow.LabelTrue
			}
		case workflow.NodeAI:
			label = workflow.LabelHandoff
		}
		run = grown(run, run.Complete(step, workflow.StepCompleted, label, nil))
	}
	return run.Steps
}

func TestTenThousandRandomGraphsAreCheckedAndPlayedToTheirEnd(t *testing.T) {
	t.Parallel()
	const seed = 14
	r := rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // a test
	played, longest := 0, 0
	for range 10_000 {
		g := randomGraph(r)
		p, issues := workflow.Check(&workflow.Draft{Trigger: received, Graph: g}, here)
		if len(issues) > 0 {
			continue
		}
		played++
		steps := play(t, r, p)
		require.LessOrEqual(t, steps, len(g.Nodes))
		longest = max(longest, steps)
	}
	require.Greater(t, played, 100, "some of the graphs are right")
	require.Greater(t, longest, 2)
}
