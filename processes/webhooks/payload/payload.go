// Package payload renders events of the ledger as the bodies that webhook deliveries carry. It also has the types of
// the bodies and an example of each, from which /openapi.json is documented.
//
// The data of a body is the resource as the API shows it, at the time of the event. Its table of rules says which
// events of the ledger are sent, as which webhook type (rule WHK-20), and how their data is rendered.
package payload

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"ledgerline/domain/webhook"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/projections"
	"ledgerline/projections/readmodel"
)

// WebhookEvent is the body of a delivery (rule WHK-8). Data is the resource as the API shows it, at the time of the
// event.
type WebhookEvent[T any] struct {
	ID          string    `json:"id" doc:"evt_ id; the same on every attempt and replay"`
	Type        string    `json:"type"`
	Timestamp   string    `json:"timestamp" format:"date-time" doc:"When it happened"`
	WorkspaceID uuid.UUID `json:"workspace_id"`
	IsTest      bool      `json:"is_test" doc:"True for sandbox traffic and for test events"`
	Sequence    int64     `json:"sequence" minimum:"0" doc:"Position in the ledger: of two events of a workspace, the greater one happened later. Deliveries need not come in this order. 0 for test events"`
	Data        T         `json:"data"`
}

// Payload is an event of the ledger, rendered for delivery.
type Payload struct {
	Event *eventstore.Recorded
	ID    uuid.UUID // of the webhook event; receivers know it as evt_…
	Type  string    // webhook type
	// Subject is the contact whose erasure removes the payload; "" when it is about no contact.
	Subject string
	Body    []byte // JSON of a WebhookEvent; exactly these bytes are signed and posted
}

// rendered is the content of a payload that a rule made from an event of the ledger.
type rendered struct {
	data    any
	isTest  bool
	subject string
}

// rule sends one type of events of the ledger as one webhook type.
type rule struct {
	ledgerType  string
	webhookType string
	needs       []*readmodel.Projection                      // the read models that its resources are read from
	collect     func(r *eventstore.Recorded, res *resources) // adds the resources that render reads
	render      func(r *eventstore.Recorded, res *resources) (rendered, bool)
}

// send makes a rule for events of type E. render returns false for an event that is not sent; collect may be nil.
func send[E any](
	webhookType string, collect func(r *eventstore.Recorded, e *E, res *resources),
	render func(r *eventstore.Recorded, e *E, res *resources) (rendered, bool), needs ...*readmodel.Projection,
) rule {
	name, _ := events.Default.Name(events.Event(new(E)))
	return rule{
		ledgerType: name, webhookType: webhookType, needs: needs,
		collect: func(r *eventstore.Recorded, res *resources) {
			if e, ok := r.Event.(*E); ok && collect != nil {
				collect(r, e, res)
			}
		},
		render: func(r *eventstore.Recorded, res *resources) (rendered, bool) {
			e, ok := r.Event.(*E)
			if !ok {
				return rendered{}, false
			}
			return render(r, e, res)
		},
	}
}

// rules has every rule.
var rules = []rule{
	send("message.received", nil, renderReceived),
	sendStatus(func(e *events.MessageScheduled) string { return e.MessageID }),
	sendStatus(func(e *events.MessageDue) string { return e.MessageID }),
	sendStatus(func(e *events.MessageSending) string { return e.MessageID }),
	sendStatus(func(e *events.MessageSent) string { return e.MessageID }),
	sendStatus(func(e *events.MessageRetried) string { return e.MessageID }),
	sendStatus(func(e *events.MessageDelivered) string { return e.MessageID }),
	sendStatus(func(e *events.MessageRead) string { return e.MessageID }),
	sendStatus(func(e *events.MessageFailed) string { return e.MessageID }),
	send("contact.created",
		func(_ *eventstore.Recorded, e *events.ContactCreated, res *resources) { res.addContact(e.ContactID) },
		renderCreated, projections.Contacts),
	send("contact.opted_out",
		func(r *eventstore.Recorded, e *events.ContactOptedOut, res *resources) {
			res.addConsent(r, &e.ConsentEvidence)
		},
		func(r *eventstore.Recorded, e *events.ContactOptedOut, res *resources) (rendered, bool) {
			return renderConsent(r, &e.ConsentEvidence, res)
		}, projections.Contacts, projections.Lines, projections.Usage),
	send("contact.opted_in",
		func(r *eventstore.Recorded, e *events.ContactOptedIn, res *resources) {
			res.addConsent(r, &e.ConsentEvidence)
		},
		func(r *eventstore.Recorded, e *events.ContactOptedIn, res *resources) (rendered, bool) {
			return renderConsent(r, &e.ConsentEvidence, res)
		}, projections.Contacts, projections.Lines, projections.Usage),
	send("conversation.assigned",
		func(_ *eventstore.Recorded, e *events.ConversationAssigned, res *resources) {
			res.addConversation(e.ConversationID)
		},
		renderAssigned, projections.Conversations, projections.Contacts),
	send("agent.handoff",
		func(_ *eventstore.Recorded, e *events.AgentHandoff, res *resources) {
			res.addConversation(e.ConversationID)
		},
		renderHandoff, projections.Conversations, projections.Contacts),
	send("line.state_changed",
		func(r *eventstore.Recorded, e *events.LineStateChanged, res *resources) { res.addLine(r, e.LineID) },
		renderLineState, projections.Lines, projections.Usage),
	send("line.degraded",
		func(r *eventstore.Recorded, e *events.LineDegraded, res *resources) { res.addLine(r, e.LineID) },
		func(_ *eventstore.Recorded, e *events.LineDegraded, res *resources) (rendered, bool) {
			return renderHealth(e.LineID, e.Score, res)
		}, projections.Lines, projections.Usage),
	send("line.recovered",
		func(r *eventstore.Recorded, e *events.LineRecovered, res *resources) { res.addLine(r, e.LineID) },
		func(_ *eventstore.Recorded, e *events.LineRecovered, res *resources) (rendered, bool) {
			return renderHealth(e.LineID, e.Score, res)
		}, projections.Lines, projections.Usage),
	send("workflow.run.completed",
		func(_ *eventstore.Recorded, e *events.RunFinished, res *resources) { res.addRun(e.RunID) },
		renderRun, projections.Runs),
	send("workflow.webhook",
		func(_ *eventstore.Recorded, e *events.RunWebhookCalled, res *resources) { res.addContact(e.ContactID) },
		renderCall, projections.Contacts),
}

// rulesByLedgerType has the rules for each type of events of the ledger, in the order of rules.
var rulesByLedgerType = func() map[string][]rule {
	byType := map[string][]rule{}
	for _, one := range rules {
		byType[one.ledgerType] = append(byType[one.ledgerType], one)
	}
	return byType
}()

// LedgerTypes are the wire names of the events of the ledger that are sent.
func LedgerTypes() []string {
	var names []string
	for _, one := range rules {
		if first := rulesByLedgerType[one.ledgerType][0]; first.webhookType == one.webhookType {
			names = append(names, one.ledgerType)
		}
	}
	return names
}

// WebhookTypes are the webhook types as which events of a type of the ledger are sent.
func WebhookTypes(ledgerType string) []string {
	var types []string
	for _, one := range rulesByLedgerType[ledgerType] {
		types = append(types, one.webhookType)
	}
	return types
}

// Render renders some events of one shard, in their order. It waits until the read models that it reads show the last
// of the events, so that each resource includes the changes that the events made. Values that an event contains itself
// take precedence over later ones. Events of contacts that were erased meanwhile are omitted.
func Render(ctx context.Context, store *projections.Store, recorded []*eventstore.Recorded) ([]Payload, error) {
	if len(recorded) == 0 {
		return nil, nil
	}
	res := newResources(store)
	needs := map[*readmodel.Projection]bool{}
	for _, r := range recorded {
		for _, one := range rulesByLedgerType[r.Type] {
			one.collect(r, res)
			for _, p := range one.needs {
				needs[p] = true
			}
		}
	}
	last := recorded[len(recorded)-1]
	for p := range needs {
		if err := store.WaitForPosition(ctx, last.Shard, last.Position, p); err != nil {
			return nil, err
		}
	}
	if err := res.load(ctx); err != nil {
		return nil, err
	}
	var payloads []Payload
	for _, r := range recorded {
		if r.Erased {
			continue
		}
		for i, one := range rulesByLedgerType[r.Type] {
			content, ok := one.render(r, res)
			if !ok {
				continue
			}
			p := Payload{Event: r, ID: webhook.EventID(r.ID, i), Type: one.webhookType, Subject: content.subject}
			if called, ok := r.Event.(*events.RunWebhookCalled); ok { // the step of the run shows the id
				p.ID = called.EventID
			}
			body, err := json.Marshal(&WebhookEvent[any]{
				ID: webhook.FormatEventID(p.ID), Type: p.Type, Timestamp: readmodel.Stamp(r.OccurredAt), WorkspaceID: r.WorkspaceID,
				IsTest: content.isTest, Sequence: r.Position, Data: content.data,
			})
			if err != nil {
				return nil, fmt.Errorf("payload: render %s: %w", r.Type, err)
			}
			p.Body = body
			payloads = append(payloads, p)
		}
	}
	return payloads, nil
}
