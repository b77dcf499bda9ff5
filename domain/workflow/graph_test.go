package workflow_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/segment"
	"ledgerline/domain/workflow"
	"ledgerline/events"
)

var (
	noon = time.Date(2026, 3, 2, 17, 0, 0, 0, time.UTC)
	here = workflow.Environment{Now: noon, Zone: time.UTC, StopWords: []string{"basta"}}
)

const (
	anID     = "01890a5d-ac96-774b-bcce-b302099a8057"
	received = "message.received"
)

// draft reads a graph from JSON. Nodes without an id get n0, n1 and so on.
func draft(t *testing.T, trigger, config, graph string) *workflow.Draft {
	t.Helper()
	d := &workflow.Draft{Trigger: trigger}
	require.NoError(t, json.Unmarshal([]byte(config), &d.TriggerConfig), config)
	require.NoError(t, json.Unmarshal([]byte(graph), &d.Graph), graph)
	for i := range d.Graph.Nodes {
		if d.Graph.Nodes[i].ID == "" {
			d.Graph.Nodes[i].ID = fmt.Sprintf("n%d", i)
		}
	}
	return d
}

// problems lists the issues of a draft as "path code".
func problems(t *testing.T, trigger, config, graph string) []string {
	t.Helper()
	_, issues := workflow.Check(draft(t, trigger, config, graph), here)
	found := make([]string, len(issues))
	for i, issue := range issues {
		require.Equal(t, "body", issue.Location)
		require.NotEmpty(t, issue.Message)
		found[i] = issue.Path + " " + issue.Code
	}
	return found
}

// withNode is a graph of a trigger and one node with a config.
func withNode(kind, config string) string {
	return `{"nodes":[{"type":"trigger"},{"type":"` + kind + `","config":` + config + `}],"edges":[{"from":"n0","to":"n1"}]}`
}

func TestAGraphHasOneTriggerNoLoopsAndReachableSteps(t *testing.T) {
	t.Parallel()
	const send, wait = `{"type":"send","config":{"body":"x"}}`, `{"type":"wait","config":{"until_reply":{"timeout":"P1D"}}}`
	nodes := func(list ...string) string { return `{"nodes":[` + strings.Join(list, ",") + `],"edges":[` }
	const trigger = `{"type":"trigger"}`
	for graph, want := range map[string][]string{
		`{"nodes":[],"edges":[]}`: {"/graph/nodes trigger_missing"},
		nodes(trigger) + `]}`:     {},
		nodes(send) + `]}`:        {"/graph/nodes trigger_missing"},
		nodes(trigger, trigger, send) + `{"from":"n1","to":"n2"}]}`:                                   {"/graph/nodes/1 trigger_duplicate", "/graph/nodes/2 unreachable"},
		nodes(`{"id":"a","type":"trigger"}`, `{"id":"a","type":"send","config":{"body":"x"}}`) + `]}`: {"/graph/nodes/1 node_duplicate"},
		nodes(trigger, send) + `]}`: {"/graph/nodes/1 unreachable"},
		nodes(trigger, send) + `{"from":"n0","to":"n1"},{"from":"n1","to":"n1"}]}`:                                                                   {"/graph/edges/1 loop"},
		nodes(trigger, send, send) + `{"from":"n0","to":"n1"},{"from":"n1","to":"n2"},{"from":"n2","to":"n1"}]}`:                                     {"/graph/edges/2 loop"},
		nodes(trigger, send, send) + `{"from":"n1","to":"n2"},{"from":"n2","to":"n1"}]}`:                                                             {"/graph/edges/1 loop", "/graph/nodes/1 unreachable", "/graph/nodes/2 unreachable"},
		nodes(trigger, send) + `{"from":"n0","to":"n1"},{"from":"n1","to":"n0"}]}`:                                                                   {"/graph/edges/1 loop"},
		nodes(trigger, send) + `{"from":"n0","to":"x"},{"from":"y","to":"n1"},{"from":"n0","to":"n1"}]}`:                                             {"/graph/edges/0/to edge_unknown_node", "/graph/edges/1/from edge_unknown_node", "/graph/edges/2 edge_label"},
		nodes(trigger, send) + `{"from":"n0","to":"n1","label":"true"}]}`:                                                                            {"/graph/edges/0 edge_label"},
		nodes(trigger, send, send) + `{"from":"n0","to":"n1"},{"from":"n0","to":"n2"}]}`:                                                             {"/graph/edges/1 edge_label"},
		nodes(trigger, wait, send) + `{"from":"n0","to":"n1"},{"from":"n1","to":"n2","label":"replied"}]}`:                                           {},
		nodes(trigger, wait, send) + `{"from":"n0","to":"n1"},{"from":"n1","to":"n2"}]}`:                                                             {"/graph/edges/1 edge_label"},
		nodes(trigger, wait, send) + `{"from":"n0","to":"n1"},{"from":"n1","to":"n2","label":"done"}]}`:                                              {"/graph/edges/1 edge_label"},
		nodes(trigger, wait, send) + `{"from":"n0","to":"n1"},{"from":"n1","to":"n2","label":"timeout"},{"from":"n1","to":"n2","label":"timeout"}]}`: {"/graph/edges/2 edge_label"},
		nodes(trigger, wait, send) + `{"from":"n0","to":"n1"},{"from":"n1","to":"n2","label":"timeout"},{"from":"n1","to":"n2","label":"replied"}]}`: {},
	} {
		require.Equal(t, want, problems(t, received, `{}`, graph), graph)
	}
}

func TestTheConfigOfEachNodeIsChecked(t *testing.T) {
	t.Parallel()
	config := func(below string) string { return "/graph/nodes/1/config" + below + " config_invalid" }
	long := strings.Repeat("x", 2001)
	for _, c := range []struct {
		kind, config string
		want         []string
	}{
		{"trigger", `{"x":1}`, []string{config("/x"), "/graph/nodes/1 trigger_duplicate"}},
		{"condition", `{}`, []string{config("/definition")}},
		{"condition", `{"definition":{"field":"message.body","op":"contains","value":"yes"}}`, nil},
		{"condition", `{"definition":{"field":"labels","op":"contains","value":"no such label"}}`, nil},
		{"condition", `{"definition":{"all":[{"field":"nick","op":"eq","value":"x"}]},"x":1}`, []string{config("/definition/all/0/field"), config("/x")}},
		{"wait", `{}`, []string{config("")}},
		{"wait", `{"duration":"PT1M","until":"2026-03-03T00:00:00Z"}`, []string{config("")}},
		{"wait", `{"duration":"PT1M"}`, nil},
		{"wait", `{"duration":"PT59S"}`, []string{config("/duration")}},
		{"wait", `{"duration":"P366D"}`, []string{config("/duration")}},
		{"wait", `{"duration":5}`, []string{config("/duration")}},
		{"wait", `{"until":"tomorrow"}`, []string{config("/until")}},
		{"wait", `{"until":"2020-01-01T00:00:00Z"}`, nil},
		{"wait", `{"until_reply":{}}`, []string{config("/until_reply/timeout")}},
		{"wait", `{"until_reply":{"timeout":"P1D","x":1}}`, []string{config("/until_reply/x")}},
		{"wait", `{"until_reply":true}`, []string{config("/until_reply")}},
		{"send", `{}`, []string{config("/body")}},
		{"send", `{"body":""}`, []string{config("/body")}},
		{"send", `{"body":" \n"}`, []string{config("/body")}},
		{"send", `{"media":[]}`, []string{config("/body")}},
		{"send", `{"body":"` + long + `"}`, []string{config("/body")}},
		{"send", `{"body":5}`, []string{config("/body")}},
		{"send", `{"body":"{{nick}}"}`, []string{config("/body")}},
		{"send", `{"body":"{{first_name"}`, []string{config("/body")}},
		{"send", `{"body":"Hi {{ first_name | there }}, {{fields.a b}} {{trigger.order/id|}}","fallback":false}`, nil},
		{"send", `{"media":[{"url":"https://example.com/a.png","filename":"a"}]}`, nil},
		{"send", `{"media":[{"url":"nope","size":1},5]}`, []string{config("/media/0/url"), config("/media/0/size"), config("/media/1")}},
		{"send", `{"body":"x","pool_id":"pool_a","line_id":"ln_a"}`, []string{config("/line_id")}},
		{"send", `{"body":"x","fallback":"no"}`, []string{config("/fallback")}},
		{"assign", `{}`, []string{config("")}},
		{"assign", `{"user_id":"` + anID + `"}`, nil},
		{"assign", `{"user_id":"ada"}`, []string{config("/user_id")}},
		{"assign", `{"user_id":"` + anID + `","unassign":true}`, []string{config("")}},
		{"assign", `{"unassign":false}`, []string{config("/unassign")}},
		{"label", `{}`, []string{config("")}},
		{"label", `{"add":[],"remove":[]}`, []string{config("")}},
		{"label", `{"add":["vip"],"remove":[5]}`, []string{config("/remove/0")}},
		{"webhook", `{}`, []string{config("/name")}},
		{"webhook", `{"name":"` + strings.Repeat("x", 81) + `","data":[]}`, []string{config("/data"), config("/name")}},
		{"webhook", `{"name":"x","data":{"any":["thing"]}}`, nil},
		{"ai", `{}`, []string{config("/agent_id")}},
		{"ai", `{"agent_id":"` + anID + `","timeout":"PT1H"}`, nil},
		{"ai", `{"agent_id":"` + anID + `","timeout":""}`, []string{config("/timeout")}},
		{"dance", `{}`, []string{"/graph/nodes/1/type config_invalid"}},
	} {
		require.ElementsMatch(t, c.want, problems(t, received, `{}`, withNode(c.kind, c.config)), "%s %s", c.kind, c.config)
	}
}

func TestTheConfigOfEachTriggerIsChecked(t *testing.T) {
	t.Parallel()
	const graph = `{"nodes":[{"type":"trigger"}],"edges":[]}`
	at := func(below string) string { return "/trigger_config" + below + " config_invalid" }
	segmentID := `"segment_id":"` + anID + `"`
	for _, c := range []struct {
		trigger, config string
		want            []string
	}{
		{received, `{}`, nil},
		{received, `{"keywords":["Join us!","yes"],"match":"contains","line_ids":["ln_a"],"pool_ids":["pool_a"],` + segmentID + `,"first_message_only":true}`, nil},
		{received, `{"keywords":["stop","Info","start","BASTA!","..."]}`, []string{at("/keywords/0"), at("/keywords/1"), at("/keywords/2"), at("/keywords/3"), at("/keywords/4")}},
		{received, `{"keywords":["a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a"]}`, []string{at("/keywords")}},
		{received, `{"match":"like","first_message_only":1,"labels":[]}`, []string{at("/match"), at("/first_message_only"), at("/labels")}},
		{received, `{"segment_id":"x"}`, []string{at("/segment_id")}},
		{"contact.created", `{` + segmentID + `,"labels":["vip"]}`, nil},
		{"contact.created", `{"keywords":[]}`, []string{at("/keywords")}},
		{"schedule", `{}`, []string{at(""), at("/segment_id")}},
		{"schedule", `{"cron":"0 9 * * 1",` + segmentID + `}`, nil},
		{"schedule", `{"cron":"0 9 * * 1","at":"2026-04-01T00:00:00Z",` + segmentID + `}`, []string{at("")}},
		{"schedule", `{"cron":"0 9 * *","timezone":"Mars/Base",` + segmentID + `}`, []string{at("/cron"), at("/timezone")}},
		{"schedule", `{"at":"2026-03-02T17:00:00Z",` + segmentID + `}`, []string{at("/at")}},
		{"schedule", `{"at":"2026-03-02T17:00:01Z","timezone":"Europe/Berlin",` + segmentID + `}`, nil},
		{"webhook", `{}`, nil},
		{"webhook", `{"phone_path":"/customer/phone","create_contact":true,"token":"kept"}`, nil},
		{"webhook", `{"phone_path":"phone","create_contact":"yes","x":1}`, []string{at("/phone_path"), at("/create_contact"), at("/x")}},
		{"mail", `{}`, []string{"/trigger config_invalid"}},
	} {
		require.ElementsMatch(t, c.want, problems(t, c.trigger, c.config, graph), "%s %s", c.trigger, c.config)
	}
}

func TestADraftListsWhatItRefersTo(t *testing.T) {
	t.Parallel()
	p, issues := workflow.Check(draft(t, received, `{"line_ids":["ln_a"],"pool_ids":["pool_a"],"segment_id":"`+anID+`"}`,
		`{"nodes":[{"type":"trigger"},{"type":"send","config":{"body":"x","line_id":"ln_b"}},{"type":"label","config":{"add":["vip"],"remove":["new"]}},
		{"type":"assign","config":{"team_id":"`+anID+`"}},{"type":"ai","config":{"agent_id":"`+anID+`"}}],
		"edges":[{"from":"n0","to":"n1"},{"from":"n1","to":"n2"},{"from":"n2","to":"n3"},{"from":"n3","to":"n4"}]}`), here)
	require.Empty(t, issues)
	require.Equal(t, []workflow.Reference{
		{workflow.ReferenceLine, "ln_a", "/trigger_config/line_ids/0"}, {workflow.ReferencePool, "pool_a", "/trigger_config/pool_ids/0"},
		{workflow.ReferenceSegment, anID, "/trigger_config/segment_id"}, {workflow.ReferenceLine, "ln_b", "/graph/nodes/1/config/line_id"},
		{workflow.ReferenceLabel, "vip", "/graph/nodes/2/config/add/0"}, {workflow.ReferenceLabel, "new", "/graph/nodes/2/config/remove/0"},
		{workflow.ReferenceTeam, anID, "/graph/nodes/3/config/team_id"}, {workflow.ReferenceAgent, anID, "/graph/nodes/4/config/agent_id"},
	}, p.References)
	require.Equal(t, "/graph/nodes/4/config/agent_id reference_missing", p.References[7].Issue().Path+" "+p.References[7].Issue().Code)
	require.Equal(t, "n1", p.Start.Next(""))
	require.Empty(t, p.Steps["n4"].Next(workflow.LabelDone))
}

func TestAConditionComparesTheContactAndTheMessage(t *testing.T) {
	t.Parallel()
	p, issues := workflow.Check(draft(t, received, `{}`, withNode("condition",
		`{"definition":{"all":[{"field":"labels","op":"contains","value":"VIP"},{"field":"message.body","op":"contains","value":"Order"}]}}`)), here)
	require.Empty(t, issues)
	vip := uuidOf(1)
	condition := p.Steps["n1"].Condition
	require.Equal(t, []string{"VIP"}, condition.LabelNames())
	find := func(name string) (id uuidType, found bool) { return vip, strings.EqualFold(name, "vip") }
	none := func(string) (id uuidType, found bool) { return id, false }
	body := "my ORDER"
	c := &segment.Contact{LabelIDs: []uuidType{vip}, MessageBody: &body}
	require.True(t, condition.Matches(c, noon, find))
	require.False(t, condition.Matches(c, noon, none), "an unknown label is on no contact")
	require.False(t, condition.Matches(&segment.Contact{LabelIDs: []uuidType{vip}}, noon, find), "without a message its text is missing")
}

func TestAVersionIsCompiledWithoutLookingAtTheTime(t *testing.T) {
	t.Parallel()
	d := draft(t, "schedule", `{"at":"2020-01-01T00:00:00Z","segment_id":"`+anID+`"}`, `{"nodes":[{"type":"trigger"}],"edges":[]}`)
	p := workflow.Compile(d, "UTC")
	_, again := p.Trigger.Schedule.Next(noon)
	require.False(t, again)
	first, ok := p.Trigger.Schedule.Next(time.Time{})
	require.True(t, ok)
	require.Equal(t, 2020, first.Year())
	require.Equal(t, events.WorkflowGraph{Nodes: d.Graph.Nodes, Edges: []events.WorkflowEdge{}}, d.Graph)
}
