package feed

import (
	"fmt"
	"slices"

	"ledgerline/events"
	"ledgerline/eventstore"
)

// Handlers calls the function that is registered for an event's type. A consumer derives its Types and its dispatch
// from one Handlers, so that the types that it wants and the types that it handles are the same:
//
//	var handlers = feed.NewHandlers(
//		feed.On(func(c *Changes, e *events.LabelCreated, r *eventstore.Recorded) { … }),
//		feed.On(labelUpdated),
//	)
//
//	func (*Labels) Types() []string { return handlers.Types() }
//
// S is what the functions write to, for example the changes of a batch. Handlers do not change after NewHandlers and
// may be used concurrently.
type Handlers[S any] struct {
	types  []string
	byType map[string]func(S, *eventstore.Recorded)
}

// Handler is the function for one event type.
type Handler[S any] struct {
	eventType string
	handle    func(S, *eventstore.Recorded)
}

// On registers a function for the events of struct type E, a pointer to a struct of package events. It panics when E is
// not in the registry of events.
func On[S any, E events.Event](handle func(state S, e E, r *eventstore.Recorded)) Handler[S] {
	var none E
	name, _ := events.Default.Name(none)
	return Handler[S]{name, func(state S, r *eventstore.Recorded) {
		e, ok := r.Event.(E)
		if !ok {
			panic(fmt.Sprintf("feed: the event %s at position %d holds a %T, want a %T", name, r.Position, r.Event, none))
		}
		handle(state, e, r)
	}}
}

// OnType registers a function for the events with a wire name, for consumers that treat many types alike. It panics
// when the name is not in the registry of events.
func OnType[S any](name string, handle func(state S, r *eventstore.Recorded)) Handler[S] {
	if events.Default.Version(name) == 0 {
		panic("feed: unknown event type: " + name)
	}
	return Handler[S]{name, handle}
}

// NewHandlers panics on an event type that is registered twice, and on an empty list: a consumer without types would
// get every event.
func NewHandlers[S any](handlers ...Handler[S]) *Handlers[S] {
	if len(handlers) == 0 {
		panic("feed: no handlers")
	}
	h := &Handlers[S]{byType: map[string]func(S, *eventstore.Recorded){}}
	for _, one := range handlers {
		if h.byType[one.eventType] != nil {
			panic("feed: two handlers for " + one.eventType)
		}
		h.types, h.byType[one.eventType] = append(h.types, one.eventType), one.handle
	}
	return h
}

// Types are the wire names of the events that have a function, in the order of registration, for Consumer.Types.
func (h *Handlers[S]) Types() []string { return slices.Clone(h.types) }

// Handle calls the functions for events, in their order. Events of other types are skipped.
func (h *Handlers[S]) Handle(state S, recorded []eventstore.Recorded) {
	for i := range recorded {
		if handle := h.byType[recorded[i].Type]; handle != nil {
			handle(state, &recorded[i])
		}
	}
}
