// Package projections holds the read models. Everything here is derived from the ledger and can be built anew from
// it; a file holds one read model whole: its tables, how events change them, and the queries that read them.
//
// Tables lie in a schema per revision, p_<name>_<revision>; the views in the schema "read" show the active revision,
// and all queries go through them.
package projections

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
)

// Projection turns events into the rows of its tables, and reads nothing from elsewhere.
type Projection struct {
	// ID names the projection; Program counts up whenever the tables or the meaning of their rows change, which makes
	// a new revision be built at the next start.
	ID      string
	Program int
	Tables  []*Table
	// Triggers keep tables that follow from others of the same projection. They are made with the tables; @ stands for the schema.
	Triggers []string
	// Indexes are made after a revision has caught up; @ stands for its schema.
	Indexes []string
	// Handlers say what each event changes. They are called in the order of the ledger.
	Handlers *feed.Handlers[*Changes]

	// Wants and Project are the same for projections that list their event types by hand.
	Wants   []string
	Project func(e *eventstore.Recorded, c *Changes)
}

// All are the projections of the service.
func All() []*Projection {
	return []*Projection{Contacts, Segments, Messages, Consent, Lines, LineRequests, Usage, Directory, Conversations, SavedReplies, Credentials, Audit, Imports, Webhooks}
}

// Named finds a projection; nil when there is none.
func Named(name string) *Projection {
	for _, p := range All() {
		if p.ID == name {
			return p
		}
	}
	return nil
}

// Name implements feed.Consumer.
func (p *Projection) Name() string { return p.ID }

// Types implements feed.Consumer.
func (p *Projection) Types() []string {
	if p.Handlers != nil {
		return p.Handlers.Types()
	}
	return p.Wants
}

// Write implements feed.Consumer.
func (p *Projection) Write(b *pgx.Batch, revision int, recorded []eventstore.Recorded) error {
	return p.write(b, p.schema(revision), recorded)
}

// Committed implements feed.Consumer.
func (p *Projection) Committed(*feed.Batch) {}

func (p *Projection) write(b *pgx.Batch, schema string, recorded []eventstore.Recorded) error {
	c := NewChanges(p.Tables...)
	if p.Handlers != nil {
		p.Handlers.Handle(c, recorded)
		return c.queue(b, schema)
	}
	for i := range recorded {
		p.Project(&recorded[i], c)
	}
	return c.queue(b, schema)
}

func (p *Projection) schema(revision int) string { return fmt.Sprintf("p_%s_%d", p.ID, revision) }

// stamp is a time as the tables take it: fixed width, so that texts compare as times do.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
