package workflow

import (
	"fmt"
	"slices"
	"time"

	"ledgerline/domain/fault"
	"ledgerline/events"
)

// Draft is what a workflow is edited into.
type Draft struct {
	Trigger       string
	TriggerConfig map[string]any
	Graph         events.WorkflowGraph
}

// Environment is what the checks of a draft depend on besides the draft.
type Environment struct {
	Now       time.Time
	Zone      *time.Location // of the organisation
	StopWords []string       // the organisation's own STOP words
}

// Plan is a draft that passed the checks, or the version that it became.
type Plan struct {
	Trigger    Trigger
	Start      *Step // the node of type trigger
	Steps      map[string]*Step
	References []Reference
}

// Check compiles a draft, and returns everything that is wrong with it but its references (rules WFL-6 to WFL-16). The
// plan is usable only without issues.
func Check(d *Draft, in Environment) (*Plan, []fault.Issue) {
	c := &checker{}
	p := &Plan{Steps: map[string]*Step{}}
	p.Trigger = c.trigger(d, in)
	g := graph{checker: c, plan: p, nodes: d.Graph.Nodes, edges: d.Graph.Edges, first: map[string]int{}}
	g.readNodes()
	g.readEdges()
	g.findLoops()
	g.findUnreachable()
	p.References = c.references
	return p, c.issues
}

// graph checks how nodes and edges fit together.
type graph struct {
	*checker
	plan  *Plan
	nodes []events.WorkflowNode
	edges []events.WorkflowEdge

	first map[string]int // index of the first node with an id
	start int            // index of the first trigger node; -1: there is none
	out   [][]int        // indexes of the edges that leave each node and lead to a node
}

func nodePath(i int) string { return fmt.Sprintf("/graph/nodes/%d", i) }
func edgePath(i int) string { return fmt.Sprintf("/graph/edges/%d", i) }

// readNodes parses the nodes and reports duplicates at the later node.
func (g *graph) readNodes() {
	g.start = -1
	for i := range g.nodes {
		n := &g.nodes[i]
		step := g.step(n, nodePath(i))
		if n.ID == "" {
			g.wrong(nodePath(i)+"/id", IssueConfig, "A node needs an id.")
		}
		if _, taken := g.first[n.ID]; taken {
			g.wrong(nodePath(i), IssueNodeDuplicate, "An earlier node has this id.")
		} else {
			g.first[n.ID], g.plan.Steps[n.ID] = i, step
		}
		if n.Type != NodeTrigger {
			continue
		}
		if g.start >= 0 {
			g.wrong(nodePath(i), IssueTriggerDuplicate, "There is exactly one node of type trigger.")
			continue
		}
		g.start, g.plan.Start = i, step
	}
	if g.start < 0 {
		g.wrong("/graph/nodes", IssueTriggerMissing, "There is exactly one node of type trigger.")
	}
}

// edgeLabels returns the labels of the edges that may leave a node. Nil: one edge without a label.
func edgeLabels(n *events.WorkflowNode) []string {
	switch n.Type {
	case NodeCondition:
		return []string{LabelTrue, LabelFalse}
	case NodeWait:
		if _, reply := n.Config["until_reply"]; reply {
			return []string{LabelReplied, LabelTimeout}
		}
	case NodeAI:
		return []string{LabelDone, LabelHandoff}
	}
	return nil
}

// readEdges connects the nodes, and reports edges that lead nowhere and labels that do not fit.
func (g *graph) readEdges() {
	g.out = make([][]int, len(g.nodes))
	for i := range g.edges {
		e := &g.edges[i]
		from, known := g.first[e.From]
		if !known {
			g.wrong(edgePath(i)+"/from", IssueEdgeUnknownNode, "There is no node with this id.")
		}
		_, leads := g.first[e.To]
		if !leads {
			g.wrong(edgePath(i)+"/to", IssueEdgeUnknownNode, "There is no node with this id.")
		}
		if !known {
			continue
		}
		labels := edgeLabels(&g.nodes[from])
		_, repeated := g.plan.Steps[e.From].next[e.Label]
		switch {
		case labels == nil && e.Label != "":
			g.wrong(edgePath(i), IssueEdgeLabel, "Edges of this node have no label.")
		case labels == nil && repeated:
			g.wrong(edgePath(i), IssueEdgeLabel, "At most one edge leaves this node.")
		case labels != nil && !slices.Contains(labels, e.Label):
			g.wrong(edgePath(i), IssueEdgeLabel, "The label is %s or %s.", labels[0], labels[1])
		case repeated:
			g.wrong(edgePath(i), IssueEdgeLabel, "Another edge of this node has this label.")
		default:
			g.plan.Steps[e.From].next[e.Label] = e.To
		}
		if leads {
			g.out[from] = append(g.out[from], i)
		}
	}
}

// findLoops reports one edge of each loop: the one that leads back to a node on the way to it.
func (g *graph) findLoops() {
	const onWay, done = 1, 2
	state := make([]int, len(g.nodes))
	var visit func(node int)
	visit = func(node int) {
		state[node] = onWay
		for _, edge := range g.out[node] {
			switch to := g.first[g.edges[edge].To]; state[to] {
			case onWay:
				g.wrong(edgePath(edge), IssueLoop, "This edge closes a loop.")
			case done:
			default:
				visit(to)
			}
		}
		state[node] = done
	}
	if g.start >= 0 {
		visit(g.start)
	}
	for node := range g.nodes {
		if state[node] == 0 {
			visit(node)
		}
	}
}

// findUnreachable reports the nodes to which no way leads from the trigger. Duplicates have been reported already.
func (g *graph) findUnreachable() {
	if g.start < 0 {
		return
	}
	reached := make([]bool, len(g.nodes))
	reached[g.start] = true
	for open := []int{g.start}; len(open) > 0; {
		node := open[len(open)-1]
		open = open[:len(open)-1]
		for _, edge := range g.out[node] {
			if to := g.first[g.edges[edge].To]; !reached[to] {
				reached[to] = true
				open = append(open, to)
			}
		}
	}
	for i := range g.nodes {
		if !reached[i] && g.first[g.nodes[i].ID] == i && g.nodes[i].Type != NodeTrigger {
			g.wrong(nodePath(i), IssueUnreachable, "No way leads here from the trigger.")
		}
	}
}

// LabelNames returns the labels that the trigger and the steps name, with repetitions, in order of the names.
func (p *Plan) LabelNames() []string {
	names := append([]string{}, p.Trigger.Labels...)
	for _, s := range p.Steps {
		switch {
		case s.Condition != nil:
			names = append(names, s.Condition.LabelNames()...)
		case s.Label != nil:
			names = append(append(names, s.Label.Add...), s.Label.Remove...)
		}
	}
	slices.Sort(names)
	return names
}

// Types of package events that callers need, so that they need not import it.
type (
	Graph = events.WorkflowGraph
	Node  = events.WorkflowNode
	Edge  = events.WorkflowEdge
)
