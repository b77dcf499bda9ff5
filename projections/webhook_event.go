package projections

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"ledgerline/domain/webhook"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/projections/readmodel"
)

// WebhookEvent is the body of a delivery (decisions, section 10). Data is the resource as the API shows it, at the time of
// the event.
type WebhookEvent[T any] struct {
	ID          string    `json:"id" doc:"evt_ id; the same on every attempt and replay"`
	Type        string    `json:"type"`
	Timestamp   string    `json:"timestamp" format:"date-time" doc:"When it happened"`
	WorkspaceID uuid.UUID `json:"workspace_id"`
	IsTest      bool      `json:"is_test" doc:"True for sandbox traffic and for test events"`
	Sequence    int64     `json:"sequence" minimum:"0" doc:"Place in the ledger: of two events of a workspace, the greater one happened later. Deliveries need not come in this order. 0 for test events"`
	Data        T         `json:"data"`
}

// Telling is an event of the ledger as receivers get it.
type Telling struct {
	Event *eventstore.Recorded
	ID    uuid.UUID
	Type  string
	// Subject is the contact whose erasure removes it; "" when it is about none.
	Subject string
	Body    []byte // JSON of a WebhookEvent, to be signed as it is
}

// told is what a source makes of an event.
type told struct {
	data    any
	test    bool
	subject string
}

// source is one line of the table of what is told: of which event of the ledger, as which type, and how.
type source struct {
	event string
	kind  string
	needs []*readmodel.Projection                // what its views are read from
	ask   func(r *eventstore.Recorded, v *views) // which resources it will look at
	tell  func(r *eventstore.Recorded, v *views) (told, bool)
}

func tells[E any](kind string, ask func(r *eventstore.Recorded, e *E, v *views), tell func(r *eventstore.Recorded, e *E, v *views) (told, bool), needs ...*readmodel.Projection) source {
	name, _ := events.Default.Name(events.Event(new(E)))
	return source{
		event: name, kind: kind, needs: needs,
		ask: func(r *eventstore.Recorded, v *views) {
			if e, ok := r.Event.(*E); ok && ask != nil {
				ask(r, e, v)
			}
		},
		tell: func(r *eventstore.Recorded, v *views) (told, bool) {
			e, ok := r.Event.(*E)
			if !ok {
				return told{}, false
			}
			return tell(r, e, v)
		},
	}
}

// sources are all of them. workflow.run.completed and workflow.webhook join with the workflows.
var sources = []source{
	tells("message.received", nil, tellReceived),
	status(func(e *events.MessageScheduled) string { return e.MessageID }),
	status(func(e *events.MessageDue) string { return e.MessageID }),
	status(func(e *events.MessageSending) string { return e.MessageID }),
	status(func(e *events.MessageSent) string { return e.MessageID }),
	status(func(e *events.MessageRetried) string { return e.MessageID }),
	status(func(e *events.MessageDelivered) string { return e.MessageID }),
	status(func(e *events.MessageRead) string { return e.MessageID }),
	status(func(e *events.MessageFailed) string { return e.MessageID }),
	tells("contact.created", func(_ *eventstore.Recorded, e *events.ContactCreated, v *views) { v.contact(e.ContactID) }, tellCreated, Contacts),
	tells("contact.opted_out", func(r *eventstore.Recorded, e *events.ContactOptedOut, v *views) { v.consent(r, &e.ConsentEvidence) },
		func(r *eventstore.Recorded, e *events.ContactOptedOut, v *views) (told, bool) {
			return tellConsent(r, &e.ConsentEvidence, v)
		}, Contacts, Lines, Usage),
	tells("contact.opted_in", func(r *eventstore.Recorded, e *events.ContactOptedIn, v *views) { v.consent(r, &e.ConsentEvidence) },
		func(r *eventstore.Recorded, e *events.ContactOptedIn, v *views) (told, bool) {
			return tellConsent(r, &e.ConsentEvidence, v)
		}, Contacts, Lines, Usage),
	tells("conversation.assigned", func(_ *eventstore.Recorded, e *events.ConversationAssigned, v *views) {
		v.conversation(e.ConversationID)
	},
		tellAssigned, Conversations, Contacts),
	tells("agent.handoff", func(_ *eventstore.Recorded, e *events.AgentHandoff, v *views) { v.conversation(e.ConversationID) },
		tellHandoff, Conversations, Contacts),
	tells("line.state_changed", func(r *eventstore.Recorded, e *events.LineStateChanged, v *views) { v.line(r, e.LineID) }, tellLine, Lines, Usage),
	tells("line.degraded", func(r *eventstore.Recorded, e *events.LineDegraded, v *views) { v.line(r, e.LineID) },
		func(_ *eventstore.Recorded, e *events.LineDegraded, v *views) (told, bool) {
			return tellHealth(e.LineID, e.Score, v)
		}, Lines, Usage),
	tells("line.recovered", func(r *eventstore.Recorded, e *events.LineRecovered, v *views) { v.line(r, e.LineID) },
		func(_ *eventstore.Recorded, e *events.LineRecovered, v *views) (told, bool) {
			return tellHealth(e.LineID, e.Score, v)
		}, Lines, Usage),
}

// sourcesOf is the table by event.
var sourcesOf = func() map[string][]source {
	of := map[string][]source{}
	for _, s := range sources {
		of[s.event] = append(of[s.event], s)
	}
	return of
}()

// ToldEvents are the wire names of the events of the ledger that are told.
func ToldEvents() []string {
	var names []string
	for _, s := range sources {
		if of := sourcesOf[s.event]; of[0].kind == s.kind {
			names = append(names, s.event)
		}
	}
	return names
}

// ToldAs are the types as which an event of the ledger is told.
func ToldAs(event string) []string {
	var kinds []string
	for _, s := range sourcesOf[event] {
		kinds = append(kinds, s.kind)
	}
	return kinds
}

// Tell makes what receivers get of some events of one shard, in order. It waits until the read models that it looks at
// show the last of the events, so that a resource is shown with what happened to it; what an event itself says of it goes
// before what came later. What was erased meanwhile is not told.
func (s *Store) Tell(ctx context.Context, recorded []*eventstore.Recorded) ([]Telling, error) {
	if len(recorded) == 0 {
		return nil, nil
	}
	v := newViews(s)
	needs := map[*readmodel.Projection]bool{}
	for _, r := range recorded {
		for _, source := range sourcesOf[r.Type] {
			source.ask(r, v)
			for _, p := range source.needs {
				needs[p] = true
			}
		}
	}
	last := recorded[len(recorded)-1]
	for p := range needs {
		if err := s.Reached(ctx, last.Shard, last.Position, p); err != nil {
			return nil, err
		}
	}
	if err := v.load(ctx, s); err != nil {
		return nil, err
	}
	var tellings []Telling
	for _, r := range recorded {
		if r.Erased {
			continue
		}
		for i, source := range sourcesOf[r.Type] {
			t, ok := source.tell(r, v)
			if !ok {
				continue
			}
			telling := Telling{Event: r, ID: webhook.EventID(r.ID, i), Type: source.kind, Subject: t.subject}
			body, err := json.Marshal(&WebhookEvent[any]{
				ID: EventID(telling.ID), Type: telling.Type, Timestamp: readmodel.Stamp(r.OccurredAt), WorkspaceID: r.WorkspaceID, IsTest: t.test,
				Sequence: r.Position, Data: t.data,
			})
			if err != nil {
				return nil, fmt.Errorf("projections: tell %s: %w", r.Type, err)
			}
			telling.Body = body
			tellings = append(tellings, telling)
		}
	}
	return tellings, nil
}
