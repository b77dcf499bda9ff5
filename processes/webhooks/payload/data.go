package payload

import (
	"strings"

	"ledgerline/domain/conversation"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/projections"
	"ledgerline/projections/readmodel"
)

// MessageChange is the data of message.status.
type MessageChange struct {
	projections.Message
	PreviousStatus string `json:"previous_status" enum:"queued,scheduled,sending,sent,delivered,read,failed"`
}

// ContactConsent is the data of contact.opted_out and contact.opted_in.
type ContactConsent struct {
	projections.Contact
	PreviousConsentStatus string `json:"previous_consent_status" enum:"unknown,opted_in,opted_out"`
}

// ConversationAssignment is the data of conversation.assigned.
type ConversationAssignment struct {
	projections.Conversation
	PreviousAssigneeUserID *string `json:"previous_assignee_user_id" format:"uuid"`
}

// Handoff is the data of agent.handoff.
type Handoff struct {
	Conversation      projections.Conversation `json:"conversation" doc:"After the handoff"`
	Reason            string                   `json:"reason"`
	AgentID           *string                  `json:"agent_id" format:"uuid" doc:"The agent that handed it over; null for a workflow"`
	PreviousHandledBy string                   `json:"previous_handled_by" doc:"Who handed it over: agent:<agent id> or workflow:<run id>"`
}

// LineStateChange is the data of line.state_changed.
type LineStateChange struct {
	projections.Line
	PreviousState string `json:"previous_state" enum:"provisioning,ready,warming,active,throttled,paused,quarantined,retired"`
}

// WorkflowCall is the data of workflow.webhook: what the webhook node of a workflow sends.
type WorkflowCall struct {
	Name       string              `json:"name" doc:"As the node's config has it"`
	Data       map[string]any      `json:"data" doc:"As the node's config has it"`
	WorkflowID string              `json:"workflow_id" format:"uuid" doc:"The workflow of the run"`
	RunID      string              `json:"run_id" format:"uuid" doc:"The run that reached the node"`
	Contact    projections.Contact `json:"contact"`
}

func renderReceived(r *eventstore.Recorded, e *events.MessageReceived, res *resources) (rendered, bool) {
	m, _, ok := res.store.MessageAt([]eventstore.Recorded{*r}, r.Version)
	return rendered{m, e.IsTest, e.ContactID}, ok
}

// sendStatus is the rule for one type of event that may change the status of a message. The message is rendered as it
// was right after the event, whatever has happened to it since.
func sendStatus[E any](messageID func(*E) string) rule {
	return send("message.status", func(_ *eventstore.Recorded, e *E, res *resources) { res.addStream(messageID(e)) },
		func(r *eventstore.Recorded, e *E, res *resources) (rendered, bool) {
			m, before, ok := res.store.MessageAt(res.streams[messageID(e)], r.Version)
			return rendered{MessageChange{m, before}, m.IsTest, m.ContactID}, ok && before != "" && before != m.Status
		})
}

func renderCreated(_ *eventstore.Recorded, e *events.ContactCreated, res *resources) (rendered, bool) {
	c, ok := res.contacts[e.ContactID]
	return rendered{c, e.IsTest, e.ContactID}, ok
}

// renderConsent renders a change of consent. Evidence that only confirms the present consent is not sent.
func renderConsent(r *eventstore.Recorded, e *events.ConsentEvidence, res *resources) (rendered, bool) {
	c, ok := res.contacts[e.ContactID]
	at := readmodel.Stamp(r.OccurredAt)
	c.ConsentStatus, c.ConsentAt, c.ConsentSource = e.To, &at, e.Source
	return rendered{ContactConsent{c, e.From}, res.isSandboxConsent(e), e.ContactID}, ok && e.From != e.To
}

// isSandboxConsent reports whether a change of consent is sandbox traffic: it came in through a sandbox line, or its
// contact was created with a test key.
func (res *resources) isSandboxConsent(e *events.ConsentEvidence) bool {
	if e.LineID != nil {
		return res.lines[*e.LineID].IsSandbox
	}
	for _, r := range res.streams[e.ContactID] {
		if created, ok := r.Event.(*events.ContactCreated); ok {
			return created.IsTest
		}
	}
	return false
}

func renderAssigned(_ *eventstore.Recorded, e *events.ConversationAssigned, res *resources) (rendered, bool) {
	c, ok := res.conversations[e.ConversationID]
	c.AssigneeUserID = readmodel.ZeroToNil(readmodel.NilToZero(e.To))
	return rendered{ConversationAssignment{c, readmodel.ZeroToNil(readmodel.NilToZero(e.From))}, e.IsTest, e.ContactID}, ok
}

func renderHandoff(_ *eventstore.Recorded, e *events.AgentHandoff, res *resources) (rendered, bool) {
	c, ok := res.conversations[e.ConversationID]
	data := Handoff{Conversation: c, Reason: e.Why.Reason, PreviousHandledBy: e.From}
	if id, found := strings.CutPrefix(e.From, conversation.AgentPrefix); found {
		data.AgentID = &id
	}
	return rendered{data, e.IsTest, e.ContactID}, ok
}

func renderLineState(r *eventstore.Recorded, e *events.LineStateChanged, res *resources) (rendered, bool) {
	l, ok := res.lines[e.LineID]
	at := readmodel.Stamp(r.OccurredAt)
	l.State, l.StateReason, l.StateChangedAt = e.To, e.Reason, &at
	return rendered{LineStateChange{l, e.From}, l.IsSandbox, ""}, ok
}

// renderHealth renders a line that was degraded or has recovered. The change of its state is an event of its own.
func renderHealth(lineID string, score int, res *resources) (rendered, bool) {
	l, ok := res.lines[lineID]
	l.HealthScore = score
	return rendered{l, l.IsSandbox, ""}, ok
}

func renderRun(_ *eventstore.Recorded, e *events.RunFinished, res *resources) (rendered, bool) {
	run, ok := res.runs[e.RunID.String()]
	subject := e.ContactID
	if run.ContactID == nil { // the contact was erased before: nothing is left to remove, and the event is still sent
		subject = ""
	}
	return rendered{run, false, subject}, ok
}

func renderCall(_ *eventstore.Recorded, e *events.RunWebhookCalled, res *resources) (rendered, bool) {
	c, ok := res.contacts[e.ContactID]
	return rendered{WorkflowCall{e.Name, e.Data, e.WorkflowID.String(), e.RunID.String(), c}, false, e.ContactID}, ok
}
