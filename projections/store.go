package projections

import (
	"strings"

	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/projections/readmodel"
)

// Store answers the queries of all resources. It may be used concurrently.
type Store struct {
	*readmodel.Reader
	counts *segmentCounts
	base   string // see SetBaseURL
}

// NewStore makes a store of a ledger's read models. Close it when it is no longer used.
func NewStore(ledger *eventstore.Ledger, progress *feed.Progress) *Store {
	return &Store{Reader: readmodel.NewReader(ledger, progress), counts: newSegmentCounts()}
}

// SetBaseURL sets the address at which clients reach the service. Links to attachments begin with it. Call it before
// the first query.
func (s *Store) SetBaseURL(base string) { s.base = strings.TrimSuffix(base, "/") }

// Close stops counts of segments that are still running. Queries end with their contexts.
func (s *Store) Close() { s.counts.close() }
