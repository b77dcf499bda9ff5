package payload

import (
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"ledgerline/domain/webhook"
	"ledgerline/projections"
)

// Doc documents one webhook type.
type Doc struct {
	Type        string
	Summary     string
	Description string
	Body        exampleEvent // pointer to a WebhookEvent: the example that a test delivery sends (rule WHK-16)
}

// exampleEvent is a pointer to a WebhookEvent with data of any type.
type exampleEvent interface{ event() WebhookEvent[any] }

const (
	exampleAt           = "2026-01-31T16:04:05.000Z"
	exampleBefore       = "2026-01-31T16:04:04.000Z"
	exampleEventID      = "evt_01kg5x8f00e8r9hsnjf5k8q0c0"
	exampleWorkspace    = "019c0bd4-3c00-7233-8cb2-b27966745180"
	exampleContact      = "ctc_01kg5x8f00e8r9hsnjf5k8q0c1"
	exampleConversation = "cnv_01kg5x8f00e8r9hsnjf5k8q0c2"
	exampleMessage      = "msg_01kg5x8f00e8r9hsnjf5k8q0c3"
	exampleLine         = "ln_01kg5x8f00e8r9hsnjf5k8q0c4"
	examplePool         = "pool_01kg5x8f00e8r9hsnjf5k8q0c5"
	exampleUser         = "019c0bd4-3c00-7233-8cb2-b27966745181"
	exampleFlow         = "019c0bd4-3c00-7233-8cb2-b27966745182"
	exampleVersion      = "019c0bd4-3c00-7233-8cb2-b27966745183"
	exampleRun          = "019c0bd4-3c00-7233-8cb2-b27966745184"
	exampleAgent        = "019c0bd4-3c00-7233-8cb2-b27966745185"
	examplePhone        = "+12025550100"
	exampleSender       = "+12025550199"
)

func sampleContact() projections.Contact {
	return projections.Contact{
		ID: exampleContact, Phone: examplePhone, FirstName: new("Ada"), LastName: new("Example"), Company: new("Example Inc."),
		Email: new("ada@example.com"), Fields: map[string]any{}, Labels: []string{"example"}, ConsentStatus: "opted_in", ConsentAt: new(exampleAt),
		ConsentSource: new("example"), CreatedAt: exampleBefore, UpdatedAt: exampleAt,
	}
}

func sampleMessage(direction, status string) projections.Message {
	m := projections.Message{
		ID: exampleMessage, ConversationID: exampleConversation, ContactID: exampleContact, Direction: direction, Channel: "chat", Status: status,
		Body: "This is an example.", From: new(examplePhone), To: new(exampleSender), LineID: new(exampleLine), IsTest: true, Media: []projections.Media{},
		Metadata: map[string]any{}, CreatedAt: exampleBefore, UpdatedAt: exampleAt,
	}
	if direction == "outbound" {
		m.From, m.To, m.Source = m.To, m.From, new("api")
		m.SentAt, m.DeliveredAt = new(exampleBefore), new(exampleAt)
	}
	return m
}

func sampleConversation() projections.Conversation {
	return projections.Conversation{
		ID: exampleConversation, Status: "open", HandledBy: "team", Labels: []string{"example"}, LineID: new(exampleLine), AssigneeUserID: new(exampleUser),
		Contact:     projections.ConversationContact{ID: exampleContact, Phone: examplePhone, FirstName: new("Ada"), LastName: new("Example"), Company: new("Example Inc.")},
		LastMessage: &projections.LastMessage{ID: exampleMessage, Direction: "inbound", Preview: "This is an example."}, LastMessageAt: new(exampleAt),
		UnreadCount: 1, CreatedAt: exampleBefore, UpdatedAt: exampleAt,
	}
}

func sampleLine(state, reason string, health int) projections.Line {
	return projections.Line{
		ID: exampleLine, Phone: exampleSender, DisplayName: new("Example"), State: state, StateChangedAt: new(exampleAt), StateReason: &reason,
		HealthScore: health, PoolID: new(examplePool), WarmupDay: 22, DailyNewCap: 50, ContactCard: projections.ContactCard{Name: "Example Inc."},
		UsageToday: projections.LineUsage{Day: "2026-01-31", NewContacts: 1, NewContactsCap: 50, Sends: 2, SendsCap: 1000}, CreatedAt: exampleBefore,
	}
}

func example[T any](webhookType string, data T) *WebhookEvent[T] {
	return &WebhookEvent[T]{ID: exampleEventID, WorkspaceID: uuid.MustParse(exampleWorkspace), Type: webhookType, Timestamp: exampleAt, IsTest: true, Data: data}
}

// Docs documents the webhook types in the order of rule WHK-20, each with an example of fixed placeholder data.
func Docs() []Doc {
	doc := func(webhookType, summary, description string, body exampleEvent) Doc {
		return Doc{webhookType, summary, description, body}
	}
	contact, opted := sampleContact(), sampleContact()
	opted.ConsentStatus = "opted_out"
	return []Doc{
		doc("message.received", "A contact has written", "data is the inbound message.",
			example("message.received", sampleMessage("inbound", "received"))),
		doc("message.status", "The status of an outbound message has changed",
			"data is the message as it was right after the change, with the status before. The first status, queued, is no change and is not sent.",
			example("message.status", MessageChange{sampleMessage("outbound", "delivered"), "sent"})),
		doc("contact.created", "There is a new contact", "By a request, an import, or a message to or from an unknown number.",
			example("contact.created", contact)),
		doc("contact.opted_out", "A contact may not be messaged any more", "By STOP, by a request, or because the number opted out elsewhere in the organisation.",
			example("contact.opted_out", ContactConsent{opted, "opted_in"})),
		doc("contact.opted_in", "A contact has consented", "By START, by a request, or at its creation.",
			example("contact.opted_in", ContactConsent{contact, "unknown"})),
		doc("conversation.assigned", "A conversation was assigned to a person, or unassigned", "data is the conversation, with its previous assignee.",
			example("conversation.assigned", ConversationAssignment{sampleConversation(), nil})),
		doc("line.state_changed", "A line is in another state", "Every move between the states of a line.",
			example("line.state_changed", LineStateChange{sampleLine("active", "warmed_up", 100), "warming"})),
		doc("line.degraded", "A line's health fell so far that it is throttled", "It comes along with line.state_changed.",
			example("line.degraded", sampleLine("throttled", "degraded", 55))),
		doc("line.recovered", "A throttled line has recovered", "It comes along with line.state_changed.",
			example("line.recovered", sampleLine("active", "recovered", 75))),
		doc("workflow.run.completed", "A run of a workflow has ended", "data is the run with its steps.",
			example("workflow.run.completed", projections.WorkflowRun{
				ID: exampleRun, WorkflowID: exampleFlow, WorkflowVersionID: exampleVersion, Version: 1, ContactID: new(exampleContact), Status: "completed",
				StartedAt: exampleBefore, FinishedAt: new(exampleAt),
				Steps: []projections.RunStep{{NodeID: "start", Status: "completed", At: exampleBefore, Detail: map[string]any{"trigger": "contact.created"}}},
			})),
		doc("agent.handoff", "A conversation needs a person", "data has the conversation after the handoff, the reason, the agent and the previous handler.",
			example("agent.handoff", Handoff{sampleConversation(), "The contact asked for a person.", new(exampleAgent), "agent:" + exampleAgent})),
		doc("workflow.webhook", "A workflow has reached a webhook node", "data has the values of the node's config.",
			example("workflow.webhook", WorkflowCall{
				Name: "example", Data: map[string]any{"example": true}, WorkflowID: exampleFlow, RunID: exampleRun, Contact: contact,
			})),
	}
}

// Example returns the body of a test delivery of a webhook type, in JSON.
func Example(webhookType string, id, workspace uuid.UUID) ([]byte, error) {
	for _, d := range Docs() {
		if d.Type != webhookType {
			continue
		}
		body := d.Body.event()
		body.ID, body.WorkspaceID = webhook.FormatEventID(id), workspace
		text, err := json.Marshal(&body)
		if err != nil {
			return nil, fmt.Errorf("payload: example of %s: %w", webhookType, err)
		}
		return text, nil
	}
	return nil, fmt.Errorf("payload: there is no example of %s", webhookType)
}

func (e *WebhookEvent[T]) event() WebhookEvent[any] {
	return WebhookEvent[any]{e.ID, e.Type, e.Timestamp, e.WorkspaceID, e.IsTest, e.Sequence, e.Data}
}
