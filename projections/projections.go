// Package projections contains the read models: one file for each resource, with its tables, how events change them,
// and the queries that read them. All of it is derived from the ledger and can be built again from it. Package
// readmodel is the engine below.
package projections

import (
	"context"
	"log/slog"

	"ledgerline/eventstore"
	"ledgerline/projections/readmodel"
)

// All are the projections of the service.
func All() []*readmodel.Projection {
	return []*readmodel.Projection{Contacts, Segments, Messages, Consent, Lines, LineRequests, Usage, Directory, Conversations, SavedReplies, Credentials, Audit, Imports, Webhooks, Workflows, Runs, Agents, Outreaches, SMSConnections}
}

// Named finds a projection by its ID; nil when there is none.
func Named(name string) *readmodel.Projection {
	for _, p := range All() {
		if p.ID == name {
			return p
		}
	}
	return nil
}

// Prepare is readmodel.Prepare for all projections.
func Prepare(ctx context.Context, ledger *eventstore.Ledger, log *slog.Logger) error {
	return readmodel.Prepare(ctx, ledger, All(), log)
}
