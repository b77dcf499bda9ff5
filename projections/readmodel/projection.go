// Package readmodel is the engine of the read models: tables that are built from the ledger's events, and queries on
// them.
//
// Writing: a Projection turns events into Changes of its Tables. Each program version and each replay has a revision of
// its own: its tables are in the schema p_<id>_<revision>, and the views in the schema "read" show the active revision.
// Prepare creates what is missing, Replay builds a new revision beside the active one and swaps the two.
//
// Reading: a Reader runs queries on the views, and waits until they show an event. Filter, List, One and Page build the
// queries; Select derives columns and scan from the struct that the API shows.
package readmodel

import (
	"fmt"

	"github.com/jackc/pgx/v5"

	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
)

// Projection turns events into the rows of its tables. It reads nothing else, so that a replay gives the same rows.
type Projection struct {
	// ID names the projection, its schemas and its consumer.
	ID string
	// Program is the version of the tables and of the meaning of their rows. Increment it with every change of either.
	// When it differs from the stored version, the next start builds a new revision.
	Program int
	Tables  []*Table
	// Triggers maintain tables that are derived from other tables of the same projection. They are created with the
	// tables; @ stands for the schema.
	Triggers []string
	// Indexes are created after a replay has written the rows; @ stands for the schema.
	Indexes []string
	// Handlers say what each event changes.
	Handlers *feed.Handlers[*Changes]
}

// Name implements feed.Consumer.
func (p *Projection) Name() string { return p.ID }

// Types implements feed.Consumer.
func (p *Projection) Types() []string { return p.Handlers.Types() }

// Write implements feed.Consumer.
func (p *Projection) Write(b *pgx.Batch, revision int, recorded []eventstore.Recorded) error {
	return p.write(b, p.schema(revision), recorded)
}

// Committed implements feed.Consumer.
func (p *Projection) Committed(*feed.Batch) {}

func (p *Projection) write(b *pgx.Batch, schema string, recorded []eventstore.Recorded) error {
	c := NewChanges(p.Tables...)
	p.Handlers.Handle(c, recorded)
	return c.addTo(b, schema)
}

func (p *Projection) schema(revision int) string { return fmt.Sprintf("p_%s_%d", p.ID, revision) }
