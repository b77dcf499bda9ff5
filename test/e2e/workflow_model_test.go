package e2e_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ledgerline/test/app"
)

// randomFlow makes a graph that passes the checks: a tree of up to eight steps.
func randomFlow(r *rand.Rand) app.Map {
	nodes, edges := []app.Map{}, []string{}
	type open struct{ from, label string }
	ends := []open{{"start", ""}}
	for i := range 1 + r.IntN(8) {
		if len(ends) == 0 {
			break
		}
		at := r.IntN(len(ends))
		end := ends[at]
		ends = slices.Delete(ends, at, at+1)
		id := fmt.Sprint("n", i)
		edges = append(edges, fmt.Sprintf("%s %s %s", end.from, id, end.label))
		switch r.IntN(7) {
		case 0:
			nodes = append(nodes, node(id, "condition", app.Map{"definition": leaf("message.body", "contains", "yes")}))
			ends = append(ends, open{id, "true"}, open{id, "false"})
		case 1:
			nodes = append(nodes, node(id, "wait", app.Map{"duration": fmt.Sprintf("PT%dM", 1+r.IntN(600))}))
			ends = append(ends, open{id, ""})
		case 2:
			nodes = append(nodes, node(id, "wait", app.Map{"until_reply": app.Map{"timeout": fmt.Sprintf("PT%dM", 1+r.IntN(600))}}))
			ends = append(ends, open{id, "replied"}, open{id, "timeout"})
		case 3:
			nodes = append(nodes, node(id, "label", app.Map{"add": []string{"vip"}}))
			ends = append(ends, open{id, ""})
		case 4:
			nodes = append(nodes, node(id, "assign", app.Map{"unassign": true}))
			ends = append(ends, open{id, ""})
		default:
			nodes = append(nodes, node(id, "send", app.Map{"body": "Hi {{first_name|there}} from " + id}))
			ends = append(ends, open{id, ""})
		}
	}
	return graph(edges, nodes...)
}

// flowWorld is a service with workflows, on which random things happen.
type flowWorld struct {
	*app.App
	*rand.Rand
	t        *testing.T
	flows    []string // ids of workflows
	tokens   []string // paths of webhook triggers
	phones   []string // of people
	archived map[string]bool
	paused   map[string]bool
}

// patch changes the status of a workflow. A killed node may have taken the change before it could answer.
func (w *flowWorld) patch(id, status string) {
	w.Live.Do(http.MethodPatch, "/v1/workflows/"+id, app.Map{"status": status})
}

// happen does one random thing.
func (w *flowWorld) happen() {
	phone := w.phones[w.IntN(len(w.phones))]
	id := w.flows[w.IntN(len(w.flows))]
	switch w.IntN(16) {
	case 0:
		w.Inbound(phone, w.Lines[0].Phone, "stop")
	case 1:
		w.Inbound(phone, w.Lines[0].Phone, "start")
	case 2, 3, 4, 5:
		w.Inbound(phone, w.Lines[w.IntN(2)].Phone, []string{"join", "yes", "hello", "JOIN yes"}[w.IntN(4)])
	case 6, 7:
		w.Anonymous().Post(w.tokens[w.IntN(len(w.tokens))], app.Map{"phone": phone})
	case 8:
		if !w.archived[id] {
			w.patch(id, "paused")
			w.paused[id] = true
		}
	case 9, 10:
		for _, id := range w.flows {
			if w.paused[id] {
				w.patch(id, "live")
				delete(w.paused, id)
			}
		}
	case 11:
		if w.IntN(8) == 0 && len(w.archived) < 2 {
			w.patch(id, "archived")
			w.archived[id] = true
			delete(w.paused, id)
		}
	case 12, 13:
		_, err := w.Clock.Advance(time.Duration(w.IntN(300)) * time.Minute)
		require.NoError(w.t, err)
	case 14:
		w.Settle()
	case 15:
		if w.IntN(3) == 0 {
			w.Kill(w.Nodes[w.IntN(len(w.Nodes))])
			w.StartNode(app.Everything)
		}
	}
}

// flowEvent is an event of the ledger, as the check needs it.
type flowEvent struct {
	Position                               int64
	At                                     time.Time
	Type, Stream                           string
	Run, Workflow, Contact, Node, Next     string
	Status, Code, Message, Source, Outcome string
	ResumeAt                               *time.Time
	Reply                                  bool
}

const flowEventsSQL = `select position, occurred_at, type, stream, coalesce(data->>'run_id', ''), coalesce(data->>'workflow_id', ''), coalesce(data->>'contact_id', ''),
	coalesce(data->>'node_id', ''), coalesce(data->>'next', ''), coalesce(data->>'status', ''), coalesce(data->>'error_code', ''),
	coalesce(data->'detail'->>'message_id', data->>'message_id', ''), coalesce(data->>'source', ''), coalesce(data->'detail'->>'outcome', ''),
	(data->>'resume_at')::timestamptz, coalesce((data->>'reply')::boolean, false) from ledger_events order by shard, position`

// runHistory is what the check has seen of one run.
type runHistory struct {
	started, finished flowEvent
	next              string
	steps             map[string]bool
	waiting           *flowEvent
}

// checkFlows holds the history against the rules of runs, without the code that made it.
func checkFlows(t *testing.T, a *app.App) (runs, steps int) {
	t.Helper()
	rows, err := a.Pool.Query(t.Context(), flowEventsSQL)
	require.NoError(t, err)
	history, err := pgx.CollectRows(rows, pgx.RowToStructByPos[flowEvent])
	require.NoError(t, err)
	known := map[string]*runHistory{}
	active := map[[2]string]string{} // workflow and contact → run
	wrote := map[string]int64{}      // the position of a contact's newest message
	optedOut := map[string]bool{}
	queued := map[string]bool{}      // messages of workflows
	ownMessages := map[string]bool{} // messages that steps have sent
	for _, e := range history {
		run := known[e.Run]
		switch e.Type {
		case "run.started":
			require.Nil(t, run, "a run starts once")
			require.False(t, optedOut[e.Contact], "an opted-out contact starts nothing")
			key := [2]string{e.Workflow, e.Contact}
			require.Empty(t, active[key], "one active run per workflow and contact")
			active[key] = e.Run
			known[e.Run] = &runHistory{started: e, steps: map[string]bool{}}
		case "run.step_waiting":
			require.Equal(t, run.next, e.Node, "the steps follow the edges")
			require.NotNil(t, e.ResumeAt)
			require.True(t, e.ResumeAt.After(e.At))
			run.waiting = &e
		case "run.step_completed":
			require.False(t, run.steps[e.Node], "a step happens once")
			if len(run.steps) > 0 {
				require.Equal(t, run.next, e.Node, "the steps follow the edges")
			}
			if w := run.waiting; w != nil {
				require.Equal(t, w.Node, e.Node)
				replied := w.Reply && wrote[e.Contact] > w.Position
				if e.Outcome == "replied" {
					require.True(t, replied, "a reply ends one wait, which began before it")
				} else {
					require.False(t, e.At.Before(*w.ResumeAt), "a wait ends with its reply or its time")
				}
				run.waiting = nil
			}
			run.steps[e.Node], run.next = true, e.Next
			if e.Message != "" && e.Outcome == "" {
				require.True(t, queued[e.Message], "the message is in the ledger with its step")
				require.False(t, ownMessages[e.Message])
				ownMessages[e.Message] = true
			}
			steps++
		case "run.finished":
			require.Empty(t, run.finished.Type, "a run ends once")
			run.finished = e
			delete(active, [2]string{e.Workflow, e.Contact})
		case "message.received":
			wrote[e.Contact] = e.Position
		case "message.queued":
			queued[e.Message] = queued[e.Message] || e.Source == "workflow"
		case "message.sending":
			require.False(t, queued[e.Message] && optedOut[e.Contact], "no message of a workflow leaves after an opt-out")
		case "contact.opted_out":
			optedOut[e.Contact] = true
		case "contact.opted_in":
			delete(optedOut, e.Contact)
		}
	}
	for id, isWorkflows := range queued {
		require.True(t, !isWorkflows || ownMessages[id], "every message of a workflow has its step")
	}
	for id, run := range known {
		if run.finished.Type == "" {
			continue
		}
		if run.finished.Status == "completed" {
			require.Empty(t, run.next, "run %s is at its end", id)
		}
	}
	return len(known), steps
}

// seedsOf returns the seeds of the model: WORKFLOW_SEED, or a few.
func seedsOf(t *testing.T) []uint64 {
	t.Helper()
	text := os.Getenv("WORKFLOW_SEED")
	if text == "" {
		return []uint64{1, 2}
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err)
	return []uint64{seed}
}

func TestRandomWorkflowsKeepTheirRulesWhileNodesAreKilledAndTheClockJumps(t *testing.T) {
	t.Parallel()
	for _, seed := range seedsOf(t) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			a := app.Start(t, app.Killable(time.Second), app.Nodes(app.Everything, app.Everything))
			w := &flowWorld{App: a, Rand: rand.New(rand.NewPCG(seed, seed)), t: t, archived: map[string]bool{}, paused: map[string]bool{}} //nolint:gosec // a test
			a.Live.Post("/v1/labels", app.Map{"name": "vip"}).Is(201)
			for range 3 {
				id, token := triggerOf(a.Workspace, app.Map{"create_contact": true}, randomFlow(w.Rand))
				w.flows, w.tokens = append(w.flows, id), append(w.tokens, token)
			}
			for _, config := range []app.Map{{"keywords": []string{"join"}}, {"keywords": []string{"yes"}, "match": "contains"}, {}} {
				w.flows = append(w.flows, workflowOf(a.Workspace, "message.received", config, randomFlow(w.Rand)))
			}
			w.flows = append(w.flows, workflowOf(a.Workspace, "contact.created", app.Map{}, randomFlow(w.Rand)))
			for range 6 {
				w.phones = append(w.phones, a.Phone())
			}
			for range 120 {
				w.happen()
			}
			for _, id := range slices.Sorted(maps.Keys(w.paused)) {
				w.patch(id, "live")
			}
			a.Settle()
			for range 9 { // a run has at most eight waits, one after the other
				a.Advance(11 * time.Hour)
			}
			runs, steps := checkFlows(t, a)
			t.Logf("%d runs, %d steps", runs, steps)
			require.Greater(t, steps, 20)
			var left, twice int
			a.QueryRow(`select count(*) from workflow_active_runs`, nil, &left)
			require.Zero(t, left, "every wait has ended")
			a.QueryRow(`select count(*) from simulator.messages where sends > 1`, nil, &twice)
			require.Zero(t, twice, "no message is sent twice")
			a.QueryRow(`select count(*) from feed_parked`, nil, &left)
			require.Zero(t, left)
		})
	}
}

func TestAScheduleStartsOneRunForEachContactAlsoWhenItsNodeIsKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	const people = 700 // more than a page of the segment
	a := app.Start(t, app.Killable(time.Second))
	var csv strings.Builder
	csv.WriteString("phone\n")
	for range people {
		csv.WriteString(a.Phone() + "\n")
	}
	a.Live.Post("/v1/contacts/import", app.Map{"csv": csv.String(), "mapping": app.Map{"phone": "phone"}}).Is(202)
	segment := a.Live.Post("/v1/segments", app.Map{"name": "all", "definition": leaf("phone", "exists", true)}).Is(201).Text("id")
	workflowOf(a.Workspace, "schedule", app.Map{"at": stamp(time.Hour), "segment_id": segment}, waits())
	a.Settle()
	_, err := a.Clock.Advance(time.Hour)
	require.NoError(t, err)
	var started, contacts int
	for started < 20 {
		a.QueryRow(`select count(*) from ledger_events where type = 'run.started'`, nil, &started)
	}
	a.Kill(a.Nodes[0])
	a.StartNode(app.Everything)
	a.Settle()
	a.QueryRow(`select count(*), count(distinct data->>'contact_id') from ledger_events where type = 'run.started'`, nil, &started, &contacts)
	require.Equal(t, []int{people, people}, []int{started, contacts})
}

// randomDraft makes a graph that may be wrong in any way.
func randomDraft(r *rand.Rand) app.Map {
	kinds := []string{"trigger", "condition", "wait", "wait", "send", "send", "assign", "label", "webhook", "ai"}
	configs := []app.Map{
		{}, {"definition": leaf("message.body", "contains", "yes")}, {"definition": leaf("labels", "contains", "none")}, {"duration": "PT1M"}, {"duration": "P365D"},
		{"until": "2020-01-01T00:00:00Z"}, {"until_reply": app.Map{"timeout": "P1D"}}, {"body": "Hi {{first_name|there}}"}, {"body": "{{company}}"}, {"body": "{{"},
		{"unassign": true}, {"add": []string{"vip"}}, {"add": []string{"none"}}, {"name": "x"}, {"agent_id": "01890a5d-ac96-774b-bcce-b302099a8057"},
	}
	g := app.Map{}
	nodes, edges := []app.Map{}, []app.Map{}
	for i := range 1 + r.IntN(9) {
		kind := kinds[r.IntN(len(kinds))]
		if i == 0 && r.IntN(20) > 0 {
			kind = "trigger"
		}
		config := pick(r, configs)
		fits := map[string]int{"trigger": 0, "condition": 1, "wait": 3 + r.IntN(4), "send": 7 + r.IntN(2), "assign": 10, "label": 11, "webhook": 13, "ai": 14}
		if r.IntN(20) > 0 {
			config = configs[fits[kind]]
		}
		id := i
		if r.IntN(50) == 0 {
			id = 0
		}
		nodes = append(nodes, node(fmt.Sprint(id), kind, config))
		if i > 0 {
			from := nodes[max(0, i-1-r.IntN(2))]
			label := map[string][]string{"condition": {"true", "false"}, "ai": {"done", "handoff"}, "wait": {""}}[text(from, "type")]
			e := app.Map{"from": from["id"], "to": fmt.Sprint(id)}
			if object(from["config"])["until_reply"] != nil {
				label = []string{"replied", "timeout"}
			}
			if len(label) > 0 {
				e["label"] = label[r.IntN(len(label))]
			}
			edges = append(edges, e)
		}
	}
	g["nodes"], g["edges"] = nodes, edges
	return g
}

func TestRandomGraphsAreRefusedOrPublishedAndSimulatedWithoutAFailure(t *testing.T) {
	t.Parallel()
	count := 150 // WORKFLOW_GRAPHS=10000 for more
	if more, err := strconv.Atoi(os.Getenv("WORKFLOW_GRAPHS")); err == nil {
		count = more
	}
	a := app.Start(t)
	a.Live.Post("/v1/labels", app.Map{"name": "vip"}).Is(201)
	r := rand.New(rand.NewPCG(15, 15)) //nolint:gosec // a test
	path := "/v1/workflows/" + a.Live.Post("/v1/workflows", app.Map{"name": "x", "trigger": "message.received"}).Is(201).Text("id")
	played, answers := 0, []app.Map{{"body": "yes"}, {"body": "no", "after": "P2D"}, {"body": "stop"}, {"body": ""}}
	for range count {
		patch2(a, path, app.Map{"graph": randomDraft(r)}).Is(200)
		replies := []app.Map{pick(r, answers), pick(r, answers)}
		simulated := a.Live.Post(path+"/simulate", app.Map{"contact": app.Map{}, "message": app.Map{"body": "hello"}, "replies": replies})
		published := a.Live.Post(path+"/publish", nil)
		require.Contains(t, []int{200, 400}, simulated.Status, "%s", simulated.Raw)
		require.Equal(t, simulated.Status, published.Status, "a draft can be simulated if it can be published: %s", published.Raw)
		if simulated.Status == 200 {
			played++
			require.LessOrEqual(t, len(simulatedSteps(simulated)), 10)
		} else {
			require.ElementsMatch(t, published.Issues(), simulated.Issues())
		}
	}
	require.Greater(t, played, count/20)
	t.Logf("%d of %d graphs were published and played", played, count)
}
