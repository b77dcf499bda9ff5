package payload

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"

	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/projections"
)

// resources are the resources with which a batch of events is rendered. They are collected first and then read
// together.
type resources struct {
	store         *projections.Store
	streams       map[string][]eventstore.Recorded // of messages, and of contacts for their first event; by id
	contacts      map[string]projections.Contact
	conversations map[string]projections.Conversation
	runs          map[string]projections.WorkflowRun
	lines         map[string]projections.Line
	lineIDs       map[uuid.UUID][]string // of the lines to read, by organisation
}

func newResources(store *projections.Store) *resources {
	return &resources{
		store: store, streams: map[string][]eventstore.Recorded{}, contacts: map[string]projections.Contact{},
		conversations: map[string]projections.Conversation{}, runs: map[string]projections.WorkflowRun{}, lines: map[string]projections.Line{}, lineIDs: map[uuid.UUID][]string{},
	}
}

// A resource that is to be read is an empty entry until load has read it.
func (res *resources) addStream(id string)       { res.streams[id] = nil }
func (res *resources) addContact(id string)      { res.contacts[id] = projections.Contact{} }
func (res *resources) addConversation(id string) { res.conversations[id] = projections.Conversation{} }

func (res *resources) addRun(id uuid.UUID) { res.runs[id.String()] = projections.WorkflowRun{} }

func (res *resources) addLine(r *eventstore.Recorded, id string) {
	res.lineIDs[r.OrganisationID] = append(res.lineIDs[r.OrganisationID], id)
}

// addConsent adds the resources with which a change of consent is rendered.
func (res *resources) addConsent(r *eventstore.Recorded, e *events.ConsentEvidence) {
	res.addContact(e.ContactID)
	res.addStream(e.ContactID)
	if e.LineID != nil {
		res.addLine(r, *e.LineID)
	}
}

func (res *resources) load(ctx context.Context) error {
	ids := slices.Collect(maps.Keys(res.streams))
	if len(ids) > 0 {
		recorded, err := res.store.Ledger().LoadMany(ctx, ids, make([]int, len(ids)))
		if err != nil {
			return fmt.Errorf("payload: read streams: %w", err)
		}
		for i := range recorded {
			res.streams[recorded[i].Stream] = append(res.streams[recorded[i].Stream], recorded[i])
		}
	}
	if err := fill(ctx, res.contacts, res.store.ContactsByID, func(c *projections.Contact) string { return c.ID }); err != nil {
		return err
	}
	err := fill(ctx, res.conversations, res.store.ConversationsByID, func(c *projections.Conversation) string { return c.ID })
	if err != nil {
		return err
	}
	if err := fill(ctx, res.runs, res.store.WorkflowRunsByID, func(r *projections.WorkflowRun) string { return r.ID }); err != nil {
		return err
	}
	for organisation, lineIDs := range res.lineIDs {
		found, err := res.store.LinesByID(ctx, organisation, lineIDs)
		if err != nil {
			return err
		}
		for i := range found {
			res.lines[found[i].ID] = found[i]
		}
	}
	return nil
}

// fill reads the resources whose ids are the keys of a map, and removes the keys of those that do not exist.
func fill[T any](ctx context.Context, byID map[string]T, read func(context.Context, []string) ([]T, error), id func(*T) string) error {
	if len(byID) == 0 {
		return nil
	}
	ids := slices.Collect(maps.Keys(byID))
	clear(byID)
	found, err := read(ctx, ids)
	for i := range found {
		byID[id(&found[i])] = found[i]
	}
	return err
}
