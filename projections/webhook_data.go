package projections

import (
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/projections/readmodel"
)

// MessageChange is the data of message.status.
type MessageChange struct {
	Message
	PreviousStatus string `json:"previous_status" enum:"queued,scheduled,sending,sent,delivered,read,failed"`
}

// ContactConsent is the data of contact.opted_out and contact.opted_in.
type ContactConsent struct {
	Contact
	PreviousConsentStatus string `json:"previous_consent_status" enum:"unknown,opted_in,opted_out"`
}

// ConversationAssignment is the data of conversation.assigned.
type ConversationAssignment struct {
	Conversation
	PreviousAssigneeUserID *string `json:"previous_assignee_user_id" format:"uuid"`
}

// Handoff is the data of agent.handoff.
type Handoff struct {
	Conversation
	PreviousHandledBy string `json:"previous_handled_by" doc:"Who handed it off: agent:<agent id> or workflow:<run id>"`
	Reason            string `json:"reason"`
}

// LineState is the data of line.state_changed.
type LineState struct {
	Line
	PreviousState string `json:"previous_state" enum:"provisioning,ready,warming,active,throttled,paused,quarantined,retired"`
}

// RunStep is one step of a workflow's run.
type RunStep struct {
	NodeID string         `json:"node_id"`
	Status string         `json:"status" enum:"completed,skipped,failed,waiting"`
	At     string         `json:"at" format:"date-time"`
	Detail map[string]any `json:"detail"`
}

// WorkflowRun is the data of workflow.run.completed (administration 2.3).
type WorkflowRun struct {
	ID                string    `json:"id" format:"uuid"`
	WorkflowID        string    `json:"workflow_id" format:"uuid"`
	WorkflowVersionID string    `json:"workflow_version_id" format:"uuid"`
	Version           int       `json:"version" minimum:"1"`
	ContactID         *string   `json:"contact_id" doc:"ctc_ id"`
	Status            string    `json:"status" enum:"completed,failed,cancelled"`
	ErrorCode         *string   `json:"error_code"`
	StartedAt         string    `json:"started_at" format:"date-time"`
	FinishedAt        *string   `json:"finished_at" format:"date-time"`
	ResumeAt          *string   `json:"resume_at" format:"date-time"`
	Steps             []RunStep `json:"steps" nullable:"false"`
}

// WorkflowCall is the data of workflow.webhook: what a workflow's webhook node says.
type WorkflowCall struct {
	WorkflowID string         `json:"workflow_id" format:"uuid"`
	RunID      string         `json:"run_id" format:"uuid"`
	NodeID     string         `json:"node_id"`
	ContactID  *string        `json:"contact_id" doc:"ctc_ id"`
	Name       string         `json:"name"`
	Data       map[string]any `json:"data" doc:"As the node's config has it"`
}

func tellReceived(r *eventstore.Recorded, e *events.MessageReceived, v *views) (told, bool) {
	m, _, ok := v.store.MessageAt([]eventstore.Recorded{*r}, r.Version)
	return told{m, e.IsTest, e.ContactID}, ok
}

// status is the line of the table for one event that may change a message's status. The message is shown as it was then,
// whatever has become of it since.
func status[E any](id func(*E) string) source {
	return tells("message.status", func(_ *eventstore.Recorded, e *E, v *views) { v.history(id(e)) },
		func(r *eventstore.Recorded, e *E, v *views) (told, bool) {
			m, before, ok := v.store.MessageAt(v.histories[id(e)], r.Version)
			return told{MessageChange{m, before}, m.IsTest, m.ContactID}, ok && before != "" && before != m.Status
		})
}

func tellCreated(_ *eventstore.Recorded, e *events.ContactCreated, v *views) (told, bool) {
	c, ok := v.contacts[e.ContactID]
	return told{c, e.IsTest, e.ContactID}, ok
}

// tellConsent tells of a change; evidence that confirms what was so already is none.
func tellConsent(r *eventstore.Recorded, e *events.ConsentEvidence, v *views) (told, bool) {
	c, ok := v.contacts[e.ContactID]
	at := readmodel.Stamp(r.OccurredAt)
	c.ConsentStatus, c.ConsentAt, c.ConsentSource = e.To, &at, e.Source
	return told{ContactConsent{c, e.From}, v.sandboxed(e), e.ContactID}, ok && e.From != e.To
}

// sandboxed tells whether a change of consent is sandbox traffic: it came in through a sandbox line, or it is about a
// contact that a test key made.
func (v *views) sandboxed(e *events.ConsentEvidence) bool {
	if e.LineID != nil {
		return v.lines[*e.LineID].IsSandbox
	}
	for _, r := range v.histories[e.ContactID] {
		if created, ok := r.Event.(*events.ContactCreated); ok {
			return created.IsTest
		}
	}
	return false
}

func tellAssigned(_ *eventstore.Recorded, e *events.ConversationAssigned, v *views) (told, bool) {
	c, ok := v.conversations[e.ConversationID]
	c.AssigneeUserID = readmodel.ZeroToNil(readmodel.NilToZero(e.To))
	return told{ConversationAssignment{c, readmodel.ZeroToNil(readmodel.NilToZero(e.From))}, e.IsTest, e.ContactID}, ok
}

func tellHandoff(_ *eventstore.Recorded, e *events.AgentHandoff, v *views) (told, bool) {
	c, ok := v.conversations[e.ConversationID]
	return told{Handoff{c, e.From, e.Why.Reason}, e.IsTest, e.ContactID}, ok
}

func tellLine(r *eventstore.Recorded, e *events.LineStateChanged, v *views) (told, bool) {
	l, ok := v.lines[e.LineID]
	at := readmodel.Stamp(r.OccurredAt)
	l.State, l.StateReason, l.StateChangedAt = e.To, e.Reason, &at
	return told{LineState{l, e.From}, l.IsSandbox, ""}, ok
}

// tellHealth tells of a line whose health has passed a bound. That it moved is told by itself.
func tellHealth(id string, score int, v *views) (told, bool) {
	l, ok := v.lines[id]
	l.HealthScore = score
	return told{l, l.IsSandbox, ""}, ok
}
