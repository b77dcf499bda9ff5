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

// RunRef identifies the run of an event, its workflow and its contact. Stream: Stream("run", run id).
type RunRef struct {
	RunID      uuid.UUID `json:"run_id"`
	WorkflowID uuid.UUID `json:"workflow_id"`
	ContactID  string    `json:"contact_id"`
}

// RunStarted starts a run of a version of a workflow for one contact.
type RunStarted struct {
	RunRef
	VersionID uuid.UUID   `json:"version_id"`
	Version   int         `json:"version"`
	Trigger   string      `json:"trigger"`              // message.received, contact.created, schedule or webhook
	MessageID *string     `json:"message_id,omitempty"` // the message that started it
	Data      RunPersonal `json:"-"`
}

// RunPersonal is the personal data of a run.
type RunPersonal struct {
	Trigger map[string]any `json:"trigger_data,omitempty"` // what was posted to a webhook trigger
}

// Subject implements Sealed.
func (e *RunStarted) Subject() string { return e.ContactID }

// Personal implements Sealed.
func (e *RunStarted) Personal() any { return &e.Data }

// RunStepWaiting records that a run waits at a step.
type RunStepWaiting struct {
	RunRef
	Number   int        `json:"number"` // of the step in the run, from 1
	NodeID   string     `json:"node_id"`
	ResumeAt *time.Time `json:"resume_at"`
	Reply    bool       `json:"reply,omitempty"` // the contact's next message ends the wait
}

// RunStepCompleted records the end of a step: it was completed or skipped, or has failed.
type RunStepCompleted struct {
	RunRef
	Number int            `json:"number"`
	NodeID string         `json:"node_id"`
	Status string         `json:"status"` // completed, skipped or failed
	Detail map[string]any `json:"detail,omitempty"`
	Next   string         `json:"next,omitempty"` // the node that follows; empty: the run ends
	// MessageID is the reply that ended a wait. Conditions are about it from then on.
	MessageID *string `json:"message_id,omitempty"`
}

// RunWebhookCalled is the event that a webhook step sends to the customer's endpoints.
type RunWebhookCalled struct {
	RunRef
	NodeID  string         `json:"node_id"`
	EventID uuid.UUID      `json:"event_id"` // receivers know it as evt_…
	Name    string         `json:"name"`
	Data    map[string]any `json:"data"`
}

// RunFinished ends a run.
type RunFinished struct {
	RunRef
	Status string  `json:"status"` // completed, failed or cancelled
	Code   *string `json:"error_code"`
}
