package workflow

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/events"
)

// Status is the state of a workflow (rule WFL-2).
type Status string

// The statuses of a workflow.
const (
	StatusDraft    Status = "draft"
	StatusLive     Status = "live"
	StatusPaused   Status = "paused"
	StatusArchived Status = "archived"
)

const maxName = 120 // characters (rule WFL-1)

// Stream returns the name of the stream of a workflow.
func Stream(id uuid.UUID) string { return events.Stream("wfl", id) }

// VersionStream returns the name of the stream of a version.
func VersionStream(id uuid.UUID) string { return events.Stream("wfv", id) }

// Workflow is the state of one workflow. The zero value does not exist.
type Workflow struct {
	ID           uuid.UUID
	Organisation uuid.UUID
	Workspace    uuid.UUID
	Name         string
	Status       Status
	Draft        // as edited last; without HasDraft it is the live version
	HasDraft     bool
	DraftedAt    time.Time // when the draft was begun
	VersionID    uuid.UUID // the live version; uuid.Nil before the first publication
	Version      int
	LiveTrigger  TriggerType // of the live version
}

// Apply returns the state after one event of the workflow's stream.
func (w Workflow) Apply(event events.Event, in events.Envelope) Workflow {
	switch e := event.(type) {
	case *events.WorkflowCreated:
		return Workflow{
			ID: e.WorkflowID, Organisation: in.Organisation, Workspace: in.Workspace, Name: e.Name, Status: StatusDraft,
			Draft: Draft{e.Trigger, e.TriggerConfig, e.Graph}, HasDraft: true, DraftedAt: in.At,
		}
	case *events.WorkflowEdited:
		return w.applyEdit(e, in.At)
	case *events.WorkflowPublished:
		w.Status, w.HasDraft, w.VersionID, w.Version = StatusLive, false, e.VersionID, e.Version
		w.LiveTrigger = TriggerType(e.Trigger)
	case *events.WorkflowPaused:
		w.Status = StatusPaused
	case *events.WorkflowResumed:
		w.Status = StatusLive
	case *events.WorkflowArchived:
		w.Status = StatusArchived
	}
	return w
}

func (w Workflow) applyEdit(e *events.WorkflowEdited, at time.Time) Workflow {
	if !w.HasDraft {
		w.HasDraft, w.DraftedAt = true, at
	}
	for _, name := range e.Changed {
		switch name {
		case "name":
			w.Name = e.Name
		case "trigger":
			w.Trigger = e.Trigger
		case "trigger_config":
			w.TriggerConfig = cleanConfig(e.TriggerConfig)
		case "graph":
			if e.Graph != nil {
				w.Graph = *e.Graph
			}
		}
	}
	return w
}

// Exists reports whether the workflow was created.
func (w Workflow) Exists() bool { return w.ID != uuid.Nil }

// TakesPosts reports whether the token of the workflow is known: its live version has a webhook trigger, and it is not
// archived (rule WFL-32).
func (w Workflow) TakesPosts() bool { return w.LiveTrigger == OnWebhook && w.Status != StatusArchived }

// checkName returns a name as it is stored, without spaces around it. It refuses an empty one, a long one, and one of
// several lines, with validation_failed at /name.
func checkName(name string) (string, error) {
	name = strings.TrimSpace(name)
	switch {
	case name == "":
		return "", fault.Invalid("/name", "required", "A workflow needs a name.")
	case characters(name) > maxName:
		return "", fault.Invalid("/name", "too_long", "A workflow's name has at most %d characters.", maxName)
	case strings.ContainsFunc(name, unicode.IsControl):
		return "", fault.Invalid("/name", "invalid_value", "A workflow's name is one line of text.")
	}
	return name, nil
}

// Create creates a workflow as a draft.
func Create(id uuid.UUID, name string, d Draft) ([]events.Event, error) {
	name, err := checkName(name)
	if err != nil {
		return nil, err
	}
	return []events.Event{&events.WorkflowCreated{
		WorkflowID: id, Name: name, Trigger: d.Trigger, TriggerConfig: cleanConfig(d.TriggerConfig), Graph: cleanGraph(d.Graph),
	}}, nil
}

// cleanConfig is a trigger's config as it is stored: without the token, which the service makes.
func cleanConfig(config map[string]any) map[string]any {
	cleaned := maps.Clone(config)
	if cleaned == nil {
		return map[string]any{}
	}
	delete(cleaned, "token")
	return cleaned
}

// cleanGraph is a graph as it is stored: without missing lists and configs.
func cleanGraph(g events.WorkflowGraph) events.WorkflowGraph {
	cleaned := events.WorkflowGraph{Nodes: make([]events.WorkflowNode, len(g.Nodes)), Edges: append([]events.WorkflowEdge{}, g.Edges...)}
	for i, n := range g.Nodes {
		if n.Config == nil {
			n.Config = map[string]any{}
		}
		cleaned.Nodes[i] = n
	}
	return cleaned
}

// Change is what one PATCH asks of a workflow. Nil leaves a property as it is.
type Change struct {
	Name          *string
	Trigger       *string
	TriggerConfig map[string]any
	Graph         *events.WorkflowGraph
	Status        *Status
}

// Update decides on a PATCH: the edits first, then the move to another status, all in one append (rules WFL-2 and
// WFL-3). What is so already is no event. Refusals: validation_failed for the name, conflict for a move that is not
// possible and for an archived workflow.
func (w Workflow) Update(ch Change) ([]events.Event, error) {
	if w.Status == StatusArchived {
		return nil, fault.New(fault.Conflict, "The workflow is archived.")
	}
	edited, err := w.edit(ch)
	if err != nil {
		return nil, err
	}
	if ch.Status == nil || *ch.Status == w.Status {
		return edited, nil
	}
	switch {
	case *ch.Status == StatusArchived:
		return append(edited, &events.WorkflowArchived{WorkflowID: w.ID, From: string(w.Status)}), nil
	case *ch.Status == StatusPaused && w.Status == StatusLive:
		return append(edited, &events.WorkflowPaused{WorkflowID: w.ID}), nil
	case *ch.Status == StatusLive && w.Status == StatusPaused:
		return append(edited, &events.WorkflowResumed{WorkflowID: w.ID}), nil
	}
	return nil, fault.New(fault.Conflict, "A workflow that is %s cannot become %s. Publishing makes it live.", w.Status, *ch.Status)
}

func (w Workflow) edit(ch Change) ([]events.Event, error) {
	e := &events.WorkflowEdited{WorkflowID: w.ID}
	if ch.Name != nil {
		name, err := checkName(*ch.Name)
		if err != nil {
			return nil, err
		}
		if name != w.Name {
			e.Changed, e.Name = append(e.Changed, "name"), name
		}
	}
	config := ch.TriggerConfig
	if ch.Trigger != nil && *ch.Trigger != w.Trigger {
		e.Changed, e.Trigger = append(e.Changed, "trigger"), *ch.Trigger
		if config == nil { // the config of another trigger does not fit
			config = map[string]any{}
		}
	}
	if config != nil {
		if config = cleanConfig(config); !sameJSON(config, w.TriggerConfig) {
			e.Changed, e.TriggerConfig = append(e.Changed, "trigger_config"), config
		}
	}
	if ch.Graph != nil {
		if g := cleanGraph(*ch.Graph); !sameJSON(g, w.Graph) {
			e.Changed, e.Graph = append(e.Changed, "graph"), &g
		}
	}
	if len(e.Changed) == 0 {
		return nil, nil
	}
	return []events.Event{e}, nil
}

func sameJSON(a, b any) bool {
	left, err := json.Marshal(a)
	if err != nil {
		return false
	}
	right, err := json.Marshal(b)
	return err == nil && bytes.Equal(left, right)
}

// Published are the events of a publication: those of the new version's stream, and those of the workflow's.
type Published struct{ Version, Workflow []events.Event }

// Publish makes the draft the live version under an id; without a draft it returns no events (rule WFL-5). The draft
// has passed Check. An archived workflow is refused with conflict.
func (w Workflow) Publish(versionID uuid.UUID, timeZone string, labels []events.SegmentLabel) (Published, error) {
	if w.Status == StatusArchived {
		return Published{}, fault.New(fault.Conflict, "The workflow is archived.")
	}
	if !w.HasDraft {
		return Published{}, nil
	}
	return Published{
		Version: []events.Event{&events.WorkflowVersionCreated{
			WorkflowID: w.ID, VersionID: versionID, Version: w.Version + 1, Trigger: w.Trigger, TriggerConfig: w.TriggerConfig,
			TimeZone: timeZone, Graph: w.Graph, Labels: labels, DraftedAt: w.DraftedAt,
		}},
		Workflow: []events.Event{&events.WorkflowPublished{
			WorkflowID: w.ID, From: string(w.Status), VersionID: versionID, Version: w.Version + 1, Trigger: w.Trigger,
			TriggerConfig: w.TriggerConfig, TimeZone: timeZone,
		}},
	}, nil
}
