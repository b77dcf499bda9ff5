package writeapi

import (
	"context"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"ledgerline/commands"
	"ledgerline/domain/workflow"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// WorkflowGraphInput is the graph of a draft. Only its form is checked before it is published.
type WorkflowGraphInput struct {
	Nodes []WorkflowNodeInput `json:"nodes" maxItems:"200" nullable:"false" doc:"The steps"`
	Edges []WorkflowEdgeInput `json:"edges" maxItems:"400" nullable:"false" doc:"The order of the steps"`
}

// WorkflowNodeInput is one step of a graph.
type WorkflowNodeInput struct {
	ID       string         `json:"id" maxLength:"64" doc:"Unique in the graph"`
	Type     string         `json:"type" enum:"trigger,condition,wait,send,assign,label,webhook,ai" doc:"What the step does"`
	Config   map[string]any `json:"config,omitempty" default:"{}" doc:"Depends on the type"`
	Position map[string]any `json:"position,omitempty" doc:"Where an editor draws the node; it is kept as it is"`
}

// WorkflowEdgeInput leads from one node to the next.
type WorkflowEdgeInput struct {
	From  string `json:"from" maxLength:"64" doc:"Id of a node"`
	To    string `json:"to" maxLength:"64" doc:"Id of a node"`
	Label string `json:"label,omitempty" maxLength:"40" doc:"With which result of the node the edge is taken: true, false, replied, timeout, done or handoff"`
}

func (g *WorkflowGraphInput) graph() workflow.Graph {
	var out workflow.Graph
	for _, n := range g.Nodes {
		out.Nodes = append(out.Nodes, workflow.Node(n))
	}
	for _, e := range g.Edges {
		out.Edges = append(out.Edges, workflow.Edge(e))
	}
	return out
}

// NewWorkflowGraph is the graph of a new workflow; left out, it is empty.
type NewWorkflowGraph struct{ WorkflowGraphInput }

// IsZero reports whether the graph was left out.
func (g NewWorkflowGraph) IsZero() bool { return g.Nodes == nil && g.Edges == nil }

// Schema implements huma.SchemaProvider: the schema of a graph with its default.
func (NewWorkflowGraph) Schema(registry huma.Registry) *huma.Schema {
	schema := *registry.SchemaFromRef(registry.Schema(reflect.TypeFor[WorkflowGraphInput](), true, "").Ref)
	schema.Default = map[string]any{"nodes": []any{}, "edges": []any{}}
	return &schema
}

// CreateWorkflow is the request of POST /v1/workflows.
type CreateWorkflow struct {
	Body struct {
		Name          string           `json:"name" maxLength:"120" doc:"For people; names may repeat"`
		Trigger       string           `json:"trigger" enum:"message.received,contact.created,schedule,webhook" doc:"What starts runs"`
		TriggerConfig map[string]any   `json:"trigger_config,omitempty" default:"{}" doc:"Depends on the trigger"`
		Graph         NewWorkflowGraph `json:"graph,omitzero" doc:"The steps"`
	}
}

func (a *API) createWorkflow(ctx context.Context, c *httpapi.Call, in *CreateWorkflow) (httpapi.WriteResult, error) {
	b := &in.Body
	draft := workflow.Draft{Trigger: b.Trigger, TriggerConfig: b.TriggerConfig, Graph: b.Graph.graph()}
	return result(a.app.CreateWorkflow(ctx, request(c), b.Name, draft))
}

// UpdateWorkflow is the request of PATCH /v1/workflows/{id}.
type UpdateWorkflow struct {
	httpapi.UUIDParam
	Body struct {
		Name          httpapi.Optional[string]             `json:"name,omitzero" maxLength:"120" doc:"For people; names may repeat"`
		Trigger       httpapi.Optional[string]             `json:"trigger,omitzero" enum:"message.received,contact.created,schedule,webhook" doc:"What starts runs"`
		TriggerConfig httpapi.Optional[map[string]any]     `json:"trigger_config,omitzero" doc:"Replaces the config; a token is ignored"`
		Graph         httpapi.Optional[WorkflowGraphInput] `json:"graph,omitzero" doc:"Replaces the graph"`
		Status        httpapi.Optional[string]             `json:"status,omitzero" enum:"paused,archived,live" doc:"live resumes a paused workflow; archived is final"`
	}
}

func (a *API) updateWorkflow(ctx context.Context, c *httpapi.Call, in *UpdateWorkflow) (httpapi.WriteResult, error) {
	b := &in.Body
	change := workflow.Change{Name: b.Name.Ptr(), Trigger: b.Trigger.Ptr(), TriggerConfig: b.TriggerConfig.Value}
	if b.Graph.Set {
		graph := b.Graph.Value.graph()
		change.Graph = &graph
	}
	if b.Status.Set {
		status := workflow.Status(b.Status.Value)
		change.Status = &status
	}
	return result(a.app.UpdateWorkflow(ctx, request(c), in.ID, change))
}

func (a *API) publishWorkflow(ctx context.Context, c *httpapi.Call, in *httpapi.UUIDParam) (httpapi.WriteResult, error) {
	return result(a.app.PublishWorkflow(ctx, request(c), in.ID))
}

// FireWorkflowTrigger is the request of POST /v1/workflow-triggers/{token}.
type FireWorkflowTrigger struct {
	Token string         `path:"token" doc:"As trigger_config of the published workflow shows it"`
	Body  map[string]any `doc:"Any data. The phone number of the contact is at phone_path of trigger_config; templates may use the rest"`
}

// WorkflowTriggered answers a post to a webhook trigger.
type WorkflowTriggered struct {
	RunID *string `json:"run_id" format:"uuid" doc:"The run that was started; null when the contact opted out, or a run of the workflow is active for it already"`
}

func workflowTriggered(made commands.TriggeredRun) WorkflowTriggered {
	var answer WorkflowTriggered
	if made.RunID != nil {
		id := made.RunID.String()
		answer.RunID = &id
	}
	return answer
}

// maxTriggerBody is the largest body of a post to a webhook trigger, in bytes.
const maxTriggerBody = 256 << 10

func (a *API) fireWorkflowTrigger(ctx context.Context, c *httpapi.Call, in *FireWorkflowTrigger) (httpapi.WriteResult, error) {
	made, err := a.app.FireTrigger(ctx, request(c), commands.FireTrigger{
		WorkflowID: uuid.MustParse(c.ID), Data: in.Body, Answer: recordedBody(c, workflowTriggered), // the id of a trigger is that of its workflow
	})
	return resultWithBody(c, made.Result, made, workflowTriggered, err)
}

func (a *API) workflows() resource[projections.Workflow] {
	return resource[projections.Workflow]{
		a.store, "workflow", byUUID(a.store.Workflow), consumers(projections.Workflows, projections.Runs),
	}
}
