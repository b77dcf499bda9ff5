package projections

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"

	"ledgerline/events"
	"ledgerline/eventstore"
)

// views are the resources that a batch of events is told with, read together.
type views struct {
	histories     map[string][]eventstore.Recorded // streams of messages, and of contacts for how they began
	contacts      map[string]Contact
	conversations map[string]Conversation
	lines         map[string]Line
	owners        map[uuid.UUID][]string // lines that were asked for, by organisation
	store         *Store
}

func newViews(store *Store) *views {
	return &views{
		store:     store,
		histories: map[string][]eventstore.Recorded{}, contacts: map[string]Contact{},
		conversations: map[string]Conversation{}, lines: map[string]Line{}, owners: map[uuid.UUID][]string{},
	}
}

// What is asked for is an empty entry until it is loaded.
func (v *views) history(id string)      { v.histories[id] = nil }
func (v *views) contact(id string)      { v.contacts[id] = Contact{} }
func (v *views) conversation(id string) { v.conversations[id] = Conversation{} }

func (v *views) line(r *eventstore.Recorded, id string) {
	v.owners[r.OrganisationID] = append(v.owners[r.OrganisationID], id)
}

func (v *views) consent(r *eventstore.Recorded, e *events.ConsentEvidence) {
	v.contact(e.ContactID)
	v.history(e.ContactID)
	if e.LineID != nil {
		v.line(r, *e.LineID)
	}
}

func (v *views) load(ctx context.Context, s *Store) (err error) {
	streams := slices.Collect(maps.Keys(v.histories))
	if len(streams) > 0 {
		recorded, err := s.Ledger().LoadMany(ctx, streams, make([]int, len(streams)))
		if err != nil {
			return fmt.Errorf("projections: tell: %w", err)
		}
		for i := range recorded {
			v.histories[recorded[i].Stream] = append(v.histories[recorded[i].Stream], recorded[i])
		}
	}
	if err := fillView(ctx, v.contacts, s.ContactsByID, func(c *Contact) string { return c.ID }); err != nil {
		return err
	}
	if err := fillView(ctx, v.conversations, s.ConversationsByID, func(c *Conversation) string { return c.ID }); err != nil {
		return err
	}
	for organisation, ids := range v.owners {
		found, err := s.LinesByID(ctx, organisation, ids)
		if err != nil {
			return err
		}
		for i := range found {
			v.lines[found[i].ID] = found[i]
		}
	}
	return nil
}

// fillView reads what was asked for; what does not exist is taken out.
func fillView[T any](ctx context.Context, asked map[string]T, read func(context.Context, []string) ([]T, error), id func(*T) string) error {
	if len(asked) == 0 {
		return nil
	}
	ids := slices.Collect(maps.Keys(asked))
	clear(asked)
	found, err := read(ctx, ids)
	for i := range found {
		asked[id(&found[i])] = found[i]
	}
	return err
}
