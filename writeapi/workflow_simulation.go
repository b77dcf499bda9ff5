package writeapi

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"ledgerline/commands"
	"ledgerline/domain/fault"
	"ledgerline/domain/workflow"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// SimulateWorkflow is the request of POST /v1/workflows/{id}/simulate.
type SimulateWorkflow struct {
	httpapi.UUIDParam
	Body struct {
		VersionID   *uuid.UUID          `json:"version_id,omitempty" doc:"A published version; left out, the draft where there is one, else the live version"`
		ContactID   *string             `json:"contact_id,omitempty" doc:"ctc_ id of the contact that the run is for; this or contact"`
		Contact     *SampleContactInput `json:"contact,omitempty" doc:"A contact that does not exist; this or contact_id"`
		At          *time.Time          `json:"at,omitempty" doc:"When the trigger fires, at most 365 days ahead; left out, now"`
		Message     *SampleMessageInput `json:"message,omitempty" doc:"The message that fires the trigger message.received; left out, the first keyword"`
		TriggerData map[string]any      `json:"trigger_data,omitempty" doc:"The data that is posted to a webhook trigger"`
		Replies     []SampleReplyInput  `json:"replies,omitempty" maxItems:"200" nullable:"false" doc:"What the contact answers, one for each wait for a reply in the order in which they are reached. Without one nobody answers"`
		Outcomes    map[string]string   `json:"outcomes,omitempty" doc:"The results of ai steps by the id of the node: done, unless handoff is given"`
	}
}

// SampleContactInput stands for a contact that does not exist.
type SampleContactInput struct {
	Phone         string         `json:"phone,omitempty" default:"+12025550100" maxLength:"32" doc:"E.164. It decides the quiet hours, and whether the number opted out"`
	FirstName     *string        `json:"first_name,omitempty" maxLength:"100"`
	LastName      *string        `json:"last_name,omitempty" maxLength:"100"`
	Company       *string        `json:"company,omitempty" maxLength:"200"`
	Email         *string        `json:"email,omitempty" maxLength:"254"`
	ConsentStatus string         `json:"consent_status,omitempty" enum:"unknown,opted_in" default:"unknown" doc:"Whether the contact agreed to messages"`
	Labels        []string       `json:"labels,omitempty" maxItems:"50" nullable:"false" doc:"Names of existing labels"`
	Fields        map[string]any `json:"fields,omitempty" doc:"Custom fields"`
}

// SampleMessageInput is a message that would come in.
type SampleMessageInput struct {
	Body   string  `json:"body" maxLength:"2000" doc:"The text"`
	LineID *string `json:"line_id,omitempty" doc:"The line that receives it; left out, one that fits the trigger"`
}

// SampleReplyInput is an answer of the contact.
type SampleReplyInput struct {
	Body  string `json:"body" maxLength:"2000" doc:"The text. A STOP word ends the run"`
	After string `json:"after,omitempty" default:"PT1M" maxLength:"40" doc:"How long after the wait began, as an ISO 8601 duration. Later than its timeout, it is too late"`
}

// WorkflowSimulation is what a run would do.
type WorkflowSimulation struct {
	WorkflowID        string           `json:"workflow_id" format:"uuid" doc:"The workflow"`
	WorkflowVersionID *string          `json:"workflow_version_id" format:"uuid" doc:"The version that was played; null for the draft"`
	Version           *int             `json:"version" minimum:"1" doc:"Number of that version; null for the draft"`
	ContactID         *string          `json:"contact_id" doc:"ctc_ id; null for a sample contact"`
	Fires             bool             `json:"fires" doc:"Whether the trigger would start a run. The steps are played in any case"`
	FiresNot          *string          `json:"not_fired_reason" doc:"Why it would not: contact_opted_out, trigger_config (the contact or the message does not fit), active_run or test_contact"`
	Status            string           `json:"status" enum:"completed,failed,cancelled" doc:"How the run would end"`
	ErrorCode         *string          `json:"error_code" doc:"Why it would fail or be cancelled"`
	StartedAt         string           `json:"started_at" format:"date-time" doc:"When the trigger fires"`
	FinishedAt        string           `json:"finished_at" format:"date-time" doc:"When the run would end"`
	Steps             []SimulationStep `json:"steps" nullable:"false" doc:"In the order in which they would happen"`
}

// SimulationStep is one step of a simulated run.
type SimulationStep struct {
	NodeID  string             `json:"node_id" doc:"Id of the node in the graph"`
	Type    string             `json:"type" enum:"trigger,condition,wait,send,assign,label,webhook,ai" doc:"What the step does"`
	Status  string             `json:"status" enum:"completed,skipped,failed,waiting" doc:"waiting: the run is cancelled during this wait"`
	At      string             `json:"at" format:"date-time" doc:"When the run reaches it"`
	EndedAt string             `json:"ended_at" format:"date-time" doc:"When it ends; later than at after a wait"`
	Detail  map[string]any     `json:"detail" doc:"As in the steps of a run, without ids"`
	Message *SimulationMessage `json:"message" doc:"Of a send step: the message that would be accepted"`
	Event   *SimulationEvent   `json:"event" doc:"Of a webhook step: what workflow.webhook would carry"`
}

// SimulationMessage is a message that a simulated run would send.
type SimulationMessage struct {
	Body      string               `json:"body" doc:"The text, with its variables filled in"`
	Media     []SimulationMedia    `json:"media" nullable:"false" doc:"Attachments"`
	Outcome   string               `json:"outcome" enum:"send,hold,refuse" doc:"send: it leaves at once; hold: it waits; refuse: it fails"`
	LeavesAt  *string              `json:"leaves_at" format:"date-time" doc:"When it would leave; null when that is not known, or never"`
	Deferrals []SimulationDeferral `json:"deferrals" nullable:"false" doc:"Why it would wait, one reason after the other"`
	Code      *string              `json:"code" doc:"With refuse: the error code"`
	LineID    *string              `json:"line_id" doc:"ln_ id of the line that would send it"`
	From      *string              `json:"from" doc:"E.164 of that line"`
}

// SimulationMedia is an attachment of a simulated message.
type SimulationMedia struct {
	URL string `json:"url" doc:"Where it is fetched from"`
}

// SimulationDeferral is a reason why a simulated message would wait.
type SimulationDeferral struct {
	Reason string         `json:"reason" doc:"As in deferred events"`
	Until  *string        `json:"until" format:"date-time" doc:"When it ends; null when that is not known"`
	Detail map[string]any `json:"detail" doc:"Further facts about the reason"`
}

// SimulationEvent is an event that a simulated run would send to the customer's endpoints.
type SimulationEvent struct {
	Name string         `json:"name" doc:"As the step names it"`
	Data map[string]any `json:"data" doc:"The data of the step"`
}

// maxSimulatedAhead is how far ahead a simulation may begin.
const maxSimulatedAhead = 365 * 24 * time.Hour

// simulation converts the request. now is the present time.
func (in *SimulateWorkflow) simulation(now time.Time) (commands.SimulateWorkflow, error) {
	b := &in.Body
	s := commands.SimulateWorkflow{
		WorkflowID: in.ID, VersionID: b.VersionID, ContactID: b.ContactID, At: b.At, Data: b.TriggerData, Outcomes: map[string]string{},
	}
	var issues []fault.Issue
	wrong := func(path, code, message string) {
		issues = append(issues, fault.Issue{Location: "body", Path: path, Code: code, Message: message})
	}
	if (b.ContactID == nil) == (b.Contact == nil) {
		wrong("/contact_id", "exactly_one", "Exactly one of contact_id and contact is needed.")
	}
	if c := b.Contact; c != nil {
		s.Sample = commands.SampleContact{
			Phone: c.Phone, FirstName: c.FirstName, LastName: c.LastName, Company: c.Company, Email: c.Email, Fields: c.Fields,
			Labels: c.Labels, OptedIn: c.ConsentStatus == "opted_in",
		}
	}
	switch {
	case b.At == nil:
	case b.At.Before(now):
		wrong("/at", "too_early", "A simulation begins now or later.")
	case b.At.After(now.Add(maxSimulatedAhead)):
		wrong("/at", "too_late", "A simulation begins at most 365 days ahead.")
	}
	if b.Message != nil {
		s.Body, s.LineID = &b.Message.Body, b.Message.LineID
	}
	for i, reply := range b.Replies {
		after, err := workflow.ParseDelay(reply.After)
		if err != nil {
			wrong(fmt.Sprintf("/replies/%d/after", i), "invalid_format", "Expected an ISO 8601 duration of at most P365D, for example PT5M.")
		}
		s.Replies = append(s.Replies, commands.SampleReply{After: after, Body: reply.Body})
	}
	for node, outcome := range b.Outcomes {
		if outcome != workflow.LabelDone && outcome != workflow.LabelHandoff {
			wrong("/outcomes/"+workflow.EscapePointer(node), "invalid_value", "Expected done or handoff.")
		}
		s.Outcomes[node] = outcome
	}
	if len(issues) > 0 {
		return s, fault.Invalids(issues...)
	}
	return s, nil
}

func (a *API) simulateWorkflow(ctx context.Context, c *httpapi.Call, in *SimulateWorkflow) (WorkflowSimulation, error) {
	simulate, err := in.simulation(a.store.Ledger().Now())
	if err != nil {
		return WorkflowSimulation{}, err
	}
	if err := a.store.WaitForHead(ctx, a.store.Ledger().ShardOf(c.OrganisationID), projections.Contacts); err != nil {
		return WorkflowSimulation{}, err
	}
	played, err := a.app.SimulateWorkflow(ctx, request(c), simulate, a.store.ContactTimes)
	if err != nil {
		return WorkflowSimulation{}, translate(err)
	}
	return simulated(&played), nil
}

func simulated(s *commands.Simulation) WorkflowSimulation {
	out := WorkflowSimulation{
		WorkflowID: s.WorkflowID.String(), Version: s.Number, ContactID: s.ContactID, Fires: s.NotFired == "", FiresNot: orNull(s.NotFired),
		Status: string(s.Status), ErrorCode: s.Code, StartedAt: stampOf(s.StartedAt), FinishedAt: stampOf(s.FinishedAt),
	}
	if s.VersionID != nil {
		id := s.VersionID.String()
		out.WorkflowVersionID = &id
	}
	for i := range s.Steps {
		step := &s.Steps[i]
		shown := SimulationStep{
			NodeID: step.NodeID, Type: step.Type, Status: step.Status, At: stampOf(step.ReachedAt), EndedAt: stampOf(step.EndedAt), Detail: step.Detail,
		}
		if step.Event != nil {
			shown.Event = &SimulationEvent{step.Event.Name, step.Event.Data}
		}
		if step.Message != nil {
			shown.Message = simulatedMessage(step.Message)
		}
		out.Steps = append(out.Steps, shown)
	}
	return out
}

func simulatedMessage(m *commands.SimulatedMessage) *SimulationMessage {
	shown := &SimulationMessage{Body: m.Body, Outcome: "send", Code: orNull(m.Code), LeavesAt: stampOrNull(m.LeavesAt)}
	switch {
	case m.Code != "":
		shown.Outcome = "refuse"
	case len(m.Deferrals) > 0:
		shown.Outcome = "hold"
	}
	for _, media := range m.Media {
		shown.Media = append(shown.Media, SimulationMedia{media.URL})
	}
	for _, d := range m.Deferrals {
		shown.Deferrals = append(shown.Deferrals, SimulationDeferral{d.Reason, stampOrNull(d.Until), d.Detail})
	}
	if m.Line != nil {
		shown.LineID, shown.From = &m.Line.ID, &m.Line.Phone
	}
	return shown
}

func stampOf(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }

func stampOrNull(at *time.Time) *string {
	if at == nil {
		return nil
	}
	text := stampOf(*at)
	return &text
}
