package events

// WorkflowGraph is what the runs of a workflow do: steps (nodes), and the order in which they are taken (edges).
type WorkflowGraph struct {
	Nodes []WorkflowNode `json:"nodes"`
	Edges []WorkflowEdge `json:"edges"`
}

// WorkflowNode is one step of a graph. Config depends on the type; Position is where an editor draws the node.
type WorkflowNode struct {
	ID       string         `json:"id"`
	Type     string         `json:"type"` // trigger, condition, wait, send, assign, label, webhook or ai
	Config   map[string]any `json:"config"`
	Position map[string]any `json:"position,omitempty"`
}

// WorkflowEdge leads from one node to the next. A label says with which result of the node it is taken.
type WorkflowEdge struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Label string `json:"label,omitempty"`
}
