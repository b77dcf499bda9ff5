package events

import (
	"time"

	"github.com/google/uuid"
)

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

// WorkflowCreated creates a workflow as a draft. Stream: Stream("wfl", id).
type WorkflowCreated struct {
	WorkflowID    uuid.UUID      `json:"workflow_id"`
	Name          string         `json:"name"`
	Trigger       string         `json:"trigger"` // message.received, contact.created, schedule or webhook
	TriggerConfig map[string]any `json:"trigger_config"`
	Graph         WorkflowGraph  `json:"graph"`
}

// WorkflowEdited changes the draft of a workflow, or begins one. Only the fields in Changed have values.
type WorkflowEdited struct {
	WorkflowID    uuid.UUID      `json:"workflow_id"`
	Changed       []string       `json:"changed"` // name, trigger, trigger_config, graph
	Name          string         `json:"name,omitempty"`
	Trigger       string         `json:"trigger,omitempty"`
	TriggerConfig map[string]any `json:"trigger_config,omitempty"`
	Graph         *WorkflowGraph `json:"graph,omitempty"`
}

// WorkflowPublished makes the draft of a workflow its live version. The same append has, before it,
// WorkflowVersionCreated. Trigger, TriggerConfig and TimeZone repeat what decides when the version runs.
type WorkflowPublished struct {
	WorkflowID    uuid.UUID      `json:"workflow_id"`
	From          string         `json:"from"` // the status until then: draft, live or paused
	VersionID     uuid.UUID      `json:"version_id"`
	Version       int            `json:"version"` // from 1
	Trigger       string         `json:"trigger"`
	TriggerConfig map[string]any `json:"trigger_config"`
	TimeZone      string         `json:"time_zone"` // the organisation's, where the trigger names none
}

// WorkflowPaused stops new runs of a live workflow and holds those that are active.
type WorkflowPaused struct {
	WorkflowID uuid.UUID `json:"workflow_id"`
}

// WorkflowResumed makes a paused workflow live again. Its runs go on.
type WorkflowResumed struct {
	WorkflowID uuid.UUID `json:"workflow_id"`
}

// WorkflowArchived ends a workflow for good. Its active runs are cancelled.
type WorkflowArchived struct {
	WorkflowID uuid.UUID `json:"workflow_id"`
	From       string    `json:"from"` // draft, live or paused
}

// WorkflowVersionCreated is a version of a workflow, which never changes. Stream: Stream("wfv", version id), so that
// loading a workflow does not load the graphs of all its versions.
type WorkflowVersionCreated struct {
	WorkflowID    uuid.UUID      `json:"workflow_id"`
	VersionID     uuid.UUID      `json:"version_id"`
	Version       int            `json:"version"`
	Trigger       string         `json:"trigger"`
	TriggerConfig map[string]any `json:"trigger_config"`
	TimeZone      string         `json:"time_zone"`
	Graph         WorkflowGraph  `json:"graph"`
	Labels        []SegmentLabel `json:"labels,omitempty"` // the labels that its names meant when it was published
	DraftedAt     time.Time      `json:"drafted_at"`       // when its draft was begun
}
